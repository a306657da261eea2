package replicationcontroller

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/scheme"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/tools/reference"

	"kcmd.dev/pkg/config/v1beta1"
	"kcmd.dev/pkg/controller"
	"kcmd.dev/pkg/controllers/replicaset"
	"kcmd.dev/test/controllertest"
	"kcmd.dev/test/must"
)

var (
	rcKind    = corev1.SchemeGroupVersion.WithKind("ReplicationController")
	appLabels = map[string]string{"app": "a"}
	template  = &corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: appLabels}}
	forbidden = apierrors.NewForbidden(corev1.Resource("pods"), "p", errors.New("boom"))
)

func named(name string) func(*corev1.ReplicationController) {
	return func(rc *corev1.ReplicationController) { rc.Name, rc.UID = name, types.UID(name) }
}

// wanting makes a ReplicationController that wants pods.
func wanting(replicas int32, changes ...func(*corev1.ReplicationController)) *corev1.ReplicationController {
	rc := controllertest.Changed(replicationController(replicas, template), changes...)
	rc.ResourceVersion = "1"
	return rc
}

// podOf makes an active pod that an owner controls.
func podOf(rc *corev1.ReplicationController, name string, changes ...func(*corev1.Pod)) *corev1.Pod {
	pod := controllertest.Pod("ns", name, controllertest.Labeled(appLabels), controllertest.ControlledBy(rc, rcKind))
	pod.ResourceVersion = "1"
	return controllertest.Changed(pod, changes...)
}

func podNames(t *testing.T, env *controllertest.Env) []string {
	t.Helper()
	return controllertest.Names(controllertest.AllStored[*corev1.Pod](t, env, "ns"))
}

// scaled changes the number of pods that somebody wants.
func scaled(t *testing.T, env *controllertest.Env, name string, replicas int32) {
	t.Helper()
	controllertest.Change(t, env, "ns", name, func(rc *corev1.ReplicationController) {
		rc.Spec.Replicas, rc.Generation = &replicas, rc.Generation+1
	})
}

// eventually waits while the clock of the controller moves on.
func eventually(t *testing.T, env *controllertest.Env, what string, done func() bool) {
	t.Helper()
	env.EventuallyAsTimePasses(t, what, 10*time.Millisecond, done)
}

// instance makes another instance of the controller.
func instance(t *testing.T, env *controllertest.Env) controller.Controller {
	t.Helper()
	d := Descriptor()
	return must.Get(d.New(env.Env, d.Value(v1beta1.NewDefault())))(t)
}

// recorder keeps what events are about, and what they say.
type recorder struct {
	record.EventRecorder
	mu   sync.Mutex
	said map[string]bool
}

func (r *recorder) Event(about runtime.Object, kind, reason, message string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	ref, err := reference.GetReference(scheme.Scheme, about)
	if err != nil {
		ref = &corev1.ObjectReference{Kind: err.Error()}
	}
	r.said[fmt.Sprintf("%s %s %s/%s (%s): %s %s %s", ref.APIVersion, ref.Kind, ref.Namespace, ref.Name, ref.UID, kind, reason, message)] = true
}

func (r *recorder) has(event string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.said["v1 ReplicationController ns/rc (o): "+event]
}

func (r *recorder) all() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Sorted(maps.Keys(r.said))
}

// Pins RC-3 and RC-16.
func TestEvents(t *testing.T) {
	env := controllertest.New(t, wanting(1))
	env.StampWrites("pods")
	env.CompleteWrites("replicationcontrollers")
	env.CheckWrites("replicationcontrollers")
	events := &recorder{said: map[string]bool{}}
	env.Env.Events = events
	create, remove := env.Refuse("create pods", forbidden), env.Refuse("delete pods", forbidden)
	c := instance(t, env)
	env.Start(t)
	env.Run(t, c)
	want := func(event string) {
		t.Helper()
		eventually(t, env, "there is an event: "+event, func() bool { return events.has(event) })
	}
	want(`Warning FailedCreate Error creating: pods "p" is forbidden: boom`)
	create()
	eventually(t, env, "there is a pod", func() bool { return len(podNames(t, env)) == 1 })
	pod := podNames(t, env)[0]
	want("Normal SuccessfulCreate Created pod: " + pod)
	scaled(t, env, "rc", 0)
	want(`Warning FailedDelete Error deleting: pods "p" is forbidden: boom`)
	remove()
	want("Normal SuccessfulDelete Deleted pod: " + pod)
	if all := events.all(); len(all) != 4 {
		t.Errorf("events are %q", all)
	}
}

