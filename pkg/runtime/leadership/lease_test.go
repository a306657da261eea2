package leadership

import (
	"context"
	"fmt"
	"maps"
	"regexp"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/config/locks"
	"kcmd.dev/pkg/config/v1beta1"
	"kcmd.dev/pkg/runtime/claims"
	"kcmd.dev/pkg/runtime/clients"
	"kcmd.dev/pkg/runtime/takeover"
	"kcmd.dev/test/await"
	"kcmd.dev/test/fakeclient"
	"kcmd.dev/test/must"
)

// electing is a connection to an API server that has leases.
type electing struct {
	remembering
	client *fake.Clientset
}

func (electing) Generation() uint64 { return 1 }
func (electing) Acquire() error     { return nil }
func (electing) Release()           {}

func (electing) Observer() *claims.Observer { return &claims.Observer{} }

func (e electing) ElectionClients() (*clients.Set, error) {
	return &clients.Set{Kubernetes: e.client}, nil
}

// contending has a process contend for the locks of a configuration, until it holds all of them.
func contending(t *testing.T, cfg *v1beta1.KubeControllerManagerConfiguration) (*Leadership, electing) {
	t.Helper()
	conn := electing{remembering{ledger: takeover.NewLedger(clock.RealClock{})}, fakeclient.New()}
	l := New(Options{Identity: must.Get(NewIdentity())(t), Runner: &runner{}, Tasks: tasks(t), Clock: clock.RealClock{}})
	enabled := func(string) []string { return nil }
	next := must.Get(l.Prepare(conn, cfg, enabled))(t)
	l.Adopt(t.Context(), next, cfg, enabled)
	t.Cleanup(func() {
		for _, k := range next {
			_ = k.resign(context.Background())
		}
	})
	for _, k := range next {
		await.True(t, k.Name+" is held", func() bool { return k.valid() != nil })
	}
	return l, conn
}

// recordOf is what is written of who holds a lease, and for how long.
func recordOf(l *coordinationv1.Lease) string {
	return fmt.Sprintf("%s %d", ptr.Deref(l.Spec.HolderIdentity, ""), ptr.Deref(l.Spec.LeaseDurationSeconds, 0))
}

// A process writes a Lease of the names in the configuration and nothing else, as <hostname>_<uuid>. Pins MGR-79.
func TestTheLeaseOfAProcess(t *testing.T) {
	for _, test := range []struct {
		name, namespace, lease string
		change                 func(*v1beta1.LeaderElection)
	}{
		{"by default", "kube-system", "kube-controller-manager", func(*v1beta1.LeaderElection) {}},
		{"configured", "ha", "kcm", func(e *v1beta1.LeaderElection) { e.ResourceNamespace, e.ResourceName = "ha", "kcm" }},
	} {
		t.Run(test.name, func(t *testing.T) {
			cfg := v1beta1.NewDefault()
			test.change(&cfg.LeaderElection)
			l, conn := contending(t, cfg)
			for _, action := range conn.client.Actions() {
				if action.GetResource() != coordinationv1.SchemeGroupVersion.WithResource("leases") || action.GetNamespace() != test.namespace {
					t.Errorf("a request for other than its lease: %v", action)
				}
				create, ok := action.(clienttesting.CreateAction)
				if !ok {
					continue
				}
				if labels := create.GetObject().(*coordinationv1.Lease).Labels; !maps.Equal(labels, claims.Labels()) {
					t.Errorf("labels are %v", labels)
				}
			}
			stored := must.Get(conn.client.CoordinationV1().Leases(test.namespace).Get(t.Context(), test.lease, metav1.GetOptions{}))(t)
			identity := l.options.Identity
			uuid := `[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}`
			if want := regexp.MustCompile("^" + regexp.QuoteMeta(identity.host) + "_" + uuid + " 15$"); !want.MatchString(recordOf(stored)) {
				t.Errorf("the record is %q, want %s", recordOf(stored), want)
			}
		})
	}
}

// The migration lock has a lease of its own name and is otherwise like the main one, which is contended for besides.
// What is migrated runs under it, except for what the others need. Pins MGR-90.
func TestTheLeaseOfAMigration(t *testing.T) {
	cfg := v1beta1.NewDefault()
	cfg.LeaderElection.ResourceNamespace = "ha"
	cfg.LeaderMigration.Enabled, cfg.LeaderMigration.LeaderName = ptr.To(true), "move"
	cfg.LeaderMigration.ControllerLeaders = []v1beta1.ControllerLeader{
		{Name: "job-controller", Component: "*"}, {Name: locks.NotMigrated, Component: "*"}, {Name: "namespace-controller", Component: "other"},
	}
	l, conn := contending(t, cfg)
	records := map[string]string{}
	for _, stored := range must.Get(conn.client.CoordinationV1().Leases("ha").List(t.Context(), metav1.ListOptions{}))(t).Items {
		records[stored.Name] = recordOf(&stored)
	}
	if len(records) != 2 || records["move"] == "" || records["move"] != records["kube-controller-manager"] {
		t.Errorf("the leases are %v", records)
	}
	under := map[string]string{}
	for _, k := range l.Locks() {
		for _, name := range k.Controllers {
			under[name] = k.Name
		}
	}
	for name, want := range map[string]string{
		"job-controller": locks.Migration, locks.NotMigrated: locks.Main, "namespace-controller": "", "deployment-controller": locks.Main,
	} {
		if under[name] != want {
			t.Errorf("%s runs under %q, want %q", name, under[name], want)
		}
	}
}

// Processes without leader election do not know of each other, and write no lease. Pins MGR-149.
func TestWithoutLeaderElectionEveryProcessLeads(t *testing.T) {
	cfg := v1beta1.NewDefault()
	cfg.LeaderElection.LeaderElect = ptr.To(false)
	for range 2 {
		l, conn := contending(t, cfg)
		if locks := l.Locks(); len(locks) != 1 || locks[0].Contends() {
			t.Errorf("the locks are %v", locks)
		}
		if got := conn.client.Actions(); len(got) > 0 {
			t.Errorf("requests: %v", got)
		}
	}
}
