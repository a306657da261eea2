package leadership

import (
	"context"
	"fmt"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/runtime"
	"kcmd.dev/test/await"
	"kcmd.dev/test/controlplane"
	"kcmd.dev/test/integration/harness"
	"kcmd.dev/test/manager"
	"kcmd.dev/test/must"
)

// twoGroups puts the deployment controller into one of two groups.
func twoGroups(of string) func(*manager.Config) {
	return func(c *manager.Config) {
		in := map[string][]string{"apps": {replicaSets}, "batch": {jobs, cronJobs}}
		in[of] = append(in[of], deployments)
		c.LeaderElection.Groups = nil
		group(c, "apps", in["apps"]...)
		group(c, "batch", in["batch"]...)
	}
}

// A controller moves between groups that different processes hold, while these read the
// new file at different times, in either order.
func TestAControllerMovesBetweenGroups(t *testing.T) {
	l := newLedger(t)
	a, b := pair(l, twoGroups("apps"))
	managers := map[string]*manager.Manager{"a": a, "b": b}
	of := "apps"
	for round, lag := range []time.Duration{0, 700 * time.Millisecond, 1500 * time.Millisecond, 0, 300 * time.Millisecond, 0} {
		to := map[string]string{"apps": "batch", "batch": "apps"}[of]
		first, second := "a", "b"
		if round%2 == 1 {
			first, second = second, first
		}
		began := time.Now()
		harness.Edit(t, managers[first], twoGroups(to))
		await.Elapse(t, lag)
		harness.Edit(t, managers[second], twoGroups(to))
		holder := processOf(*lease(t, metav1.NamespaceSystem, mainLease+"-"+to).Spec.HolderIdentity)
		l.waitOwner(deployments, holder)
		t.Logf("from %s to %s, %s read the file %v before %s: runs in %s %v after the first edit, after a gap of %v", of, to, first, lag, second, holder,
			l.since(deployments).Sub(began).Round(time.Millisecond), l.gap(deployments))
		of = to
		l.waitAll()
	}
}

// pair are two managers of which each holds some of the leases. The first has all of them
// until the second asks.
func pair(l *ledger, change func(*manager.Config)) (a, b *manager.Manager) {
	l.t.Helper()
	a = l.begin("a", change)
	l.waitAll()
	b = l.begin("b", change)
	harness.Wait(l.t, b, "it holds a lease", func(s *runtime.Status) error {
		if len(locksOf(s)) == 0 {
			return errNotYet
		}
		return nil
	})
	l.waitAll()
	return a, b
}

// The files differ for good: for one replica everything goes with the main lock, for the
// other a part of it is in a group. Every controller has exactly one owner all the same,
// whoever comes first.
func TestFilesThatDifferForGood(t *testing.T) {
	grouped := func(c *manager.Config) { group(c, "apps", deployments, replicaSets) }
	for name, starts := range map[string]func(*ledger) (plain, withGroup *manager.Manager){
		"the plain one first": func(l *ledger) (*manager.Manager, *manager.Manager) {
			a := l.begin("a", nil)
			l.waitAll()
			return a, l.begin("b", grouped)
		},
		"the one with the group first": func(l *ledger) (*manager.Manager, *manager.Manager) {
			b := l.begin("b", grouped)
			l.waitAll()
			return l.begin("a", nil), b
		},
		"both at once": func(l *ledger) (*manager.Manager, *manager.Manager) {
			return l.begin("a", nil), l.begin("b", grouped)
		},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLedger(t)
			plain, _ := starts(l)
			l.waitAll()
			await.Stays(t, "every controller has one owner", time.Second, func(context.Context) error {
				for _, c := range fakes {
					if l.owner(c) == "" {
						return fmt.Errorf("%s has none", c)
					}
				}
				return nil
			})
			must.Succeed(t, plain.Stop())
			for _, c := range fakes {
				l.waitOwner(c, "b")
			}
		})
	}
}