// Pins RC-3 and RC-22.
func TestWhoseAPodIs(t *testing.T) {
	for name, test := range map[string]struct {
		apiVersion, kind string
		want             int32
	}{
		"its kind":      {"v1", "ReplicationController", 1},
		"another group": {"example.com/v1", "ReplicationController", 1},
		"another kind":  {"apps/v1", "ReplicaSet", 0},
	} {
		t.Run(name, func(t *testing.T) {
			rc := wanting(test.want)
			env := start(t, rc, podOf(rc, "p", func(pod *corev1.Pod) {
				pod.OwnerReferences[0].APIVersion, pod.OwnerReferences[0].Kind = test.apiVersion, test.kind
			}))
			counted := func(n int32) func(*corev1.ReplicationController) bool {
				return func(rc *corev1.ReplicationController) bool {
					return rc.Status.ObservedGeneration == 1 && rc.Status.Replicas == n
				}
			}
			await(t, env, "the pods are counted", counted(test.want))
			env.AwaitIdle(t)
			if got := podNames(t, env); !slices.Equal(got, []string{"p"}) {
				t.Errorf("pods are %q", got)
			}
			env.Remove(t, podOf(rc, "p"))
			eventually(t, env, "it is replaced if it was one of its own", func() bool { return len(podNames(t, env)) == int(test.want) && env.Idle() })
		})
	}
}

// Pins RC-6.
func TestWhatIsFollowed(t *testing.T) {
	env := start(t)
	rc := wanting(2)
	has := func(what string, is func(rc *corev1.ReplicationController, pods []*corev1.Pod) bool) {
		t.Helper()
		eventually(t, env, what, func() bool {
			stored, ok := controllertest.Stored[*corev1.ReplicationController](t, env, "ns", "rc")
			return ok && is(stored, controllertest.AllStored[*corev1.Pod](t, env, "ns"))
		})
	}
	counted := func(n int) func(*corev1.ReplicationController, []*corev1.Pod) bool {
		return func(rc *corev1.ReplicationController, pods []*corev1.Pod) bool {
			return len(pods) == n && int(rc.Status.Replicas) == n
		}
	}
	env.Store(t, rc)
	has("its addition is seen", counted(2))
	scaled(t, env, "rc", 3)
	has("its change is seen", counted(3))

	env.Remove(t, controllertest.AllStored[*corev1.Pod](t, env, "ns")[0])
	has("the end of a pod is seen", counted(3))
	pod := controllertest.AllStored[*corev1.Pod](t, env, "ns")[0]
	controllertest.Change(t, env, "ns", pod.Name, controllertest.ReadySince(env.Clock.Now()))
	has("a change of a pod is seen", func(rc *corev1.ReplicationController, _ []*corev1.Pod) bool { return rc.Status.AvailableReplicas == 1 })
	controllertest.Change(t, env, "ns", pod.Name, controllertest.Labeled(map[string]string{"app": "other"}))
	has("a pod that does not match is released and replaced", func(rc *corev1.ReplicationController, pods []*corev1.Pod) bool {
		released := controllertest.MustStored[*corev1.Pod](t, env, "ns", pod.Name)
		return len(pods) == 4 && rc.Status.Replicas == 3 && metav1.GetControllerOf(released) == nil
	})
	env.Remove(t, pod)
	env.Refuse("create pods", forbidden)
	scaled(t, env, "rc", 4)
	env.AwaitIdle(t)
	env.Store(t, podOf(rc, "orphan", controllertest.Orphaned))
	controllertest.Eventually(t, "an orphan is adopted at once", func() bool {
		return metav1.IsControlledBy(controllertest.MustStored[*corev1.Pod](t, env, "ns", "orphan"), rc)
	})
}

