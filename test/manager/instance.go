package manager

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"k8s.io/client-go/rest"

	"kcmd.dev/pkg/runtime"
	"kcmd.dev/pkg/runtime/supervisor"
	"kcmd.dev/test/controlplane"
	"kcmd.dev/test/ports"
)

const (
	// readyTimeout bounds every wait for a manager, start and stop included.
	readyTimeout = time.Minute
	pollInterval = 10 * time.Millisecond
	loopback     = "127.0.0.1"
)

// instance is what a manager in this process and one in a process of its own have
// in common.
type instance struct {
	file    *file
	folder  string
	url     string
	client  *http.Client
	status  func(context.Context) (runtime.Status, error)
	done    <-chan struct{} // closed when the manager has ended
	failure func() error    // why it ended; valid after done is closed
}

// newInstance prepares the folder, the configuration and the client of a manager.
func newInstance(cp *controlplane.ControlPlane, edit func(*Config)) (*instance, error) {
	folder, err := os.MkdirTemp(cp.Dir(), "manager-")
	if err != nil {
		return nil, fmt.Errorf("creating the manager's folder: %w", err)
	}
	port, err := ports.Free()
	if err != nil {
		return nil, err
	}
	c := Default(cp, port)
	if edit != nil {
		edit(c)
	}
	f, err := newFile(folder, c)
	if err != nil {
		return nil, err
	}
	client, err := NewClient(cp.AdminConfig())
	if err != nil {
		return nil, err
	}
	i := &instance{
		file:   f,
		folder: folder,
		url:    fmt.Sprintf("https://%s:%d", c.Serving.BindAddress, *c.Serving.Port),
		client: client,
	}
	if err := os.Mkdir(filepath.Dir(i.LogFile()), 0o700); err != nil {
		return nil, fmt.Errorf("creating the folder of the manager's log: %w", err)
	}
	return i, nil
}

// NewClient returns a client of a manager's endpoint, with the certificate of a member
// of system:masters. The manager's own certificate is self-signed unless configured, so
// it is not verified.
func NewClient(admin *rest.Config) (*http.Client, error) {
	pair, err := tls.X509KeyPair(admin.CertData, admin.KeyData)
	if err != nil {
		return nil, fmt.Errorf("making the manager's client: %w", err)
	}
	return &http.Client{
		Timeout: 10 * time.Second,
		Transport: &http.Transport{TLSClientConfig: &tls.Config{
			Certificates:       []tls.Certificate{pair},
			InsecureSkipVerify: true,
		}},
	}, nil
}

// URL returns the address of the endpoint, as configured at the start.
func (i *instance) URL() string { return i.url }

// Client returns a client of the endpoint that may do everything there.
func (i *instance) Client() *http.Client { return i.client }

// Dir returns the folder with the configuration.
func (i *instance) Dir() string { return i.folder }

// LogFile returns the path of the log. It is not beside the configuration, since a manager watches that folder.
func (i *instance) LogFile() string { return filepath.Join(i.folder, "logs", "manager.log") }

// Get reads a path of the endpoint, for example "/metrics" or
// "/statusz?format=json". Every answer but 200 is an error.
func (i *instance) Get(ctx context.Context, path string) ([]byte, error) {
	return Get(ctx, i.client, i.url+path)
}

// Get reads an address. Every answer but 200 is an error.
func Get(ctx context.Context, client *http.Client, url string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	response, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	body, err := io.ReadAll(response.Body)
	if err := errors.Join(err, response.Body.Close()); err != nil {
		return nil, fmt.Errorf("reading %s: %w", url, err)
	}
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("reading %s: %s: %s", url, response.Status, body)
	}
	return body, nil
}

// statusPage reads the status from the endpoint.
func (i *instance) statusPage(ctx context.Context) (runtime.Status, error) {
	var s runtime.Status
	body, err := i.Get(ctx, "/statusz?format=json")
	if err != nil {
		return s, err
	}
	if err := json.Unmarshal(body, &s); err != nil {
		return s, fmt.Errorf("decoding the status: %w", err)
	}
	return s, nil
}

// Status returns a snapshot of the manager.
func (i *instance) Status(ctx context.Context) (runtime.Status, error) { return i.status(ctx) }

// Controller returns the status of one controller by its canonical name.
func (i *instance) Controller(ctx context.Context, name string) (supervisor.Status, error) {
	s, err := i.status(ctx)
	if err != nil {
		return supervisor.Status{}, err
	}
	for _, c := range s.Controllers {
		if c.Name == name {
			return c, nil
		}
	}
	return supervisor.Status{}, fmt.Errorf("there is no controller %q", name)
}

// WaitRunning waits until the manager leads and every controller runs that is
// enabled and has something to do.
func (i *instance) WaitRunning(ctx context.Context) error {
	return i.wait(ctx, "every controller runs", running)
}

// Wait waits until check returns nil for the manager's status, at most a minute.
// what completes "waiting until …" in the error. The end of the manager is an error.
func (i *instance) Wait(ctx context.Context, what string, check func(*runtime.Status) error) error {
	return i.wait(ctx, what, check)
}

func running(s *runtime.Status) error {
	if !s.Leadership.Leading {
		return errors.New("the manager does not lead")
	}
	if len(s.Controllers) == 0 {
		return errors.New("there are no controllers yet")
	}
	for _, c := range s.Controllers {
		if c.Pending {
			return fmt.Errorf("%s is %s, and a decision is not carried out yet", c.Name, c.State)
		}
		switch c.State {
		case supervisor.Running, supervisor.Idle:
			continue
		case supervisor.Disabled:
			// Without a reason it is only not told yet what to do.
			if c.Reason != "" {
				continue
			}
		}
		return fmt.Errorf("%s is %s: %s %s", c.Name, c.State, c.Reason, c.LastError)
	}
	return nil
}

func (i *instance) wait(ctx context.Context, what string, check func(*runtime.Status) error) error {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	for {
		s, err := i.status(ctx)
		if err == nil {
			err = check(&s)
		}
		if err == nil {
			return nil
		}
		select {
		case <-tick.C:
		case <-i.done:
			return fmt.Errorf("waiting until %s: the manager has ended: %w", what, errors.Join(i.failure(), err))
		case <-ctx.Done():
			return fmt.Errorf("waiting until %s: %w", what, errors.Join(context.Cause(ctx), err))
		}
	}
}
