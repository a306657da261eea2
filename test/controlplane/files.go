package controlplane

import (
	"fmt"
	"os"
	"path/filepath"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// Identities the control plane's own certificates carry.
const (
	// ManagerUser is who kube-controller-manager is to the API server.
	ManagerUser     = "system:kube-controller-manager"
	adminUser       = "kcmd-admin"
	adminGroup      = "system:masters"
	frontProxyUser  = "front-proxy-client"
	serviceNetwork  = "10.0.0.0/16"
	serviceFirstIP  = "10.0.0.1"
	contentProtobuf = "application/vnd.kubernetes.protobuf"
)

// credentials are the authorities of one control plane.
type credentials struct {
	cluster, etcd, frontProxy *authority
}

func (c *ControlPlane) path(name string) string { return filepath.Join(c.dir, name) }

// logFile returns the path of the log of a program. Logs are in a folder of their own: managers watch the folders of
// the files that they read, and every line would wake them.
func (c *ControlPlane) logFile(program string) string {
	return c.path(filepath.Join("logs", program+".log"))
}

// Dir returns the folder with data, logs (*.log), certificates and kubeconfigs.
func (c *ControlPlane) Dir() string { return c.dir }

// URL returns the address of the API server.
func (c *ControlPlane) URL() string { return fmt.Sprintf("https://127.0.0.1:%d", c.ports.apiServer) }

// RootCAFile holds the authority of the cluster: of the API server's serving
// certificate and of every client certificate.
func (c *ControlPlane) RootCAFile() string { return c.path("ca.crt") }

// RootCAKeyFile holds the cluster authority's key, for controllers that sign
// certificates.
func (c *ControlPlane) RootCAKeyFile() string { return c.path("ca.key") }

// ServiceAccountKeyFile holds the private key that signs service account tokens.
func (c *ControlPlane) ServiceAccountKeyFile() string { return c.path("sa.key") }

// ServiceAccountPublicKeyFile holds the key the API server verifies them with.
func (c *ControlPlane) ServiceAccountPublicKeyFile() string { return c.path("sa.pub") }

// RequestHeaderCAFile holds the authority of the aggregation layer's front proxy.
func (c *ControlPlane) RequestHeaderCAFile() string { return c.path("front-proxy-ca.crt") }

// FrontProxyClientCertFile and FrontProxyClientKeyFile are what the API server
// shows to aggregated API servers.
func (c *ControlPlane) FrontProxyClientCertFile() string { return c.path("front-proxy-client.crt") }

// FrontProxyClientKeyFile is the key of FrontProxyClientCertFile.
func (c *ControlPlane) FrontProxyClientKeyFile() string { return c.path("front-proxy-client.key") }

// AdminKubeconfig is the file for user kcmd-admin, a member of system:masters.
func (c *ControlPlane) AdminKubeconfig() string { return c.path("admin.conf") }

// ManagerKubeconfig is the file for user system:kube-controller-manager, whose
// rights are those of the bootstrap RBAC policy.
func (c *ControlPlane) ManagerKubeconfig() string { return c.path("controller-manager.conf") }

// AdminConfig returns a new client configuration for the administrator: without
// client-side rate limit, protobuf where the type allows it.
func (c *ControlPlane) AdminConfig() *rest.Config { return rest.CopyConfig(c.admin) }

// Config returns a client configuration for any user, like AdminConfig.
func (c *ControlPlane) Config(user string, groups ...string) (*rest.Config, error) {
	pair, err := c.credentials.cluster.client(user, groups...)
	if err != nil {
		return nil, err
	}
	return &rest.Config{
		Host: c.URL(),
		QPS:  -1,
		ContentConfig: rest.ContentConfig{
			ContentType:        contentProtobuf,
			AcceptContentTypes: contentProtobuf + ",application/json",
		},
		TLSClientConfig: rest.TLSClientConfig{CAData: c.credentials.cluster.cert, CertData: pair.cert, KeyData: pair.key},
	}, nil
}

// Kubeconfig writes the file NAME.conf into Dir for any user and groups; the
// certificates are part of it, so it may be copied.
func (c *ControlPlane) Kubeconfig(name, user string, groups ...string) (path string, err error) {
	return c.KubeconfigVia(c.URL(), name, user, groups...)
}

// KubeconfigVia is Kubeconfig for clients that reach the API server by another URL.
func (c *ControlPlane) KubeconfigVia(server, name, user string, groups ...string) (path string, err error) {
	pair, err := c.credentials.cluster.client(user, groups...)
	if err != nil {
		return "", err
	}
	const cluster = "sandbox"
	config := clientcmdapi.NewConfig()
	config.Clusters[cluster] = &clientcmdapi.Cluster{Server: server, CertificateAuthorityData: c.credentials.cluster.cert}
	config.AuthInfos[user] = &clientcmdapi.AuthInfo{ClientCertificateData: pair.cert, ClientKeyData: pair.key}
	config.Contexts[cluster] = &clientcmdapi.Context{Cluster: cluster, AuthInfo: user}
	config.CurrentContext = cluster
	path = c.path(name + ".conf")
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		return "", fmt.Errorf("writing the kubeconfig of %s: %w", user, err)
	}
	return path, nil
}

