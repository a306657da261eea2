package named

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"os"
	"slices"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/client-go/util/cert"
)

// checkKubeconfig loads the file as the clients will, files it names included, and makes what they are made of.
func checkKubeconfig(name string, _ []byte) error {
	return checkLoaded(name, "", checkClient)
}

// checkConnection is checkKubeconfig for the connection to the API server, whose credentials have to be usable: the
// process does not start without them. server replaces the one in the file if it is not empty.
func checkConnection(server string) func(name string, content []byte) error {
	return func(name string, _ []byte) error {
		return checkLoaded(name, server, func(config *rest.Config) error {
			if err := checkCredentials(config, time.Now()); err != nil {
				return err
			}
			return checkClient(config)
		})
	}
}

// checkLoaded loads a kubeconfig and checks what it leads to.
func checkLoaded(name, server string, check func(*rest.Config) error) error {
	config, err := loadKubeconfig(name, server)
	if err != nil {
		return err
	}
	if err := check(config); err != nil {
		return fmt.Errorf("%s cannot be used: %w", name, err)
	}
	return nil
}

// checkClient refuses what no client can be made of: a server that is no URL, a CA that is none or is given although
// the certificate of the server is not to be verified, an unknown plugin for credentials. It sends nothing.
func checkClient(config *rest.Config) error {
	if _, _, err := rest.DefaultServerUrlFor(config); err != nil {
		return err
	}
	_, err := rest.TLSConfigFor(config)
	return err
}

func loadKubeconfig(name, server string) (*rest.Config, error) {
	config, err := ReadKubeconfig(name, server)
	if err != nil {
		return nil, fmt.Errorf("%s is not a valid kubeconfig: %w", name, err)
	}
	return config, nil
}

// ReadKubeconfig reads how to reach an API server from a kubeconfig. server replaces the one in the file if it is not
// empty. A file that names no cluster, such as one that is still empty, is an error: client-go would take the
// credentials of the pod that the process runs in instead, which lead to another API server.
func ReadKubeconfig(name, server string) (*rest.Config, error) {
	loaded, err := clientcmd.LoadFromFile(name)
	if err == nil {
		err = clientcmd.ResolveLocalPaths(loaded)
	}
	if err == nil {
		err = checkRegular(FilesOf(loaded))
	}
	if err != nil {
		return nil, err
	}
	from := &clientcmd.ClientConfigLoadingRules{ExplicitPath: name}
	overrides := &clientcmd.ConfigOverrides{ClusterInfo: clientcmdapi.Cluster{Server: server}}
	return clientcmd.NewNonInteractiveClientConfig(*loaded, "", overrides, from).ClientConfig()
}

// checkCredentials refuses what the process refuses when it reads the kubeconfig: a CA that is none, an empty token
// file, and a client certificate that does not belong to its key or has expired.
func checkCredentials(config *rest.Config, now time.Time) error {
	c := rest.CopyConfig(config)
	if err := rest.LoadTLSFiles(c); err != nil {
		return err
	}
	if c.BearerTokenFile != "" {
		token, err := os.ReadFile(c.BearerTokenFile)
		if err != nil {
			return fmt.Errorf("reading the token: %w", err)
		}
		if len(bytes.TrimSpace(token)) == 0 {
			return fmt.Errorf("the token file %s is empty", c.BearerTokenFile)
		}
	}
	if len(c.CAData) > 0 {
		if _, err := cert.ParseCertsPEM(c.CAData); err != nil {
			return fmt.Errorf("the CA of the API server is no certificate in PEM format: %w", err)
		}
	}
	if len(c.CertData) == 0 && len(c.KeyData) == 0 {
		return nil
	}
	pair, err := tls.X509KeyPair(c.CertData, c.KeyData)
	switch {
	case err != nil:
		return fmt.Errorf("the client certificate and its key do not match: %w", err)
	case now.After(pair.Leaf.NotAfter):
		return fmt.Errorf("the client certificate expired at %s", pair.Leaf.NotAfter.UTC().Format(time.RFC3339))
	}
	return nil
}

// checkRegular refuses what client-go must not open: reading a named pipe would block without limit. Whether a file
// exists is left to client-go.
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
