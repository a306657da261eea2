package podchanges_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/endpointslice/util"

	"kcmd.dev/pkg/controllers/kit/index"
	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/pkg/controllers/kit/services/podchanges"
	"kcmd.dev/pkg/controllers/kit/watch"
	"kcmd.dev/test/controllertest"
)

func pod(version string, set map[string]string, change ...func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "p", ResourceVersion: version, Labels: set},
		Status: corev1.PodStatus{
			Phase:      corev1.PodRunning,
			PodIPs:     []corev1.PodIP{{IP: "10.0.0.1"}},
			Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
		},
	}
	for _, c := range change {
		c(p)
	}
	return p
}

func notReady(p *corev1.Pod) { p.Status.Conditions[0].Status = corev1.ConditionFalse }

func recreated(p *corev1.Pod) { p.UID = "another" }

func pending(p *corev1.Pod) { p.Status.Phase = corev1.PodPending }

func ended(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }

var a, b, c = map[string]string{"app": "a"}, map[string]string{"app": "b"}, map[string]string{"app": "c"}

func TestNotifications(t *testing.T) {
	update := func(old, new *corev1.Pod) func(watch.Funcs[*corev1.Pod]) {
		return func(f watch.Funcs[*corev1.Pod]) { f.Update(reconcile.Fresh, old, new) }
	}
	for name, tc := range map[string]struct {
		notify func(watch.Funcs[*corev1.Pod])
		want   int
	}{
		"EP-53, EPS-55, EP-63: replayed": {func(f watch.Funcs[*corev1.Pod]) { f.Add(reconcile.Backlog, pod("1", a)) }, 0},
		"EP-10, EPS-10: added":           {func(f watch.Funcs[*corev1.Pod]) { f.Add(reconcile.Fresh, pod("1", a)) }, 1},
		"EP-10, EPS-10: deleted":         {func(f watch.Funcs[*corev1.Pod]) { f.Delete(pod("1", a)) }, 1},
		"EP-62, EPS-61: pods of one Deployment": {func(f watch.Funcs[*corev1.Pod]) {
			for range 10 {
				f.Add(reconcile.Fresh, pod("1", a))
			}
		}, 1},
		"different pods": {func(f watch.Funcs[*corev1.Pod]) {
			f.Add(reconcile.Fresh, pod("1", a))
			f.Add(reconcile.Fresh, pod("1", b))
		}, 2},
		"EP-62, EPS-61: pods that nothing selects": {func(f watch.Funcs[*corev1.Pod]) {
			f.Add(reconcile.Fresh, pod("1", c))
			update(pod("1", c), pod("2", nil))(f)
			f.Delete(pod("2", nil))
		}, 0},
		"EP-62, EPS-61: selected from now on":  {update(pod("1", c), pod("2", a)), 1},
		"EP-62, EPS-61: not selected any more": {update(pod("1", a), pod("2", nil)), 1},
		"EP-13: resynced":                      {update(pod("1", a), pod("1", a, notReady)), 0},
		"EP-16: irrelevant":                    {update(pod("1", a), pod("2", a)), 0},
		"EP-16: phase":                         {update(pod("1", a, pending), pod("2", a)), 0},
		"EP-73, EPS-75: failed":                {update(pod("1", a, notReady), pod("2", a, notReady, ended)), 1},
		"EP-73, EPS-75: failed before":         {update(pod("1", a, notReady, ended), pod("2", a, notReady, ended)), 0},
		"EP-73, EPS-75: nothing selects it":    {update(pod("1", c, notReady), pod("2", c, notReady, ended)), 0},
		"EP-14: ready":                         {update(pod("1", a, notReady), pod("2", a)), 1},
		"EP-15: relabelled":                    {update(pod("1", a), pod("2", b)), 1},
		"EP-15: hostname":                      {update(pod("1", a), pod("2", a, func(p *corev1.Pod) { p.Spec.Hostname = "h" })), 1},
		"EP-71, EPS-73: recreated":             {update(pod("1", a), pod("2", a, recreated)), 1},
		"EP-71, EPS-73: recreated, relabelled": {update(pod("1", a), pod("2", b, recreated)), 2},
		"EP-71, EPS-73: recreated, selected":   {update(pod("1", c), pod("2", a, recreated)), 1},
		"EP-71, EPS-73: recreated, unselected": {update(pod("1", a), pod("2", c, recreated)), 1},
		"recreated, nothing selects":           {update(pod("1", c), pod("2", c, recreated)), 0},
		"EP-14: address":                       {update(pod("1", a), pod("2", a, func(p *corev1.Pod) { p.Status.PodIPs[0].IP = "10.0.0.2" })), 1},
	} {
		t.Run(name, func(t *testing.T) {
			env := controllertest.New(t)
			selecting := index.NewServices(env.Informers.Core().V1().Services().Informer())
			env.Cache(t, service("n", "a", a), service("n", "b", b), service("m", "c", c))
			loop := newLoop(t)
			tc.notify(podchanges.Funcs(loop, selecting))
			if s := loop.Inspect(); s.Depth != tc.want {
				t.Errorf("queue holds %d keys, want %d", s.Depth, tc.want)
			}
		})
	}
}

