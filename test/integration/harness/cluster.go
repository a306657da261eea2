// Package harness is what integration tests share. Each folder beside this one is a subject.
// Those about controllers:
//
//	accounts     identities and trust: service accounts, tokens, published CAs
//	apimachinery how objects are stored: storage versions, migrations
//	bootstrap    a real kubelet joins: tokens, cluster-info, its certificates
//	certificates requests for certificates: approved, signed, removed
//	cloud        what a cloud has for the cluster: load balancers, routes, nodes
//	csi          volumes of a CSI driver, together with its provisioner, attacher and resizer
//	devices      devices of pods: claims, taints, pools
//	garbage      what is deleted because nobody needs it: namespaces, dependents
//	nodes        pods and the nodes they are bound to, ranges and taints of nodes, groups of pods
//	heartbeats   nodes that fall silent, one, some or all, and a manager that hears nothing
//	policy       what limits and sizes workloads: disruption budgets, autoscaling, quotas
//	services     how pods are found: endpoints, slices, ranges of addresses
//	storage      volumes and claims: what keeps them, and what makes claims for pods
//	workloads    what creates pods
//	podtemplates what we know of pod templates, compared with what the API server does
//	cost         how many requests a unit of work costs
//
// And those about the manager:
//
//	commands     the commands that ask a running process
//	gitops       from a repository to running controllers
//	monitoring   alerts, rules and the dashboard, on a real Prometheus
//	identity     as whom, and over which connections the manager acts
//	promises     what the runtime promises: edits, isolation, draining
//	reload       reconfiguration under load, and what it costs
//	serving      the endpoint of the process
//	leadership   which of several managers runs which controller
//	failover     how long nobody works when a lease changes hands
//	takeover     what controllers conclude from caches that lag behind
//	soak         everything at once, at random
//
// Then:
//
//  1. A package of tests starts one control plane. Packages about controllers run a manager
//     on it for all of their tests, with the controllers that they are about and each with
//     its own service account: a right that the API server's bootstrap roles do not give
//     fails the run. That is a Package. Packages about the manager start their own, one or
//     several, for each test: see Start and Join of package manager.
//  2. A test has a namespace of its own and runs in parallel with the others, unless it
//     changes the manager's configuration; those run first, alone.
//  3. Tests wait for conditions, with a deadline: see package await. That something does not
//     happen is shown by something that happens later, or by the order of a watch.
//  4. Tests are as short as what they show permits. The long forms of some are behind
//     variables in the environment; make nightly sets them.
package harness

import (
	"context"
	"flag"
	"fmt"
	"os"
	"strconv"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"

	kcmruntime "kcmd.dev/pkg/runtime"
	"kcmd.dev/test/await"
	"kcmd.dev/test/controlplane"
	"kcmd.dev/test/manager"
)

// parallelTests is more than there are processors: tests mostly wait.
const parallelTests = 12

// Package describes what the tests of a package share.
type Package struct {
	ControlPlane controlplane.Options
	// Configure changes the configuration of the manager. Optional.
	Configure func(*manager.Config)
	// Runtime are options of the manager.
	Runtime kcmruntime.Options
}

// Cluster is a control plane with a manager.
type Cluster struct {
	*controlplane.ControlPlane
	Manager *manager.Manager
	// Admin is a client that may do everything.
	Admin kubernetes.Interface
}

// Run is the body of a TestMain: see manager.RunTests. Twelve tests run at once, unless the
// command line says otherwise.
func (p Package) Run(m *testing.M, set func(*Cluster)) int {
	flag.Parse()
	if !isSet("test.parallel") {
		if err := flag.Set("test.parallel", strconv.Itoa(parallelTests)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	return manager.RunTests(m, p.ControlPlane, p.Runtime, p.Configure, func(cp *controlplane.ControlPlane, started *manager.Manager) {
		set(&Cluster{ControlPlane: cp, Manager: started, Admin: cp.AdminClient()})
	})
}

func isSet(name string) bool {
	set := false
	flag.Visit(func(f *flag.Flag) { set = set || f.Name == name })
	return set
}

// Only returns an edit that leaves some controllers on and all others off.
func Only(enabled func(*manager.Config) []**bool) func(*manager.Config) {
	return func(c *manager.Config) {
		c.ControllerDefaults.Enabled = ptr.To(false)
		for _, on := range enabled(c) {
			*on = ptr.To(true)
		}
	}
}

// All returns an edit that makes all of some edits.
func All(edits ...func(*manager.Config)) func(*manager.Config) {
	return func(c *manager.Config) {
		for _, edit := range edits {
			if edit != nil {
				edit(c)
			}
		}
	}
}

// Emulate has the manager behave like an earlier version, with some gates switched, until the
// end of the test. Nothing else may run meanwhile.
func (c *Cluster) Emulate(t *testing.T, version string, gates map[string]bool) {
	t.Helper()
	before := c.Manager.Config()
	c.Restore(t, func(c *manager.Config) {
		c.EmulatedVersion, c.FeatureGates = before.EmulatedVersion, before.FeatureGates
	})
	CarryOut(t, c.Manager, func(c *manager.Config) { c.EmulatedVersion, c.FeatureGates = version, gates })
}

// Restore makes an edit when the test has ended. The next test begins when it is carried out.
func (c *Cluster) Restore(t *testing.T, edit func(*manager.Config)) {
	t.Helper()
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		err := c.Manager.Edit(ctx, edit)
		if err == nil {
			err = c.Manager.Wait(ctx, "the edit is carried out", CarriedOut)
		}
		if err != nil {
			t.Error(err)
		}
	})
}

// Rest has the manager do nothing until the end of the test, which has managers of its own. Enabled
// are the controllers that the package runs.
func (c *Cluster) Rest(t *testing.T, enabled func(*manager.Config) []**bool) {
	t.Helper()
	set := func(on bool) func(*manager.Config) {
		return func(c *manager.Config) {
			for _, controller := range enabled(c) {
				*controller = ptr.To(on)
			}
		}
	}
	c.Restore(t, set(true))
	CarryOut(t, c.Manager, set(false))
}

// NamespaceForPods creates a namespace for the test and waits until pods can be created in
// it, for which the controller of service accounts has to run.
func (c *Cluster) NamespaceForPods(t testing.TB) string {
	t.Helper()
	return NamespaceForPods(t, c.ControlPlane)
}

// NamespaceForPods is the method of the same name where the tests have managers of their own.
func NamespaceForPods(t testing.TB, plane *controlplane.ControlPlane) string {
	t.Helper()
	namespace := plane.Namespace(t)
	await.That(t, "the namespace has its default service account", func(ctx context.Context) error {
		_, err := plane.AdminClient().CoreV1().ServiceAccounts(namespace).Get(ctx, "default", metav1.GetOptions{})
		return err
	})
	return namespace
}
