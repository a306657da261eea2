package clients

import (
	"cmp"
	"fmt"
	goruntime "runtime"
	"strings"

	"k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"kcmd.dev/pkg/config/named"
)

// component is what every user agent starts with.
const component = "kube-controller-manager"

// Source is where to find out how to reach the API server.
type Source struct {
	// Kubeconfig is the path of a kubeconfig file. Empty means the credentials of the pod
	// the process runs in.
	Kubeconfig string
	// Server is the URL of the API server, instead of the one in the kubeconfig. Default:
	// empty, the one in the kubeconfig.
	Server string
	// ContentType of bodies that are sent. Empty means JSON.
	ContentType string
	// AcceptContentTypes is the header Accept. Empty means client-go's default.
	AcceptContentTypes string
}

// loadConfig reads how to reach the API server. Compression of responses is off, warnings
// of the API server are dropped. Files that the kubeconfig names are named in the result
// too; see LoadAccess.
func loadConfig(from Source) (*rest.Config, error) {
	config, err := restConfig(from)
	if err != nil {
		return nil, fmt.Errorf("loading client configuration: %w", err)
	}
	config.DisableCompression = true
	config.ContentType = from.ContentType
	config.AcceptContentTypes = from.AcceptContentTypes
	config.WarningHandler = rest.NoWarnings{}
	return config, nil
}

func restConfig(from Source) (*rest.Config, error) {
	if from.Kubeconfig == "" {
		return clientcmd.BuildConfigFromFlags(from.Server, "")
	}
	return named.ReadKubeconfig(from.Kubeconfig, from.Server)
}

// userAgent returns the user agent of a client with the given suffix.
func userAgent(v version.Info, suffix string) string {
	gitVersion, _, _ := strings.Cut(v.GitVersion, "-")
	commit := cmp.Or(v.GitCommit, "unknown")
	return fmt.Sprintf("%s/%s (%s/%s) kubernetes/%s/%s", component, cmp.Or(gitVersion, "unknown"),
		goruntime.GOOS, goruntime.GOARCH, commit[:min(len(commit), 7)], suffix)
}