// Pins EP-9 and EPS-9.
func TestServiceNotifications(t *testing.T) {
	queue := &controllertest.Queue[types.NamespacedName]{}
	funcs, web := podchanges.ServiceFuncs(queue), service("n", "web", a)
	funcs.AddOrUpdate(reconcile.Backlog, web)
	funcs.AddOrUpdate(reconcile.Fresh, web)
	funcs.Delete(service("n", "gone", a))
	queue.Want(t, "backlog n/web", "n/web", "n/gone")
}

// Pins EP-24.
func TestConcernedServicesAreQueuedAfterTheDelay(t *testing.T) {
	env := controllertest.New(t)
	selecting := index.NewServices(env.Informers.Core().V1().Services().Informer())
	env.Cache(t, service("n", "a", a), service("n", "b", b), service("m", "a", a))
	queue := &controllertest.Queue[types.NamespacedName]{}
	if err := podchanges.Between(nil, pod("1", a)).Enqueue(selecting, queue, time.Second); err != nil {
		t.Fatal(err)
	}
	queue.Want(t, "n/a in 1s")
}

func TestSelects(t *testing.T) {
	external := service("n", "a", a)
	external.Spec.Type = corev1.ServiceTypeExternalName
	for name, tc := range map[string]struct {
		service *corev1.Service
		want    bool
	}{
		"EP-28, EPS-20: a selector":       {service("n", "a", a), true},
		"EP-28: an empty selector":        {service("n", "a", map[string]string{}), true},
		"EP-28, EPS-20: no selector":      {service("n", "a", nil), false},
		"EP-28, EPS-20: an external name": {external, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := podchanges.Selects(tc.service); got != tc.want {
				t.Errorf("got %v", got)
			}
		})
	}
}

func newLoop(t testing.TB) *reconcile.Loop[podchanges.Change] {
	return reconcile.New(controllertest.New(t).Env, reconcile.Options[podchanges.Change]{Queue: "pods", Workers: 1},
		func(context.Context, podchanges.Change) error { return nil })
}

func service(namespace, name string, selector map[string]string) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       corev1.ServiceSpec{Selector: selector},
	}
}