// writeCertificates creates the authorities and every file that does not depend
// on a port.
func (c *ControlPlane) writeCertificates() error {
	var err error
	if c.credentials.cluster, err = newAuthority("kubernetes"); err != nil {
		return err
	}
	if c.credentials.etcd, err = newAuthority("etcd-ca"); err != nil {
		return err
	}
	if c.credentials.frontProxy, err = newAuthority("front-proxy-ca"); err != nil {
		return err
	}
	names := []string{"kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local"}
	for name, issue := range map[string]func() (keyPair, error){
		"ca":                 func() (keyPair, error) { return c.credentials.cluster.keyPair, nil },
		"etcd-ca":            func() (keyPair, error) { return c.credentials.etcd.keyPair, nil },
		"front-proxy-ca":     func() (keyPair, error) { return c.credentials.frontProxy.keyPair, nil },
		"etcd":               func() (keyPair, error) { return c.credentials.etcd.server("etcd", nil) },
		"etcd-client":        func() (keyPair, error) { return c.credentials.etcd.client("kube-apiserver") },
		"apiserver":          func() (keyPair, error) { return c.credentials.cluster.server("kube-apiserver", names, serviceFirstIP) },
		"front-proxy-client": func() (keyPair, error) { return c.credentials.frontProxy.client(frontProxyUser) },
	} {
		pair, err := issue()
		if err != nil {
			return err
		}
		if err := pair.write(c.path(name+".crt"), c.path(name+".key")); err != nil {
			return err
		}
	}
	return nil
}

func (c *ControlPlane) writeServiceAccountKey() error {
	private, public, err := newServiceAccountKey()
	if err != nil {
		return err
	}
	if err := os.WriteFile(c.ServiceAccountKeyFile(), private, 0o600); err != nil {
		return fmt.Errorf("writing the service account key: %w", err)
	}
	if err := os.WriteFile(c.ServiceAccountPublicKeyFile(), public, 0o600); err != nil {
		return fmt.Errorf("writing the service account key: %w", err)
	}
	return nil
}

// writeKubeconfigs writes the files of the known identities. They name the API
// server's port, so they are written again when another port is tried.
func (c *ControlPlane) writeKubeconfigs() error {
	for _, identity := range []struct {
		name, user string
		groups     []string
	}{
		{"admin", adminUser, []string{adminGroup}},
		{"controller-manager", ManagerUser, nil},
		{"scheduler", "system:kube-scheduler", nil},
		{"kwok", "kwok-controller", []string{adminGroup}},
	} {
		if _, err := c.Kubeconfig(identity.name, identity.user, identity.groups...); err != nil {
			return err
		}
	}
	return nil
}
