package namespace

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/controller"
	"kcmd.dev/test/must"
	"kcmd.dev/test/simulation"
)

// cronJobs are of a kind that comes and goes in the model: with its definition, or with the server that serves it.
var cronJobs = batchv1.SchemeGroupVersion.WithResource("cronjobs")

// model is a world with namespaces that are deleted and created again.
type model struct {
	*simulation.World
	t        *testing.T
	metadata *simulation.Metadata
	kubelet  simulation.Kubelet
	// undefined is whether the kind of CronJobs does not exist, and is not only down.
	undefined bool
	// of is the UID of the namespace in which an object was created, by its UID.
	of map[types.UID]types.UID
	// read is the UID of the terminating namespace that the last request has read, empty if it was another request.
	read types.UID
	// finalizedByOthers are the names of namespaces that were ever finalized with what was on the way to delete their
	// content.
	finalizedByOthers map[string]bool
	// together is whether the controller is deleting a collection.
	together bool
}

// served is the discovery of a model.
type served struct {
	discovery.DiscoveryInterface
	m *model
}

func (s served) ServerPreferredNamespacedResources() ([]*metav1.APIResourceList, error) {
	m := s.m
	if m.Faulty && m.OneIn(8) {
		return nil, []error{nil, errors.New("timeout")}[m.Rand.IntN(2)]
	}
	list := func(groupVersion string, verbs metav1.Verbs, names ...string) *metav1.APIResourceList {
		l := &metav1.APIResourceList{GroupVersion: groupVersion}
		for _, name := range names {
			l.APIResources = append(l.APIResources, metav1.APIResource{Name: name, Namespaced: true, Verbs: verbs})
		}
		return l
	}
	lists := []*metav1.APIResourceList{
		list("v1", allVerbs, "pods", "configmaps"), list("v1", metav1.Verbs{"create", "delete", "get", "list"}, "secrets"),
	}
	if m.metadata.IsServed(cronJobs) && !(m.Faulty && m.OneIn(8)) {
		return append(lists, list("batch/v1", allVerbs, "cronjobs")), nil
	}
	if m.undefined {
		return lists, nil
	}
	failed := map[schema.GroupVersion]error{cronJobs.GroupVersion(): errors.New("the server is currently unable")}
	return lists, &discovery.ErrGroupDiscoveryFailed{Groups: failed}
}

func (m *model) start(env controller.Env, left any) simulation.Instance {
	if left == nil {
		m.DropLate() // a process does not know which deletions of collections the one before it has sent
	}
	env.Discovery, env.Metadata = served{m: m}, &simulation.Contents{World: m.World, Refuses: m.refuses,
		Kinds: map[schema.GroupVersionResource]schema.GroupVersionKind{
			pods: corev1.SchemeGroupVersion.WithKind("Pod"), configMaps: corev1.SchemeGroupVersion.WithKind("ConfigMap"),
			secrets: corev1.SchemeGroupVersion.WithKind("Secret"), cronJobs: batchv1.SchemeGroupVersion.WithKind("CronJob"),
		}}
	c := must.Get(newController(env, config{concurrentSyncs: 1, podsFirst: true}))(m.t)
	c.typesAtOnce = 1
	queue := simulation.NewQueue(m.World, c.reconcile)
	c.queue = queue
	must.Succeed(m.t, c.begin(m.Context()))
	return simulation.Instance{Runners: []simulation.Runner{queue}, HandOver: func() any { return c.HandOver() }}
}

// refuses has types be down, or answer now and then that they do not support something.
func (m *model) refuses(verb string, resource schema.GroupVersionResource) error {
	m.together = verb == "deletecollection"
	switch {
	case m.together && resource == secrets:
		m.t.Error("the collection of secrets is deleted, which discovery says is not supported")
	case m.together && m.read == "":
		m.t.Errorf("the collection of %s is deleted without a look at the namespace", resource.Resource)
	case resource == cronJobs && !m.metadata.IsServed(cronJobs) && !m.undefined:
		return apierrors.NewServiceUnavailable("down")
	case m.together && m.Faulty && m.OneIn(8):
		return apierrors.NewMethodNotSupported(resource.GroupResource(), verb)
	case verb == "list" && m.Faulty && m.OneIn(30):
		return apierrors.NewInternalError(errors.New("conversion webhook is down"))
	}
	return nil
}