// Pins EP-24.
func TestServicesConcerned(t *testing.T) {
	env := controllertest.New(t,
		service("n", "a", a), service("n", "b", b), service("n", "a1", map[string]string{"app": "a", "v": "1"}),
		service("n", "all", map[string]string{}), service("n", "none", nil), service("m", "a", a))
	informer := env.Informers.Core().V1().Services()
	selecting := index.NewServices(informer.Informer())
	env.Start(t)
	a1 := map[string]string{"app": "a", "v": "1"}
	for name, tc := range map[string]struct {
		old, new *corev1.Pod
		want     []string
	}{
		"EP-23a: pod":                    {nil, pod("1", a), []string{"n/a", "n/all"}},
		"EP-23a: deleted pod":            {pod("1", b), nil, []string{"n/all", "n/b"}},
		"EP-23a: changed":                {pod("1", a, notReady), pod("2", a), []string{"n/a", "n/all"}},
		"two labels":                     {nil, pod("1", a1), []string{"n/a", "n/a1", "n/all"}},
		"without labels":                 {nil, pod("1", nil), []string{"n/all"}},
		"EP-23a: relabelled":             {pod("1", a), pod("2", b), []string{"n/a", "n/b"}},
		"relabelled in part":             {pod("1", a), pod("2", a1), []string{"n/a1"}},
		"EP-23a: relabelled and changed": {pod("1", a, notReady), pod("2", b), []string{"n/a", "n/all", "n/b"}},
		"first label":                    {pod("1", nil), pod("2", a), []string{"n/a", "n/all"}},
		"last label":                     {pod("1", a), pod("2", nil), []string{"n/a"}},
		"hostname changed":               {pod("1", a), pod("2", a, func(p *corev1.Pod) { p.Spec.Hostname = "h" }), nil},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := podchanges.Between(tc.old, tc.new).Concerned(selecting)
			if err != nil {
				t.Fatal(err)
			}
			names := sets.New[string]()
			for _, service := range got {
				names.Insert(service.String())
			}
			if !names.Equal(sets.New(tc.want...)) {
				t.Errorf("concerned are %v, want %v", got, tc.want)
			}
			if tc.old == nil || tc.new == nil {
				return
			}
			fromLibrary, err := util.GetServicesToUpdate(informer.Lister(), util.GetPodUpdateProjectionKey(tc.old, tc.new))
			if err != nil {
				t.Fatal(err)
			}
			if !sets.New(fromLibrary.UnsortedList()...).Equal(names) {
				t.Errorf("concerned are %v, the library says %v", got, fromLibrary.List())
			}
		})
	}
}

// Those that selected it before and after are concerned, too. Pins EP-73 and EPS-75.
func TestAPodThatEndsAndIsRelabelled(t *testing.T) {
	env := controllertest.New(t)
	selecting := index.NewServices(env.Informers.Core().V1().Services().Informer())
	env.Cache(t, service("n", "a", a), service("n", "b", b), service("n", "all", map[string]string{}))
	got, err := podchanges.Between(pod("1", a, notReady), pod("2", b, notReady, ended)).Concerned(selecting)
	if err != nil || len(got) != 3 {
		t.Errorf("concerned are %v, %v", got, err)
	}
}

func TestAChangeNamesThePod(t *testing.T) {
	set := labels.Set{"a": "", "app.kubernetes.io/name": "web", "c": "x-y_z.1"}
	if got, want := podchanges.Between(nil, pod("1", set)).String(), "n/{a=,app.kubernetes.io/name=web,c=x-y_z.1}"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// BenchmarkConcerned must not grow with the number of Services.
func BenchmarkConcerned(bench *testing.B) {
	for _, size := range []int{100, 10_000} {
		env := controllertest.New(bench)
		informer := env.Informers.Core().V1().Services().Informer()
		selecting := index.NewServices(informer)
		for i := range size {
			name := fmt.Sprintf("service-%d", i)
			if err := informer.GetIndexer().Add(service("n", name, map[string]string{"app": name, "tier": "front"})); err != nil {
				bench.Fatal(err)
			}
		}
		change := podchanges.Between(nil, pod("1", map[string]string{"app": "service-7", "tier": "front"}))
		bench.Run(fmt.Sprintf("services=%d", size), func(bench *testing.B) {
			bench.ReportAllocs()
			for bench.Loop() {
				if found, err := change.Concerned(selecting); err != nil || len(found) != 1 {
					bench.Fatalf("found %v, %v", found, err)
				}
			}
		})
	}
}