// What was to be waited for concerns the one that was there before. Pins RC-6.
func TestARecreatedOneDoesNotWait(t *testing.T) {
	going := apierrors.NewForbidden(corev1.Resource("pods"), "", errors.New("going"))
	going.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
	env := controllertest.New(t, wanting(1))
	env.StampWrites("pods")
	env.RefuseIf("create pods", going, func(n int) bool { return n == 1 })
	c := instance(t, env)
	env.Start(t)
	env.Run(t, c)
	controllertest.Eventually(t, "it is on hold", func() bool { return env.Idle() && slices.Contains(env.WriteVerbs(), "create") })
	env.Store(t, wanting(1, func(rc *corev1.ReplicationController) { rc.UID = "recreated" }))
	controllertest.Eventually(t, "the new one has a pod", func() bool {
		pods := controllertest.AllStored[*corev1.Pod](t, env, "ns")
		return len(pods) == 1 && pods[0].OwnerReferences[0].UID == "recreated"
	})
}

// Pins RC-7.
func TestPodsOfOthersDoNotRankThoseOfTheOwner(t *testing.T) {
	family := func(rc *corev1.ReplicationController) {
		config := &metav1.ObjectMeta{Name: "config", UID: "config"}
		rc.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(config, appsv1.SchemeGroupVersion.WithKind("Deployment"))}
	}
	rc, sibling := wanting(1, family), wanting(1, family, named("sibling"))
	created := func(age time.Duration) func(*corev1.Pod) {
		return controllertest.Created(controllertest.Epoch.Add(-age))
	}
	env := start(t, rc, sibling,
		podOf(rc, "younger", controllertest.OnNode("n1"), created(time.Second)),
		podOf(rc, "older", controllertest.OnNode("crowded"), created(time.Hour)),
		podOf(sibling, "other", controllertest.OnNode("crowded"), created(time.Minute)))
	eventually(t, env, "a pod is deleted", func() bool { return len(podNames(t, env)) == 2 })
	if got := podNames(t, env); !slices.Equal(got, []string{"older", "other"}) {
		t.Errorf("pods are %q", got)
	}
}

// Pins RC-9 and RC-10.
func TestTheOnlyRequests(t *testing.T) {
	rc := wanting(3)
	env := controllertest.New(t, rc, podOf(rc, "p"), podOf(rc, "orphan", controllertest.Orphaned),
		podOf(rc, "stray", controllertest.Labeled(map[string]string{"app": "other"})))
	env.StampWrites("pods")
	env.CompleteWrites("replicationcontrollers")
	env.CheckWrites("replicationcontrollers")
	env.RefuseIf("update replicationcontrollers/status", forbidden, func(n int) bool { return n == 1 })
	c := instance(t, env)
	env.Start(t)
	env.Run(t, c)
	await(t, env, "there are three", func(rc *corev1.ReplicationController) bool { return rc.Status.Replicas == 3 })
	scaled(t, env, "rc", 1)
	await(t, env, "there is one", func(rc *corev1.ReplicationController) bool { return rc.Status.Replicas == 1 })
	env.AwaitIdle(t)
	sent := map[string]bool{}
	for _, action := range env.Fake.Actions() {
		resource := action.GetResource().Resource
		if sub := action.GetSubresource(); sub != "" {
			resource += "/" + sub
		}
		sent[action.GetVerb()+" "+resource] = true
	}
	want := []string{
		"create pods", "delete pods", "get replicationcontrollers", "list pods", "list replicationcontrollers", "patch pods",
		"update replicationcontrollers/status", "watch pods", "watch replicationcontrollers",
	}
	if got := slices.Sorted(maps.Keys(sent)); !slices.Equal(got, want) {
		t.Errorf("requests are %q, want %q", got, want)
	}
}

// Pins RC-11.
func TestAFailureIsRetriedWithoutEnd(t *testing.T) {
	env := controllertest.New(t, wanting(1))
	env.StampWrites("pods")
	env.RefuseIf("create pods", forbidden, func(n int) bool { return n <= 20 })
	c := instance(t, env)
	env.Start(t)
	env.Run(t, c)
	env.EventuallyAsTimePasses(t, "there is a pod", 1000*time.Second, func() bool { return len(podNames(t, env)) == 1 })
}

// blind makes an environment whose cache of pods stays as it is in the beginning.
func blind(t *testing.T, objects ...runtime.Object) *controllertest.Env {
	t.Helper()
	env := controllertest.New(t, objects...)
	env.StampWrites("pods")
	env.Fake.PrependWatchReactor("pods", func(clienttesting.Action) (bool, watch.Interface, error) { return true, watch.NewFake(), nil })
	return env
}