// A group comes and goes live, and takes another lease: those in it restart, the others do
// not notice.
func TestGroupsChangeLive(t *testing.T) {
	l := newLedger(t)
	m := l.begin("a", nil)
	l.waitAll()
	for _, step := range []struct {
		name    string
		change  func(*manager.Config)
		restart []string
		locks   []string
	}{
		{"a group appears", func(c *manager.Config) { group(c, "apps", deployments) }, []string{deployments}, []string{"main", "group/apps"}},
		{"it grows", func(c *manager.Config) { group(c, "apps", deployments, jobs) }, []string{jobs}, []string{"main", "group/apps"}},
		{"another lease", func(c *manager.Config) { c.LeaderElection.Groups[0].ResourceName = "apps-lease" }, []string{deployments, jobs}, []string{"main", "group/apps"}},
		{"another name, the same lease", func(c *manager.Config) { c.LeaderElection.Groups[0].Name = "renamed" }, []string{deployments, jobs}, []string{"main", "group/renamed"}},
		{"it goes", func(c *manager.Config) { c.LeaderElection.Groups = nil }, []string{deployments, jobs}, []string{"main"}},
		{"no leader election", func(c *manager.Config) { c.LeaderElection.LeaderElect = ptr.To(false) }, fakes, []string{"main"}},
		{"leader election with a group", func(c *manager.Config) {
			c.LeaderElection.LeaderElect = ptr.To(true)
			group(c, "apps", deployments)
		}, fakes, []string{"main", "group/apps"}},
		{"another identity", func(c *manager.Config) { c.LeaderElection.Identity = "renamed" }, fakes, []string{"main", "group/apps"}},
		{"a controller is switched off", func(c *manager.Config) { c.Controllers.Job.Enabled = ptr.To(false) }, nil, []string{"main", "group/apps"}},
		{"and on", func(c *manager.Config) { c.Controllers.Job.Enabled = nil }, []string{jobs}, []string{"main", "group/apps"}},
	} {
		before := generations(status(t, m))
		harness.Edit(t, m, step.change)
		want := map[string]uint64{}
		for name, n := range before {
			want[name] = n
		}
		for _, name := range step.restart {
			want[name]++
		}
		harness.Wait(t, m, step.name, func(s *runtime.Status) error {
			if got := generations(s); fmt.Sprint(got) != fmt.Sprint(want) {
				return fmt.Errorf("instances %v, want %v", got, want)
			}
			return nil
		})
		waitLocks(t, m, step.locks...)
	}
	if got := ptr.Deref(lease(t, metav1.NamespaceSystem, "apps-lease").Spec.HolderIdentity, ""); got != "" {
		t.Errorf("the lease of the group that is gone is held by %q", got)
	}
}

func generations(s *runtime.Status) map[string]uint64 {
	all := map[string]uint64{}
	for _, c := range s.Controllers {
		all[c.Name] = c.Generation
	}
	return all
}

// The main lock gets another name, and then another namespace, while the two replicas read
// the new file seconds apart: there are never two leaders.
func TestTheLockMovesUnderTwoReplicas(t *testing.T) {
	const namespace = "ha"
	allowLeases(t, namespace)
	for _, leaderFirst := range []bool{true, false} {
		for _, move := range []struct {
			name   string
			change func(*manager.Config)
		}{
			{"name", func(c *manager.Config) { c.LeaderElection.ResourceName = "another-name" }},
			{"namespace", func(c *manager.Config) { c.LeaderElection.ResourceNamespace = namespace }},
		} {
			t.Run(fmt.Sprintf("%s, leader first %v", move.name, leaderFirst), func(t *testing.T) {
				l := newLedger(t)
				a := l.begin("a", nil)
				l.waitAll()
				b := l.begin("b", nil)
				harness.Wait(t, b, "it stands by", func(s *runtime.Status) error {
					if e := s.Leadership.Lease; e == nil || processOf(e.Holder) != "a" {
						return errNotYet
					}
					return nil
				})
				first, second := a, b
				if !leaderFirst {
					first, second = b, a
				}
				began := time.Now()
				harness.Edit(t, first, move.change)
				await.Elapse(t, time.Second)
				harness.Edit(t, second, move.change)
				leader := ""
				await.That(t, "one of them has everything", func(context.Context) error {
					held := map[string]int{"a": len(locksOf(status(t, a))), "b": len(locksOf(status(t, b)))}
					for _, c := range fakes {
						if leader = l.owner(c); held[leader] != 1 || held["a"]+held["b"] != 1 {
							return fmt.Errorf("%s runs in %q, locks are %v", c, leader, held)
						}
					}
					return nil
				})
				t.Logf("everything runs in %s, since %v after the first edit, after a gap of %v", leader, l.since(fakes[0]).Sub(began).Round(time.Millisecond), l.gap(fakes[0]))
			})
		}
	}
}

// allowLeases makes a namespace and lets managers keep leases there.
func allowLeases(t *testing.T, namespace string) {
	t.Helper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
	if _, err := plane.AdminClient().CoreV1().Namespaces().Create(t.Context(), ns, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	role := &rbacv1.Role{
		ObjectMeta: metav1.ObjectMeta{Name: "leases"},
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"}, Verbs: []string{"*"}}},
	}
	binding := &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "leases"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "leases"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.UserKind, Name: controlplane.ManagerUser}},
	}
	_, err := plane.AdminClient().RbacV1().Roles(namespace).Create(t.Context(), role, metav1.CreateOptions{})
	must.Succeed(t, err)
	_, err = plane.AdminClient().RbacV1().RoleBindings(namespace).Create(t.Context(), binding, metav1.CreateOptions{})
	must.Succeed(t, err)
	await.That(t, "the role is in force", func(context.Context) error {
		c, err := plane.Config(controlplane.ManagerUser)
		if err != nil {
			return err
		}
		client, err := kubernetes.NewForConfig(c)
		if err != nil {
			return err
		}
		review, err := client.AuthorizationV1().SelfSubjectAccessReviews().Create(t.Context(), &authorizationv1.SelfSubjectAccessReview{
			Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &authorizationv1.ResourceAttributes{
				Namespace: namespace, Verb: "update", Group: "coordination.k8s.io", Resource: "leases",
			}},
		}, metav1.CreateOptions{})
		if err == nil && !review.Status.Allowed {
			err = errNotYet
		}
		return err
	})
}
