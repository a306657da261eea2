package named

import (
	"fmt"
	"os"
	"slices"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// checkKubeconfig loads the file as the clients will, files it names included.
func checkKubeconfig(name string, _ []byte) error {
	loaded, err := clientcmd.LoadFromFile(name)
	if err == nil {
		err = clientcmd.ResolveLocalPaths(loaded)
	}
	if err == nil {
		err = checkRegular(FilesOf(loaded))
	}
	if err == nil {
		_, err = clientcmd.NewDefaultClientConfig(*loaded, &clientcmd.ConfigOverrides{}).ClientConfig()
	}
	if err != nil {
		return fmt.Errorf("%s is not a valid kubeconfig: %w", name, err)
	}
	return nil
}

// checkRegular refuses what client-go must not open: it would wait without limit for what comes out of a named
// pipe. Whether a file exists is left to client-go.
func checkRegular(files []string) error {
	for _, file := range files {
		if info, err := os.Stat(file); err == nil && !info.Mode().IsRegular() {
			return fmt.Errorf("%s is not a file", file)
		}
	}
	return nil
}

// FilesOf lists the files that clients read for the current context of a kubeconfig, whose relative paths
// clientcmd.ResolveLocalPaths has resolved.
func FilesOf(loaded *clientcmdapi.Config) []string {
	current := loaded.Contexts[loaded.CurrentContext]
	if current == nil {
		return nil
	}
	var files []string
	if c := loaded.Clusters[current.Cluster]; c != nil && len(c.CertificateAuthorityData) == 0 {
		files = append(files, c.CertificateAuthority)
	}
	if u := loaded.AuthInfos[current.AuthInfo]; u != nil {
		if len(u.ClientCertificateData) == 0 {
			files = append(files, u.ClientCertificate)
		}
		if len(u.ClientKeyData) == 0 {
			files = append(files, u.ClientKey)
		}
		files = append(files, u.TokenFile)
	}
	return slices.DeleteFunc(files, func(path string) bool { return path == "" })
}