// answered follows what the controller knows of namespaces.
func (m *model) answered(action clienttesting.Action) {
	if m.IsLateWrite() {
		return
	}
	m.read = ""
	if get, ok := action.(clienttesting.GetAction); ok && action.GetResource().Resource == "namespaces" {
		if ns, ok := m.namespace(get.GetName()); ok && ns.DeletionTimestamp != nil {
			m.read = ns.UID
		}
	}
}

func (m *model) namespace(name string) (*corev1.Namespace, bool) {
	return simulation.Get[*corev1.Namespace](m.World, "", name)
}

// admit records what is created where.
func (m *model) admit(o runtime.Object) {
	created := o.(metav1.Object)
	if ns, ok := m.namespace(created.GetNamespace()); ok {
		m.of[created.GetUID()] = ns.UID
	}
}

// content returns what is stored in a namespace.
func (m *model) content(namespace string) (all []metav1.Object) {
	for _, resource := range []schema.GroupVersionResource{pods, configMaps, secrets, cronJobs} {
		for _, o := range m.metadata.Of(resource) {
			if o.GetNamespace() == namespace {
				all = append(all, o)
			}
		}
	}
	return all
}

// deleted checks what the controller has deleted. A namespace that is recreated while a collection is on the way to
// be deleted loses content whatever the controller does.
func (m *model) deleted(o runtime.Object) {
	was := o.(metav1.Object)
	ns, ok := m.namespace(was.GetNamespace())
	isOnTheWay := m.together && !m.IsLateWrite()
	if ok && ns.DeletionTimestamp == nil && !isOnTheWay && !m.finalizedByOthers[ns.Name] && m.of[was.GetUID()] == ns.UID {
		m.t.Errorf("%s is deleted from a namespace that is not being deleted", was.GetName())
	}
}

// validate checks that no namespace is finalized with its content.
func (m *model) validate(_, is runtime.Object) error {
	ns, ok := is.(*corev1.Namespace)
	if !ok || slices.Contains(ns.Spec.Finalizers, corev1.FinalizerKubernetes) {
		return nil
	}
	if ns.DeletionTimestamp == nil {
		return errors.New("a namespace is finalized that is not being deleted")
	}
	for _, o := range m.content(ns.Name) {
		if m.of[o.GetUID()] == ns.UID {
			return fmt.Errorf("%s is finalized with %s", ns.Name, o.GetName())
		}
	}
	return nil
}

// settling is for how long an API server may admit objects to a namespace that was deleted.
const settling = settleTime - time.Second

// user creates and deletes namespaces and objects, and installs and removes a kind.
func (m *model) user() {
	n := m.Rand.IntN
	name := []string{"a", "b", "c"}[n(3)]
	ns, ok := m.namespace(name)
	switch {
	case !ok:
		created := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
		created.Spec.Finalizers = []corev1.FinalizerName{corev1.FinalizerKubernetes}
		if n(4) == 0 {
			created.Spec.Finalizers = append(created.Spec.Finalizers, "example.com/foreign")
		}
		m.Create(created)
	case n(8) == 0:
		m.turn()
	case ns.DeletionTimestamp == nil && n(6) == 0:
		m.Delete(ns, nil)
		if ns, ok = m.namespace(name); ok && n(4) > 0 {
			simulation.Change(m.World, ns, func(ns *corev1.Namespace) { ns.Status.Phase = corev1.NamespaceTerminating })
		}
	case ns.DeletionTimestamp == nil, m.Clock.Since(ns.DeletionTimestamp.Time) < settling:
		m.createContent(name)
	case n(10) == 0:
		m.Note("user finalizes %s", name)
		m.finalizedByOthers[name] = true
		simulation.Change(m.World, ns, func(ns *corev1.Namespace) { ns.Spec.Finalizers = nil })
	}
}

// turn installs or removes the kind of CronJobs, or has its server go down or come back.
func (m *model) turn() {
	isServed := m.metadata.IsServed(cronJobs)
	m.undefined = isServed && m.OneIn(2)
	if m.undefined {
		for _, cj := range simulation.All[*batchv1.CronJob](m.World) {
			simulation.Change(m.World, cj, func(cj *batchv1.CronJob) { cj.Finalizers = nil })
		}
		for _, cj := range simulation.All[*batchv1.CronJob](m.World) {
			m.Delete(cj, nil)
		}
	}
	m.metadata.Serve(cronJobs, !isServed)
}

