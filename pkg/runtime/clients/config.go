package clients

import (
	"fmt"
	goruntime "runtime"
	"strings"

	"k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// component is what every user agent starts with.
const component = "kube-controller-manager"

// LoadConfig reads how to reach the API server from a kubeconfig file or, if its path is
// empty, from the pod the process runs in. Compression of responses is off, warnings of the
// API server are dropped. An empty contentType means JSON, empty acceptContentTypes mean
// client-go's default.
func LoadConfig(kubeconfig, contentType, acceptContentTypes string) (*rest.Config, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("loading client configuration: %w", err)
	}
	config.DisableCompression = true
	config.ContentType = contentType
	config.AcceptContentTypes = acceptContentTypes
	config.WarningHandler = rest.NoWarnings{}
	return config, nil
}

// UserAgent is what a client with the given suffix calls itself.
func UserAgent(v version.Info, suffix string) string {
	gitVersion, _, _ := strings.Cut(v.GitVersion, "-")
	if gitVersion == "" {
		gitVersion = "unknown"
	}
	commit := v.GitCommit
	if commit == "" {
		commit = "unknown"
	}
	commit = commit[:min(len(commit), 7)]
	return fmt.Sprintf("%s/%s (%s/%s) kubernetes/%s/%s", component, gitVersion, goruntime.GOOS, goruntime.GOARCH, commit, suffix)
}
