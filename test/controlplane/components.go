package controlplane

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strings"

	"kcmd.dev/test/controlplane/binaries"
	"kcmd.dev/test/controlplane/process"
)

// ports are the loopback ports of one attempt to start.
type ports struct {
	etcd, etcdPeer, apiServer int
}

// freePort returns a port of 127.0.0.1 nobody listens on. It is taken from below
// the range the kernel hands out to outgoing connections, so that the API server
// finds it free again when it is restarted. Another sandbox may still be faster:
// Start then tries other ports.
func freePort() (int, error) {
	const first, last, attempts = 20000, 31999, 100
	var failure error
	for range attempts {
		port := first + rand.IntN(last-first+1)
		listener, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			failure = err
			continue
		}
		if err := listener.Close(); err != nil {
			return 0, fmt.Errorf("looking for a free port: %w", err)
		}
		return port, nil
	}
	return 0, fmt.Errorf("looking for a free port: %w", failure)
}

func (o Options) pickPorts() (ports, error) {
	var p ports
	for _, port := range []*int{&p.etcd, &p.etcdPeer, &p.apiServer} {
		var err error
		if *port, err = o.freePort(); err != nil {
			return ports{}, err
		}
	}
	return p, nil
}

// etcd keeps its data without fsync: a sandbox survives no power failure, and
// nearly all of a write's latency is saved.
func (c *ControlPlane) etcdSpec() process.Spec {
	client := fmt.Sprintf("https://127.0.0.1:%d", c.ports.etcd)
	peer := fmt.Sprintf("http://127.0.0.1:%d", c.ports.etcdPeer)
	return c.spec(binaries.Etcd,
		"--name=sandbox",
		"--data-dir="+c.etcdData(),
		"--listen-client-urls="+client,
		"--advertise-client-urls="+client,
		"--listen-peer-urls="+peer,
		"--initial-advertise-peer-urls="+peer,
		"--initial-cluster=sandbox="+peer,
		"--cert-file="+c.path("etcd.crt"),
		"--key-file="+c.path("etcd.key"),
		"--client-cert-auth",
		"--trusted-ca-file="+c.path("etcd-ca.crt"),
		"--unsafe-no-fsync",
		// A lone member waits an election timeout before it leads; the default is 1 s.
		"--heartbeat-interval=10",
		"--election-timeout=100",
		"--quota-backend-bytes=8589934592",
		"--log-level=warn",
	)
}

func (c *ControlPlane) etcdData() string { return c.path("etcd-data") }

func (c *ControlPlane) apiServerSpec() process.Spec {
	args := []string{
		"--bind-address=127.0.0.1",
		fmt.Sprintf("--secure-port=%d", c.ports.apiServer),
		"--tls-cert-file=" + c.path("apiserver.crt"),
		"--tls-private-key-file=" + c.path("apiserver.key"),
		"--client-ca-file=" + c.RootCAFile(),
		fmt.Sprintf("--etcd-servers=https://127.0.0.1:%d", c.ports.etcd),
		"--etcd-cafile=" + c.path("etcd-ca.crt"),
		"--etcd-certfile=" + c.path("etcd-client.crt"),
		"--etcd-keyfile=" + c.path("etcd-client.key"),
		"--authorization-mode=Node,RBAC",
		"--enable-bootstrap-token-auth",
		"--allow-privileged",
		"--service-cluster-ip-range=" + serviceNetwork,
		// Loopback is no valid endpoint of the service default/kubernetes.
		"--advertise-address=127.0.0.1",
		"--endpoint-reconciler-type=none",
		"--service-account-issuer=https://kubernetes.default.svc.cluster.local",
		"--service-account-key-file=" + c.ServiceAccountPublicKeyFile(),
		"--service-account-signing-key-file=" + c.ServiceAccountKeyFile(),
		"--requestheader-client-ca-file=" + c.RequestHeaderCAFile(),
		"--requestheader-allowed-names=" + frontProxyUser,
		"--requestheader-username-headers=X-Remote-User",
		"--requestheader-uid-headers=X-Remote-Uid",
		"--requestheader-group-headers=X-Remote-Group",
		"--requestheader-extra-headers-prefix=X-Remote-Extra-",
		"--proxy-client-cert-file=" + c.FrontProxyClientCertFile(),
		"--proxy-client-key-file=" + c.FrontProxyClientKeyFile(),
	}
	if c.options.NoServiceAccountAdmission {
		args = append(args, "--disable-admission-plugins=ServiceAccount")
	}
	if !c.options.NoAudit {
		args = append(args,
			"--audit-policy-file="+c.auditPolicyFile(),
			"--audit-log-path="+c.auditLogFile(),
			"--audit-log-format=json",
			"--audit-log-mode=blocking",
			// Never rotate: positions in the log must stay valid.
			"--audit-log-maxsize=1000000",
		)
	}
	return c.spec(binaries.KubeAPIServer, append(args, c.options.APIServerArgs...)...)
}

// schedulerConfiguration lifts the client-side rate limit, which would otherwise
// be what a test of many pods measures.
const schedulerConfiguration = `apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
clientConnection: {kubeconfig: %q, qps: 5000, burst: 5000}
leaderElection: {leaderElect: false}
`

func (c *ControlPlane) schedulerSpec() (process.Spec, error) {
	file := c.path("scheduler.yaml")
	if err := os.WriteFile(file, fmt.Appendf(nil, schedulerConfiguration, c.path("scheduler.conf")), 0o600); err != nil {
		return process.Spec{}, fmt.Errorf("writing the scheduler's configuration: %w", err)
	}
	return c.spec(binaries.KubeScheduler, "--config="+file, "--secure-port=0"), nil
}

// kwokConfiguration: pods and nodes are played in parallel; pod addresses come
// from a network large enough for any test.
const kwokConfiguration = `apiVersion: config.kwok.x-k8s.io/v1alpha1
kind: KwokConfiguration
options:
  manageAllNodes: true
  cidr: 10.64.0.1/10
  nodeLeaseDurationSeconds: 40
  nodeLeaseParallelism: 4
  nodePlayStageParallelism: 8
  podPlayStageParallelism: 16
`

func (c *ControlPlane) kwokSpec() (process.Spec, error) {
	file := c.path("kwok.yaml")
	if err := os.WriteFile(file, []byte(kwokConfiguration), 0o600); err != nil {
		return process.Spec{}, fmt.Errorf("writing kwok's configuration: %w", err)
	}
	return c.spec(binaries.Kwok,
		"--kubeconfig="+c.path("kwok.conf"),
		"--config="+file,
		"--config="+cmp.Or(c.options.Stages, filepath.Join(c.binaries, binaries.KwokStages)),
	), nil
}

// spec runs a program in the control plane's folder, without reading anything
// from the user's home.
func (c *ControlPlane) spec(name string, args ...string) process.Spec {
	return process.Spec{
		Name:    name,
		Path:    filepath.Join(c.binaries, name),
		Args:    args,
		Env:     []string{"HOME=" + c.dir, "KUBECONFIG="},
		Dir:     c.dir,
		LogFile: c.logFile(name),
	}
}

func isBindConflict(err error) bool {
	return err != nil && strings.Contains(err.Error(), "address already in use")
}
