package controlplane

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"kcmd.dev/test/controlplane/binaries"
	"kcmd.dev/test/controlplane/process"
)

// Kubelet is a real kubelet whose container runtime runs nothing. Its node becomes ready, and
// pods on it never start.
type Kubelet struct {
	// Address is where it serves, as host and port.
	Address string

	dir     string
	running []*process.Process // in start order
}

// kubeletConfiguration leaves cgroups and the file system of the machine alone. Address, port,
// the CA of clients, the socket of the runtime and a folder are filled in.
const kubeletConfiguration = `apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
address: 127.0.0.1
port: %[1]d
healthzPort: 0
authentication: {x509: {clientCAFile: %[2]q}, webhook: {enabled: false}, anonymous: {enabled: false}}
authorization: {mode: AlwaysAllow}
rotateCertificates: true
serverTLSBootstrap: true
containerRuntimeEndpoint: %[3]q
podLogsDir: %[4]q
volumePluginDir: %[5]q
localStorageCapacityIsolation: false
cgroupsPerQOS: false
enforceNodeAllocatable: []
failCgroupV1: false
failSwapOn: false
`

// StartKubelet starts a kubelet that joins as a node by TLS bootstrap, with the credentials of
// a kubeconfig. The folder must be empty; it holds the kubelet's files and logs. It needs root,
// as every kubelet does.
func (c *ControlPlane) StartKubelet(ctx context.Context, dir, node, bootstrapKubeconfig string) (*Kubelet, error) {
	bin, err := binaries.Build(ctx, c.options.Log, binaries.Kubelet, binaries.EmptyRuntime)
	if err != nil {
		return nil, err
	}
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	k := &Kubelet{Address: fmt.Sprintf("127.0.0.1:%d", port), dir: dir}
	socket := "unix://" + k.path("runtime.sock")
	configuration := fmt.Appendf(nil, kubeletConfiguration, port, c.RootCAFile(), socket, k.path("pod-logs"), k.path("plugins"))
	if err := os.WriteFile(k.path("kubelet.yaml"), configuration, 0o600); err != nil {
		return nil, fmt.Errorf("writing the kubelet's configuration: %w", err)
	}
	runtime, err := k.launch(filepath.Join(bin, binaries.EmptyRuntime), socket)
	if err != nil {
		return nil, err
	}
	err = poll(ctx, runtime.Exited(), func(context.Context) error {
		_, err := os.Stat(k.path("runtime.sock"))
		return err
	})
	if err == nil {
		_, err = k.launch(filepath.Join(bin, binaries.Kubelet),
			"--config="+k.path("kubelet.yaml"),
			"--bootstrap-kubeconfig="+bootstrapKubeconfig,
			"--kubeconfig="+k.path("kubelet.conf"),
			"--cert-dir="+k.path("pki"),
			"--root-dir="+k.path("root"),
			"--hostname-override="+node,
		)
	}
	if err != nil {
		k.Stop()
		return nil, fmt.Errorf("starting a kubelet: %w", err)
	}
	return k, nil
}

func (k *Kubelet) launch(program string, args ...string) (*process.Process, error) {
	name := filepath.Base(program)
	p, err := process.Start(process.Spec{
		Name:    name,
		Path:    program,
		Args:    args,
		Env:     []string{"HOME=" + k.dir, "KUBECONFIG="},
		Dir:     k.dir,
		LogFile: k.path(name + ".log"),
		// A kubelet mounts its own folder.
		PrivateMounts: true,
	})
	if err != nil {
		return nil, err
	}
	k.running = append(k.running, p)
	return p, nil
}

// Err returns why the kubelet or its runtime ended, with the end of its log; nil while both run.
func (k *Kubelet) Err() error {
	for _, p := range k.running {
		if err := p.Err(); err != nil {
			return err
		}
	}
	return nil
}

// ClientCertificateFile holds the certificate, with its key, by which the kubelet is known to
// the API server. It does not exist before it was issued.
func (k *Kubelet) ClientCertificateFile() string { return k.path("pki/kubelet-client-current.pem") }

// Stop ends the kubelet, then its runtime.
func (k *Kubelet) Stop() {
	for _, p := range slices.Backward(k.running) {
		_ = p.Stop(stopGrace) // its data is thrown away
	}
}

func (k *Kubelet) path(name string) string { return filepath.Join(k.dir, name) }
