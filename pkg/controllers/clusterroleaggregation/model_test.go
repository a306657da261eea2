package clusterroleaggregation

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	clienttesting "k8s.io/client-go/testing"

	"kcmd.dev/pkg/controller"
	"kcmd.dev/test/must"
	"kcmd.dev/test/simulation"
)

// model is a world with roles, some of which aggregate others.
type model struct {
	*simulation.World
	t *testing.T
	// meddled is whether users acted since the controller began to list roles from the API server, or since it began to
	// reconcile if it has listed none.
	meddled, listed bool
	// edited are the roles whose rules users have written though they aggregate.
	edited map[types.UID]bool
	// of is the rule by which the controller aggregates.
	of *rbacv1.AggregationRule
}

// sourcesOf returns the roles that a role aggregates.
func (m *model) sourcesOf(role *rbacv1.ClusterRole) (all []*rbacv1.ClusterRole) {
	for _, other := range simulation.All[*rbacv1.ClusterRole](m.World) {
		isSelected := slices.ContainsFunc(role.AggregationRule.ClusterRoleSelectors, func(s metav1.LabelSelector) bool {
			return must.Get(metav1.LabelSelectorAsSelector(&s))(m.t).Matches(labels.Set(other.Labels))
		})
		if isSelected {
			all = append(all, other)
		}
	}
	return all
}

// entitled returns the resources in the rules that a role has in the end, and whether they are those of its sources
// alone. Where a source of sources has none, what users wrote to it stays.
func (m *model) entitled(role *rbacv1.ClusterRole, visited sets.Set[string]) (rules sets.Set[string], isPure bool) {
	visited.Insert(role.Name)
	rules, isPure = sets.New[string](), true
	for _, source := range m.sourcesOf(role) {
		if source.AggregationRule == nil {
			rules = rules.Union(resourcesOf(source))
		} else if !visited.Has(source.Name) {
			more, pure := m.entitled(source, visited)
			rules, isPure = rules.Union(more), isPure && pure
		}
	}
	return rules, isPure && (len(rules) > 0 || !m.edited[role.UID])
}

func resourcesOf(role *rbacv1.ClusterRole) sets.Set[string] {
	all := sets.New[string]()
	for _, rule := range role.Rules {
		all.Insert(rule.Resources...)
	}
	return all
}

// observe sees the requests of the controller.
func (m *model) observe(action clienttesting.Action) (bool, runtime.Object, error) {
	if action.Matches("list", "clusterroles") && !m.listed {
		m.meddled, m.listed = false, true
	}
	return false, nil, nil
}

// validate checks what the controller writes.
func (m *model) validate(old, new runtime.Object) error {
	was, is := old.(*rbacv1.ClusterRole), new.(*rbacv1.ClusterRole)
	if is.AggregationRule == nil {
		m.t.Errorf("%s is written, which aggregates nothing", is.Name)
		return nil
	}
	if m.meddled || m.IsLateWrite() || !equality.Semantic.DeepEqual(m.of, was.AggregationRule) {
		return nil
	}
	lost := resourcesOf(was).Difference(resourcesOf(is))
	for _, source := range m.sourcesOf(was) {
		if due := resourcesOf(source).Intersection(lost); source.AggregationRule == nil && len(due) > 0 {
			m.t.Errorf("%s loses %v of %s", is.Name, sets.List(due), source.Name)
		}
	}
	return nil
}

func (m *model) rules() (all []rbacv1.PolicyRule) {
	for i := range 5 {
		if m.OneIn(3) {
			all = append(all, on(fmt.Sprint("r", i), "get"))
		}
	}
	return all
}

func (m *model) shape(role *rbacv1.ClusterRole) {
	role.Labels = map[string]string{}
	for _, label := range []string{"a", "b", "c"} {
		if m.OneIn(3) {
			role.Labels[label] = "yes"
		}
	}
	if role.AggregationRule == nil {
		role.Rules = m.rules()
		return
	}
	one := matching([]string{"a", "b", "c"}[m.Rand.IntN(3)], "yes")
	role.AggregationRule.ClusterRoleSelectors = []metav1.LabelSelector{one}
	if m.OneIn(3) {
		role.AggregationRule.ClusterRoleSelectors = append(role.AggregationRule.ClusterRoleSelectors, matching("b", "yes"))
	}
}

func (m *model) user() {
	m.meddled = true
	n := m.Rand.IntN(7)
	name := fmt.Sprint("role", n)
	role, ok := simulation.Get[*rbacv1.ClusterRole](m.World, "", name)
	if !ok {
		role = &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if n < 3 && !m.OneIn(6) {
			role.AggregationRule = &rbacv1.AggregationRule{}
		}
		m.shape(role)
		m.Create(role)
		return
	}
	switch m.Rand.IntN(4) {
	case 0:
		m.Delete(role, nil)
	case 1:
		m.Note("user writes the rules of %s", name)
		m.edited[role.UID] = role.AggregationRule != nil
		rules := m.rules()
		simulation.Change(m.World, role, func(r *rbacv1.ClusterRole) { r.Rules = rules })
	default:
		m.Note("user edits %s", name)
		simulation.Change(m.World, role, m.shape)
	}
}

// TestWhateverHappensNoRoleLosesWhatItsSourcesHave has roles edited, deleted and created again, requests fail and the
// controller restarted, while the cache is behind, or lacks roles.
func TestWhateverHappensNoRoleLosesWhatItsSourcesHave(t *testing.T) {
	simulation.Run(t, 40, func(t *testing.T, w *simulation.World) {
		m := &model{World: w, t: t, edited: map[types.UID]bool{}}
		w.Fake.PrependReactor("*", "*", m.observe)
		w.Validate = m.validate
		w.Start = func(env controller.Env, _ any) simulation.Instance {
			a := must.Get(newAggregator(env))(t)
			queue := simulation.NewQueue(w, func(ctx context.Context, name string) error {
				m.listed, m.meddled, m.of = false, false, nil
				if role, err := a.roles.Get(name); err == nil {
					m.of = role.AggregationRule
				}
				return a.reconcile(ctx, name)
			})
			a.queue = queue
			return simulation.Instance{Runners: []simulation.Runner{queue}}
		}
		for range 7 {
			m.user()
		}
		w.MayComeLate = simulation.AnyWrite
		w.Begin()
		w.Hasty = []int{0, 3}[w.Rand.IntN(2)]
		w.MayBeLossy(3)
		w.Play(func() {
			if w.OneIn(6) {
				m.user()
			}
		}, m.user)
		w.Settle(time.Hour, nil)
		for _, role := range simulation.All[*rbacv1.ClusterRole](w) {
			if role.AggregationRule == nil {
				continue
			}
			want, isPure := m.entitled(role, sets.New[string]())
			if got := resourcesOf(role); isPure && !got.Equal(want) {
				t.Errorf("%s has %v, want %v", role.Name, sets.List(got), sets.List(want))
			}
		}
	})
}