// Pins RC-4, RC-18 and RC-25.
func TestACacheThatIsBehindLetsTheStatusBeWritten(t *testing.T) {
	rc := wanting(2)
	env := blind(t, rc, podOf(rc, "p"))
	c := instance(t, env)
	env.Start(t)
	env.Run(t, c)
	await(t, env, "the pod that the cache shows is counted", func(rc *corev1.ReplicationController) bool { return rc.Status.Replicas == 1 })
	env.AwaitIdle(t)
	env.Clock.SetTime(controllertest.Epoch.Add(5*time.Minute - time.Second))
	env.AwaitIdle(t)
	if got := podNames(t, env); len(got) != 2 {
		t.Errorf("pods are %q", got)
	}
	env.EventuallyAsTimePasses(t, "the pod that the cache never shows is given up", time.Second, func() bool { return len(podNames(t, env)) > 2 })
}

// Pins RC-23.
func TestTheSuccessorWaitsForThePodsOfThePredecessor(t *testing.T) {
	env := blind(t, wanting(2))
	c := instance(t, env)
	env.Start(t)
	stop := env.Run(t, c)
	controllertest.Eventually(t, "there are pods", func() bool { return len(podNames(t, env)) == 2 && env.Idle() })
	stop()
	env.Succeed(env.Succession.HandOver())
	env.Run(t, instance(t, env))
	controllertest.Eventually(t, "the successor has looked at it", func() bool {
		loops := env.Loops()
		return loops[len(loops)-1].Reconciled > 0
	})
	env.AwaitIdle(t)
	if got := podNames(t, env); len(got) != 2 {
		t.Errorf("pods are %q", got)
	}
}

// What one waits for does not hold up the other. Pins RC-20.
func TestAReplicaSetOfTheSameNameIsAnother(t *testing.T) {
	rc := wanting(1)
	rs := &appsv1.ReplicaSet{
		ObjectMeta: *rc.ObjectMeta.DeepCopy(),
		Spec:       appsv1.ReplicaSetSpec{Replicas: rc.Spec.Replicas, Selector: &metav1.LabelSelector{MatchLabels: appLabels}, Template: *template},
	}
	env := blind(t, rc, rs)
	d := replicaset.Descriptor()
	first, second := instance(t, env), must.Get(d.New(env.Env, d.Value(v1beta1.NewDefault())))(t)
	env.Start(t)
	env.Run(t, first)
	controllertest.Eventually(t, "the first has created a pod", func() bool { return len(podNames(t, env)) == 1 })
	env.Run(t, second)
	controllertest.Eventually(t, "each has a pod", func() bool {
		kinds := map[string]int{}
		for _, pod := range controllertest.AllStored[*corev1.Pod](t, env, "ns") {
			kinds[pod.OwnerReferences[0].Kind]++
		}
		return maps.Equal(kinds, map[string]int{"ReplicationController": 1, "ReplicaSet": 1})
	})
}

// Pins RC-21.
func TestAnOrphanedPodIsTakenOverByAnother(t *testing.T) {
	deleted, other := wanting(1, named("deleted")), wanting(2)
	env := controllertest.New(t, deleted, other, podOf(deleted, "p"), podOf(other, "q"))
	env.StampWrites("pods")
	env.Refuse("create pods", forbidden)
	c := instance(t, env)
	env.Start(t)
	env.Run(t, c)
	await(t, env, "its pod is counted", func(rc *corev1.ReplicationController) bool { return rc.Status.Replicas == 1 })
	env.Remove(t, deleted)
	env.AwaitIdle(t)
	controllertest.Change(t, env, "ns", "p", controllertest.Orphaned)
	controllertest.Eventually(t, "the pod is adopted at once", func() bool {
		return metav1.IsControlledBy(controllertest.MustStored[*corev1.Pod](t, env, "ns", "p"), other)
	})
}

// Pins RC-26.
func TestTheOnlyMetricsAreThoseOfTheQueue(t *testing.T) {
	rc := wanting(1)
	ready := controllertest.ReadySince(controllertest.Epoch.Add(-time.Hour))
	env := start(t, rc, podOf(rc, "p", ready), podOf(rc, "q", ready))
	eventually(t, env, "a pod is deleted", func() bool { return len(podNames(t, env)) == 1 })
	env.WantOnlyQueueMetrics(t)
}