func (m *model) createContent(namespace string) {
	meta := metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprint("o", m.Rand.IntN(8))}
	for _, o := range m.content(namespace) {
		if o.GetName() == meta.Name {
			return
		}
	}
	if m.OneIn(4) {
		meta.Finalizers = []string{"example.com/hold"}
	}
	switch m.Rand.IntN(4) {
	case 0:
		m.Create(&corev1.ConfigMap{ObjectMeta: meta})
	case 1:
		m.Create(&corev1.Secret{ObjectMeta: meta})
	case 2:
		grace := ptr.To(int64(m.Rand.IntN(60)))
		m.Create(&corev1.Pod{ObjectMeta: meta, Spec: corev1.PodSpec{TerminationGracePeriodSeconds: grace}})
	case 3:
		if m.metadata.IsServed(cronJobs) {
			m.Create(&batchv1.CronJob{ObjectMeta: meta})
		}
	}
}

// others is what kubelets and those who have set finalizers do.
func (m *model) others(all bool) bool {
	did := m.kubelet.Act(all)
	for _, resource := range []schema.GroupVersionResource{pods, configMaps, secrets, cronJobs} {
		for _, o := range m.metadata.Of(resource) {
			isServed := resource != cronJobs || m.metadata.IsServed(cronJobs)
			if isServed && o.GetDeletionTimestamp() != nil && len(o.GetFinalizers()) > 0 && (all || m.OneIn(3)) {
				did = true
				m.metadata.Change(resource, o, func(o metav1.Object) { o.SetFinalizers(nil) })
			}
		}
	}
	for _, ns := range simulation.All[*corev1.Namespace](m.World) {
		if slices.Equal(ns.Spec.Finalizers, []corev1.FinalizerName{"example.com/foreign"}) && (all || m.OneIn(3)) {
			did = true
			simulation.Change(m.World, ns, func(ns *corev1.Namespace) { ns.Spec.Finalizers = nil })
		}
	}
	return did
}

// TestWhateverHappensNamespacesGoWithTheirContent has namespaces deleted, finalized by others and created again, a kind
// come and go, requests fail and the controller restarted, while the caches are behind or incomplete. No namespace goes
// before its content, nothing is deleted from others, and in the end those that are deleted are gone, without a resync.
func TestWhateverHappensNamespacesGoWithTheirContent(t *testing.T) {
	simulation.Run(t, 40, func(t *testing.T, w *simulation.World) {
		(&model{World: w, t: t, of: map[types.UID]types.UID{}, finalizedByOthers: map[string]bool{}}).run()
	})
}

func (m *model) run() {
	m.metadata, m.kubelet = simulation.ServeMetadata(m.World), simulation.Kubelet{World: m.World, Unready: 3}
	m.Start, m.Answered, m.Admit, m.Deleted, m.Validate = m.start, m.answered, m.admit, m.deleted, m.validate
	m.MayBeLossy(2)
	m.MayComeLate = simulation.AnyWrite
	m.Begin()
	m.Hasty = []int{0, 5}[m.Rand.IntN(2)]
	m.Play(func() {
		if m.OneIn(2) {
			m.user()
		} else {
			m.others(false)
		}
	}, m.user)
	others := func() bool { return m.others(true) }
	m.Settle(10*time.Minute, others)
	isDown := !m.metadata.IsServed(cronJobs) && !m.undefined
	for _, ns := range simulation.All[*corev1.Namespace](m.World) {
		if ns.DeletionTimestamp == nil {
			continue
		}
		if !isDown {
			m.t.Errorf("%s is there: %+v", ns.Name, ns)
		}
		for _, o := range m.content(ns.Name) {
			if _, isCronJob := o.(*batchv1.CronJob); !isCronJob {
				m.t.Errorf("%s has %s, which is not of the kind that is down", ns.Name, o.GetName())
			}
		}
	}
	m.undefined = false
	m.metadata.Serve(cronJobs, true)
	m.Settle(10*time.Minute, others)
	for _, ns := range simulation.All[*corev1.Namespace](m.World) {
		if ns.DeletionTimestamp != nil {
			m.t.Errorf("%s is there in the end: %+v", ns.Name, ns)
		}
	}
}
