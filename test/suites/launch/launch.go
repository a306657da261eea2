// Package launch runs the manager in the place of one of upstream's controllers, from inside one of upstream's tests.
package launch

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"os"
	"path/filepath"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/component-base/metrics"

	"kcmd.dev/test/controlplane/process"
	"kcmd.dev/test/ports"
)

// The environment of the test says where the program is, and the folder for its files and logs.
const (
	ManagerVariable = "KCMD_SUITES_MANAGER"
	FolderVariable  = "KCMD_SUITES_FOLDER"
)

// stopGrace is longer than the manager's default drainTimeout.
const stopGrace = 20 * time.Second

// Controller is one of upstream's that the manager runs in its place, started and stopped as upstream's are.
type Controller struct {
	client client
	flags  []string
	port   int
	// counters are those of Count, by name.
	counters map[string]*metrics.CounterVec
}

// client is that of any API group.
type client interface{ RESTClient() rest.Interface }

// New returns a controller that does not run yet, from the arguments of its constructor. Its manager sends its requests as
// the client among them does: to that server, with those credentials, through that transport. Informers among them are
// those that the test starts and looks into. name is what --controllers selects, flags are further flags of upstream's.
func New(args []any, name string, flags ...string) *Controller {
	port, err := ports.Free()
	if err != nil {
		panic(err)
	}
	c := &Controller{flags: append([]string{
		"--controllers=" + name, "--bind-address=127.0.0.1", fmt.Sprintf("--secure-port=%d", port),
		"--authorization-always-allow-paths=" + debugPaths + "*," + metricsPath,
	}, flags...), port: port}
	for _, arg := range args {
		switch arg := arg.(type) {
		case kubernetes.Interface:
			c.client = arg.Discovery()
		case client:
			c.client = arg
		case interface {
			Informer() cache.SharedIndexInformer
		}:
			arg.Informer()
		}
	}
	if c.client == nil {
		panic("the constructor of " + name + " was given no client")
	}
	return c
}

// debugPaths are those of the debugging information of controllers, which anybody may read.
const debugPaths = "/debug/controllers/"

// Debug returns the debugging information of a controller, and false while the manager serves none.
func (c *Controller) Debug(path string) (string, bool) { return c.get(debugPaths + path) }

// get returns what the manager serves, and false if it does not.
func (c *Controller) get(path string) (string, bool) {
	client := http.Client{Transport: &http.Transport{
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true,
	}}
	answer, err := client.Get(fmt.Sprintf("https://127.0.0.1:%d%s", c.port, path))
	if err != nil {
		return "", false
	}
	defer func() { _ = answer.Body.Close() }()
	body, err := io.ReadAll(answer.Body)
	return string(body), err == nil && answer.StatusCode == http.StatusOK
}

// Run runs the manager until the end of ctx. Its feature gates are those of the test's process, and follow them while it
// runs. What fails here ends the process of the test, as upstream's Run returns no error. The numbers of workers and other
// arguments that some of upstream's controllers take are not for the manager.
func (c *Controller) Run(ctx context.Context, _ ...any) {
	go c.count(ctx)
	if err := run(ctx, c.client, c.flags); err != nil {
		panic(fmt.Sprintf("running the manager with %q: %v", c.flags, err))
	}
}

func run(ctx context.Context, client client, flags []string) error {
	gateway, err := serve(client)
	if err != nil {
		return err
	}
	defer func() { _ = gateway.Close() }()
	// A test goes on at once when it has ended the controller, and upstream's then writes nothing any more. The process of
	// the manager takes a moment to end, in which it would work on what the test makes next.
	defer context.AfterFunc(ctx, func() { _ = gateway.Close() })()
	folder, err := newFolder()
	if err != nil {
		return err
	}
	kubeconfig := filepath.Join(folder, "kubeconfig")
	if err := writeKubeconfig(kubeconfig, "http://"+gateway.Addr); err != nil {
		return err
	}
	m, err := start(folder, append([]string{
		"--kubeconfig=" + kubeconfig, "--leader-elect=false",
	}, flags...))
	if err != nil {
		return err
	}
	return m.run(ctx)
}

// Start starts a manager with the flags that upstream's has, kubeconfig included, and returns without waiting until it does
// something. The end of ctx or stop ends it; stop waits for that.
func Start(ctx context.Context, flags []string) (stop func(), err error) {
	folder, err := newFolder()
	if err != nil {
		return nil, err
	}
	m, err := start(folder, append([]string{"--secure-port=0"}, flags...))
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := m.run(ctx); err != nil {
			panic(fmt.Sprintf("running the manager with %q: %v", flags, err))
		}
	}()
	return func() {
		cancel()
		<-ended
	}, nil
}

// newFolder returns a folder for the files of one manager.
func newFolder() (string, error) {
	folder, err := os.MkdirTemp(os.Getenv(FolderVariable), "manager-")
	if err != nil {
		return "", fmt.Errorf("creating the manager's folder: %w", err)
	}
	return folder, nil
}

// manager is a process and its configuration file.
type manager struct {
	process *process.Process
	file    *file
}

func start(folder string, flags []string) (*manager, error) {
	f, err := newFile(folder, flags)
	if err != nil {
		return nil, err
	}
	p, err := process.Start(process.Spec{
		Name: "kube-controller-manager",
		Path: os.Getenv(ManagerVariable),
		Args: []string{"--config=" + f.path},
		Env:  []string{"HOME=" + folder, "KUBECONFIG="},
		Dir:  folder,
		// Not beside the configuration: a manager watches the folder of that, and every line would wake it.
		LogFile: filepath.Join(folder, "logs", "manager.log"),
	})
	if err != nil {
		return nil, err
	}
	return &manager{p, f}, nil
}

// run follows the gates until the end of ctx, and ends the process then. It is an error if that ends by itself.
func (m *manager) run(ctx context.Context) error {
	followed := m.file.follow(ctx, m.process.Exited())
	return errors.Join(followed, m.process.Err(), m.process.Stop(stopGrace))
}

// serve passes requests of the loopback address on, as client would send them. Its Addr is where.
func serve(client client) (*http.Server, error) {
	upstream, ok := client.RESTClient().(*rest.RESTClient)
	if !ok {
		return nil, fmt.Errorf("the client of the test has a %T, of which the server is not known", client.RESTClient())
	}
	target := upstream.Get().URL()
	target.Path, target.RawQuery = "", ""
	proxy := &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(target) },
		FlushInterval: -1,
		ErrorLog:      log.New(os.Stderr, "manager's gateway: ", log.LstdFlags),
	}
	if upstream.Client != nil {
		proxy.Transport = upstream.Client.Transport
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listening for the manager: %w", err)
	}
	server := &http.Server{Addr: listener.Addr().String(), Handler: proxy, ReadHeaderTimeout: time.Minute}
	go func() { _ = server.Serve(listener) }()
	return server, nil
}

func writeKubeconfig(path, server string) error {
	const name = "test"
	config := clientcmdapi.NewConfig()
	config.Clusters[name] = &clientcmdapi.Cluster{Server: server}
	config.Contexts[name] = &clientcmdapi.Context{Cluster: name}
	config.CurrentContext = name
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		return fmt.Errorf("writing the manager's kubeconfig: %w", err)
	}
	return nil
}
