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

	"kcmd.dev/pkg/runtime/why"
)

// Error is a failure, with advice on how to fix it.
type Error struct {
	// What went wrong, in a sentence.
	What string
	// Advice is how to fix it, on lines of its own; empty if there is none.
	Advice string

	cause error
	// Refused is true if the process responded, so that repeating the request will not help.
	Refused bool
}

func (e *Error) Error() string {
	if e.Advice == "" {
		return e.What
	}
	return e.What + "\n" + e.Advice
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.cause }

// unreachable explains why there is no response.
func (c *Client) unreachable(err error) error {
	e := &Error{What: fmt.Sprintf("requesting %s: %v", c.Server, err), cause: err}
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
		e.Advice = "Is the process running on this machine? Its address is serving.bindAddress and serving.port " +
			"of its configuration:\n" +
			"use --config with its file, or --server https://HOST:PORT."
	case authority:
		e.What = fmt.Sprintf("the certificate of %s is signed by an unknown authority", c.Server)
		e.Advice = "Set the CA with --ca-file. " +
			"A process without serving.tls.certFile uses a self-signed certificate: with\n" +
			"serving.tls.certDirectory it is kube-controller-manager.crt in that directory; " +
			"otherwise it is kept in memory, and the\n" +
			"process can be reached only with --insecure-skip-tls-verify."
	case errors.As(err, &hostname):
		e.What = fmt.Sprintf("the certificate of %s is for another name: %v", c.Server, hostname)
		e.Advice = "Use --server with a host name or an address that is in the certificate."
	case errors.As(err, &record), errors.Is(err, http.ErrSchemeMismatch):
		e.What = fmt.Sprintf("%s does not serve TLS", c.Server)
		e.Advice = "Is it the secure port of a kube-controller-manager?"
	case errors.As(err, &dns):
		e.What = fmt.Sprintf("looking up host %s: %v", dns.Name, dns.Err)
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded),
		errors.As(err, &timeout) && timeout.Timeout():
		e.What = fmt.Sprintf("%s did not respond in time", c.Server)
		e.Advice = "Check that the address is correct and not behind a firewall. --timeout sets how long to wait."
	}
	return e
}

// meanwhile ends the advice on a response for which the process needs the API server.
const meanwhile = "While it does not reach the API server, it\n" +
	"accepts only client certificates of the group system:masters, and knows their CA from serving.authentication.clientCAFile,\n" +
	"or if it has read it from the cluster before."

// refused explains an error response.
func (c *Client) refused(path string, code int, message string) error {
	e := &Error{What: fmt.Sprintf("%s%s returned %d %s", c.Server, path, code, http.StatusText(code)), Refused: true}
	if message != "" {
		e.What += ": " + message
	}
	switch {
	case code == http.StatusUnauthorized:
		e.What = fmt.Sprintf("%s could not authenticate the request: 401 Unauthorized", c.Server)
		e.Advice = "The token may have expired, or belong to another cluster: set other credentials with --kubeconfig or --token-file.\n" +
			"The process uses the API server of serving.authentication.kubeconfig. " + meanwhile
	case code == http.StatusForbidden && (c.anonymous || strings.Contains(message, "system:anonymous")):
		e.Advice = c.anonymousAdvice()
	case code == http.StatusForbidden:
		e.Advice = grant(message, path)
	case code == http.StatusInternalServerError && strings.Contains(message, "/subjectaccessreviews"):
		e.Advice = "The process asks the API server of serving.authorization.kubeconfig who may read this. " + meanwhile
	case code == http.StatusNotFound, code == http.StatusNotAcceptable:
		e.Advice = "Is it kcmd? The API server is another process: --server is the address of the kube-controller-manager."
	}
	return e
}

// anonymousAdvice explains why a request was treated as anonymous.
func (c *Client) anonymousAdvice() string {
	if c.anonymous {
		return "The request had no credentials. Set them with --kubeconfig or --token-file."
	}
	return "The process treated the request as anonymous, so it did not accept the credentials. " +
		"Does its configuration set\n" +
		"serving.authentication.kubeconfig, and does it trust the CA of the client certificate?"
}

var (
	user           = regexp.MustCompile(`User "([^"]+)"`)
	serviceAccount = regexp.MustCompile(`^system:serviceaccount:([^:]+):([^:]+)$`)
)

// grant explains how to grant a user the missing permission: that for the status and the
// configuration, which commands need together, or that for one other path.
func grant(message, path string) string {
	subject := "--user=NAME"
	if match := user.FindStringSubmatch(message); match != nil {
		subject = "--user=" + quote(match[1])
		if account := serviceAccount.FindStringSubmatch(match[1]); account != nil {
			subject = "--serviceaccount=" + account[1] + ":" + account[2]
		}
	}
	role, paths := "kube-controller-manager-viewer", statusPath+" --non-resource-url="+configPath
	if path == why.Path {
		role, paths = "kube-controller-manager-why", why.Path
	}
	return "To grant the permission:\n" +
		"  kubectl create clusterrole " + role + " --verb=get --non-resource-url=" + paths + "\n" +
		"  kubectl create clusterrolebinding " + role + " --clusterrole=" + role + " " + subject
}

func quote(name string) string {
	if strings.ContainsAny(name, " '\"$&|;<>()*?`\\") {
		return "'" + strings.ReplaceAll(name, "'", `'\''`) + "'"
	}
	return name
}
