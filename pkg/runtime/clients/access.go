package clients

import (
	"bytes"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/util/cert"

	"kcmd.dev/pkg/config/named"
	"kcmd.dev/pkg/runtime/source"
)

// Where a pod finds the address of the API server and its credentials.
const (
	podTokenFile = "/var/run/secrets/kubernetes.io/serviceaccount/token"
	podCAFile    = "/var/run/secrets/kubernetes.io/serviceaccount/ca.crt"
)

// Access is how the process reaches the API server, with the content of every file that
// has a part in it.
type Access struct {
	// Config holds certificates, keys and token themselves; it names no file.
	Config *rest.Config
	// Files are the files that this was read from, the kubeconfig first.
	Files []string

	user string // of the kubeconfig: the owner of an opaque token
}

// LoadAccess is loadConfig that reads the files named in the kubeconfig too, and refuses what
// cannot work: a certificate that does not belong to its key or has expired, a CA file
// without a certificate, an empty token file. now is compared with the expiry of
// certificates. If it fails, the result still has the Files that were found.
func LoadAccess(from Source, now time.Time) (*Access, error) {
	a := &Access{Files: []string{podTokenFile, podCAFile}}
	if from.Kubeconfig != "" {
		if err := a.find(from.Kubeconfig); err != nil {
			return a, fmt.Errorf("loading client configuration: %w", err)
		}
	}
	config, err := loadConfig(from)
	if err != nil {
		return a, err
	}
	a.Config = config
	if err := a.resolve(now); err != nil {
		return a, fmt.Errorf("loading client configuration: %w", err)
	}
	return a, nil
}

// find notes the files that belong to a kubeconfig. It refuses those that client-go must not read: it would wait
// without limit for what comes out of a named pipe, and take all that comes out of a device.
func (a *Access) find(kubeconfig string) error {
	a.Files = []string{kubeconfig}
	if _, _, err := source.Read(kubeconfig, named.MaxFileBytes); err != nil {
		return err
	}
	a.Files = append(a.Files, a.namedIn(kubeconfig)...)
	for _, path := range a.Files[1:] {
		if _, _, err := source.Read(path, named.MaxFileBytes); err != nil {
			return err
		}
	}
	return nil
}

// namedIn returns the files that the current context of a kubeconfig names; none if it cannot
// be read, which loadConfig reports.
func (a *Access) namedIn(kubeconfig string) []string {
	loaded, err := clientcmd.LoadFromFile(kubeconfig)
	if err != nil || clientcmd.ResolveLocalPaths(loaded) != nil {
		return nil
	}
	if current := loaded.Contexts[loaded.CurrentContext]; current != nil {
		a.user = current.AuthInfo
	}
	return named.FilesOf(loaded)
}

// resolve replaces the names of files by their contents.
func (a *Access) resolve(now time.Time) error {
	c := a.Config
	if err := rest.LoadTLSFiles(c); err != nil {
		return fmt.Errorf("reading a file that the client configuration names: %w", err)
	}
	c.CAFile, c.CertFile, c.KeyFile = "", "", ""
	if c.BearerTokenFile != "" {
		token, err := os.ReadFile(c.BearerTokenFile)
		if err != nil {
			return fmt.Errorf("reading the token: %w", err)
		}
		c.BearerToken = strings.TrimSpace(string(token))
		if c.BearerToken == "" {
			return fmt.Errorf("the token file %s is empty", c.BearerTokenFile)
		}
		c.BearerTokenFile = ""
	}
	if len(c.CAData) > 0 {
		if _, err := cert.ParseCertsPEM(c.CAData); err != nil {
			return fmt.Errorf("reading the CA of the API server: %w", err)
		}
	}
	return a.checkPair(now)
}

// checkPair refuses a client certificate that cannot be used with its key at this time.
func (a *Access) checkPair(now time.Time) error {
	c := a.Config
	if len(c.CertData) == 0 && len(c.KeyData) == 0 {
		return nil
	}
	if _, err := tls.X509KeyPair(c.CertData, c.KeyData); err != nil {
		return fmt.Errorf("checking the client certificate and its key: %w", err)
	}
	leaf, err := a.leaf()
	if err != nil {
		return err
	}
	if now.After(leaf.NotAfter) {
		return fmt.Errorf("the client certificate expired at %s", leaf.NotAfter.Format(time.RFC3339))
	}
	return nil
}

