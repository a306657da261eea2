package endpoint

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"regexp"
	"strings"
	"syscall"
)

// Error is a failure with what to do about it.
type Error struct {
	// What went wrong, in a sentence.
	What string
	// Advice is what to do, on lines of its own; empty if there is none.
	Advice string

	cause error
	// Refused says that the process answered, and that asking again will not help.
	Refused bool
}

func (e *Error) Error() string {
	if e.Advice == "" {
		return e.What
	}
	return e.What + "\n" + e.Advice
}

// Unwrap is what caused it.
func (e *Error) Unwrap() error { return e.cause }

// unreachable explains why there is no answer.
func (c *Client) unreachable(err error) error {
	e := &Error{What: fmt.Sprintf("asking %s: %v", c.Server, err), cause: err}
	var (
		unknown   x509.UnknownAuthorityError
		hostname  x509.HostnameError
		record    tls.RecordHeaderError
		dns       *net.DNSError
		timeout   net.Error
		authority = errors.As(err, &unknown)
	)
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		e.What = fmt.Sprintf("nothing listens on %s: connection refused", c.Server)
		e.Advice = "Is the process running, on this machine? Its address is serving.bindAddress and serving.port of its configuration:\n" +
			"give --config with its file, or --server https://HOST:PORT."
	case authority:
		e.What = fmt.Sprintf("the certificate of %s is signed by an unknown authority", c.Server)
		e.Advice = "Give the authority with --ca-file. A process without serving.tls.certFile signs its certificate itself: with\n" +
			"serving.tls.certDirectory it is kube-controller-manager.crt in that directory; otherwise it is kept in memory, and only\n" +
			"--insecure-skip-tls-verify reaches the process."
	case errors.As(err, &hostname):
		e.What = fmt.Sprintf("the certificate of %s is for another name: %v", c.Server, hostname)
		e.Advice = "Give --server with a name or an address that is in the certificate."
	case errors.As(err, &record), errors.Is(err, http.ErrSchemeMismatch):
		e.What = fmt.Sprintf("what listens on %s does not speak TLS", c.Server)
		e.Advice = "Is it the secure port of a kube-controller-manager?"
	case errors.As(err, &dns):
		e.What = fmt.Sprintf("there is no host %s: %v", dns.Name, dns.Err)
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		e.What = fmt.Sprintf("%s does not answer in time", c.Server)
		e.Advice = "Is the address right, and not behind a firewall? --timeout sets how long to wait."
	}
	return e
}

// refused explains an answer that is an error.
func (c *Client) refused(path string, code int, message string) error {
	e := &Error{What: fmt.Sprintf("%s%s answered %d %s", c.Server, path, code, http.StatusText(code)), Refused: true}
	if message != "" {
		e.What += ": " + message
	}
	switch {
	case code == http.StatusUnauthorized:
		e.What = fmt.Sprintf("%s does not know who you are: 401 Unauthorized", c.Server)
		e.Advice = "The API server does not accept the credentials: the token may have expired, or be of another cluster. Give others with\n" +
			"--kubeconfig or --token-file. The process asks the API server of serving.authentication.kubeconfig."
	case code == http.StatusForbidden && (c.anonymous || strings.Contains(message, "system:anonymous")):
		e.Advice = c.anonymousAdvice()
	case code == http.StatusForbidden:
		e.Advice = grant(message)
	case code == http.StatusNotFound:
		e.Advice = "Is it a kube-controller-manager of kcmd?"
	}
	return e
}

// anonymousAdvice is for those who were taken for anybody.
func (c *Client) anonymousAdvice() string {
	if c.anonymous {
		return "The request had no credentials. Give some with --kubeconfig or --token-file."
	}
	return "The process took the request for anonymous, so it did not accept the credentials. Does its configuration have\n" +
		"serving.authentication.kubeconfig, and does it trust the certificate authority of the client certificate?"
}

var (
	user           = regexp.MustCompile(`User "([^"]+)"`)
	serviceAccount = regexp.MustCompile(`^system:serviceaccount:([^:]+):([^:]+)$`)
)

// grant says how to allow what was forbidden to somebody.
func grant(message string) string {
	subject := "--user=NAME"
	if match := user.FindStringSubmatch(message); match != nil {
		subject = "--user=" + quote(match[1])
		if account := serviceAccount.FindStringSubmatch(match[1]); account != nil {
			subject = "--serviceaccount=" + account[1] + ":" + account[2]
		}
	}
	return "To allow it:\n" +
		"  kubectl create clusterrole kube-controller-manager-viewer --verb=get --non-resource-url=" + statusPath + " --non-resource-url=" + configPath + "\n" +
		"  kubectl create clusterrolebinding kube-controller-manager-viewer --clusterrole=kube-controller-manager-viewer " + subject
}

func quote(name string) string {
	if strings.ContainsAny(name, " '\"$&|;<>()*?`\\") {
		return "'" + strings.ReplaceAll(name, "'", `'\''`) + "'"
	}
	return name
}
