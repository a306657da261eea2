package controlplane

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kcmd.dev/test/controlplane/process"
)

// pollInterval is how often readiness is asked for.
const pollInterval = 20 * time.Millisecond

// waitFor polls until check succeeds; it gives up when the process ends, when
// ctx does, or after readyTimeout.
func (c *ControlPlane) waitFor(ctx context.Context, p *process.Process, check func(context.Context) error) error {
	err := poll(ctx, p.Exited(), check)
	if failure := p.Err(); failure != nil {
		return failure
	}
	if err != nil {
		return fmt.Errorf("waiting for %s: %w", p.Name(), err)
	}
	return nil
}

// errEnded is why a poll gives up when its process has ended.
var errEnded = errors.New("the process has ended")

// poll calls check until it succeeds. The close of abort also ends a check that
// waits for an answer.
func poll(ctx context.Context, abort <-chan struct{}, check func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	go func() {
		select {
		case <-abort:
			end(errEnded)
		case <-ctx.Done():
		}
	}()
	return pollEvery(ctx, pollInterval, check)
}

// pollEvery calls check until it succeeds or ctx ends.
func pollEvery(ctx context.Context, interval time.Duration, check func(context.Context) error) error {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		err := check(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return errors.Join(context.Cause(ctx), err)
		}
	}
}

// etcdHealthy succeeds when etcd has a leader.
func (c *ControlPlane) etcdHealthy(ctx context.Context) error {
	_, err := c.askEtcd(ctx, http.MethodGet, "/readyz", nil)
	return err
}

// askEtcd makes a request to etcd and returns the body of its answer. Only this control
// plane's etcd has a certificate of its authority: another one on the port is not mistaken
// for it.
func (c *ControlPlane) askEtcd(ctx context.Context, method, path string, body []byte) ([]byte, error) {
	pair, err := tls.LoadX509KeyPair(c.path("etcd-client.crt"), c.path("etcd-client.key"))
	if err != nil {
		return nil, fmt.Errorf("loading etcd's client certificate: %w", err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(c.credentials.etcd.parsed)
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}}
	defer transport.CloseIdleConnections()

	request, err := http.NewRequestWithContext(ctx, method, fmt.Sprintf("https://127.0.0.1:%d%s", c.ports.etcd, path), bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	response, err := (&http.Client{Transport: transport, Timeout: 2 * time.Second}).Do(request)
	if err != nil {
		return nil, err
	}
	answer, err := io.ReadAll(response.Body)
	if err := errors.Join(err, response.Body.Close()); err != nil {
		return nil, err
	}
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("etcd answers %s: %s", response.Status, answer)
	}
	return answer, nil
}

// apiServerReady succeeds when /readyz does, which includes the bootstrap RBAC
// policy, and when the system namespaces exist.
func (c *ControlPlane) apiServerReady(ctx context.Context) error {
	if _, err := c.client.Discovery().RESTClient().Get().AbsPath("/readyz").Timeout(2 * time.Second).DoRaw(ctx); err != nil {
		return err
	}
	for _, name := range []string{metav1.NamespaceDefault, metav1.NamespaceSystem, metav1.NamespacePublic, "kube-node-lease"} {
		if _, err := c.client.CoreV1().Namespaces().Get(ctx, name, metav1.GetOptions{}); err != nil {
			return err
		}
	}
	return nil
}