func (a *Access) leaf() (*x509.Certificate, error) {
	chain, err := cert.ParseCertsPEM(a.Config.CertData)
	if err != nil {
		return nil, fmt.Errorf("parsing the client certificate: %w", err)
	}
	return chain[0], nil
}

// Difference is what has to be done to get from one Access to another.
type Difference int

const (
	// Same: nothing.
	Same Difference = iota
	// Renewed: the same API server reached as the same user, with other credentials. Clients
	// and caches can go on with them, see Clients.Renew.
	Renewed
	// Elsewhere: another server, or another user. What was cached may not be what is there.
	Elsewhere
)

// Compare returns how b differs from a.
func (a *Access) Compare(b *Access) (Difference, error) {
	whereA, err := a.where()
	if err != nil {
		return Elsewhere, err
	}
	whereB, err := b.where()
	if err != nil {
		return Elsewhere, err
	}
	switch {
	case whereA != whereB:
		return Elsewhere, nil
	case a.transportKey() == b.transportKey() && a.Config.BearerToken == b.Config.BearerToken:
		return Same, nil
	}
	return Renewed, nil
}

// where identifies the server and the user.
func (a *Access) where() (string, error) {
	c := a.Config
	exec, err := json.Marshal([]any{c.ExecProvider, c.AuthProvider})
	if err != nil {
		return "", fmt.Errorf("comparing client configurations: %w", err)
	}
	who, err := a.subject()
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%s %s %q %q %q %s %s %v", c.Host, c.APIPath, c.ContentType, c.AcceptContentTypes,
		c.Impersonate.UserName, who, exec, c.Impersonate), nil
}

// subject returns whom the credentials are for, as far as they show it: the subject of the
// certificate, the user name, the subject of a JSON web token. For an opaque token it is the
// user of the kubeconfig.
func (a *Access) subject() (string, error) {
	c := a.Config
	var who []string
	if len(c.CertData) > 0 {
		leaf, err := a.leaf()
		if err != nil {
			return "", err
		}
		groups := slices.Sorted(slices.Values(leaf.Subject.Organization))
		who = append(who, fmt.Sprintf("certificate of %q in %q", leaf.Subject.CommonName, groups))
	}
	if c.Username != "" {
		who = append(who, fmt.Sprintf("user %q", c.Username))
	}
	if c.BearerToken != "" {
		who = append(who, fmt.Sprintf("token of %q", a.tokenSubject()))
	}
	return strings.Join(who, ", "), nil
}

func (a *Access) tokenSubject() string {
	parts := strings.Split(a.Config.BearerToken, ".")
	if len(parts) != 3 {
		return a.user
	}
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return a.user
	}
	var claims struct {
		Issuer  string `json:"iss"`
		Subject string `json:"sub"`
	}
	if json.NewDecoder(bytes.NewReader(payload)).Decode(&claims) != nil || claims.Subject == "" {
		return a.user
	}
	return claims.Issuer + " " + claims.Subject
}

// transportKey identifies what connections are made with.
func (a *Access) transportKey() string { return a.anonymousKey() + a.ownKey() }

// anonymousKey identifies what connections without credentials are made with.
func (a *Access) anonymousKey() string {
	c := a.Config
	return digest(c.CAData, fmt.Appendf(nil, "%v %q %q %q %v", c.Insecure, c.ServerName, c.NextProtos, a.proxy(), c.DisableCompression))
}

// ownKey identifies the credentials that connections are made with.
func (a *Access) ownKey() string {
	return digest(a.Config.CertData, a.Config.KeyData, []byte(a.Config.Password))
}

// proxy is the address of the proxy that the kubeconfig names.
func (a *Access) proxy() string {
	if a.Config.Proxy == nil {
		return ""
	}
	host, err := url.Parse(a.Config.Host)
	if err != nil {
		return ""
	}
	address, err := a.Config.Proxy(&http.Request{URL: host})
	switch {
	case err != nil:
		return err.Error()
	case address == nil:
		return ""
	}
	return address.String()
}

func digest(parts ...[]byte) string {
	h := sha256.New()
	for _, part := range parts {
		_, _ = fmt.Fprintf(h, "%d:", len(part))
		_, _ = h.Write(part)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// errNoAccess is what New fails with without Options.Base.
var errNoAccess = errors.New("creating clients: Base is required")
