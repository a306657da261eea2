package informers

import (
	"encoding/json"
	"fmt"
	"reflect"
	"runtime"
	"sync"
	"testing"
	"time"
	"unique"
	"unsafe"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/runtime/informers/wire"
	"kcmd.dev/test/must"
)

// decoded is a pod as an informer gets it: no part of it belongs to another one.
func decoded(t testing.TB, p *corev1.Pod) *corev1.Pod {
	t.Helper()
	data, err := p.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	fresh := &corev1.Pod{}
	if err := fresh.Unmarshal(data); err != nil {
		t.Fatal(err)
	}
	return fresh
}

func arrive(t testing.TB, s *podSharing, p *corev1.Pod) *corev1.Pod {
	t.Helper()
	return must.Get(s.shrink(decoded(t, p)))(t).(*corev1.Pod)
}

// arriveWatched is like arrive for a pod that was shrunk while it was decoded.
func arriveWatched(t testing.TB, s *podSharing, watched apiruntime.Decoder, p *corev1.Pod) *corev1.Pod {
	t.Helper()
	raw := must.Get(apiruntime.Encode(scheme.Codecs.EncoderForVersion(protobufOf(scheme.Codecs.WithoutConversion()), corev1.SchemeGroupVersion), p))(t)
	pod := must.Get(apiruntime.Decode(watched, raw))(t)
	clear(raw) // it is used for the next event
	return must.Get(s.shrink(pod))(t).(*corev1.Pod)
}

// watching returns the decoder of a client whose pods s shares.
func watching(s *podSharing) apiruntime.Decoder {
	serializer := wire.Pods(scheme.Codecs.WithoutConversion(), s.decoding())
	return serializer.DecoderToVersion(protobufOf(serializer), corev1.SchemeGroupVersion)
}

func protobufOf(s apiruntime.NegotiatedSerializer) apiruntime.Serializer {
	info, _ := apiruntime.SerializerInfoForMediaType(s.SupportedMediaTypes(), apiruntime.ContentTypeProtobuf)
	return info.Serializer
}

// encoded is an object as text, quantities in their format included.
func encoded(t testing.TB, obj any) string {
	t.Helper()
	data, err := json.MarshalIndent(obj, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// same reports that two maps are one.
func same[M ~map[K]V, K comparable, V any](a, b M) bool {
	return *(*unsafe.Pointer)(unsafe.Pointer(&a)) == *(*unsafe.Pointer)(unsafe.Pointer(&b))
}

func TestPodsOfOneTemplateShareWhatIsEqual(t *testing.T) {
	s := newPodSharing()
	first, second := arrive(t, s, replicaOf(typicalPod(), 1)), arrive(t, s, replicaOf(typicalPod(), 2))
	switch {
	case !same(first.Labels, second.Labels):
		t.Error("labels are not shared")
	case &first.Spec.Containers[0] != &second.Spec.Containers[0]:
		t.Error("containers are not shared")
	case &first.Spec.Volumes[0] != &second.Spec.Volumes[0]:
		t.Error("volumes are not shared")
	case &first.Spec.Tolerations[0] != &second.Spec.Tolerations[0]:
		t.Error("tolerations are not shared")
	case &first.OwnerReferences[0] != &second.OwnerReferences[0]:
		t.Error("owner references are not shared")
	case &first.Status.Conditions[0] != &second.Status.Conditions[0]:
		t.Error("conditions are not shared")
	case &first.Status.ContainerStatuses[0] != &second.Status.ContainerStatuses[0]:
		t.Error("container statuses are not shared")
	case first.Status.StartTime != second.Status.StartTime:
		t.Error("start times are not shared")
	}
}

// k8s.io/endpointslice compares the pointers: an update of a terminating pod counts as a change. Pins EP-14.
func TestDeletionTimestampsAreNotShared(t *testing.T) {
	s := newPodSharing()
	watched := watching(s)
	pod := replicaOf(typicalPod(), 1)
	pod.DeletionTimestamp = &metav1.Time{Time: time.Unix(1000, 0)}
	arrives := map[string]func() *corev1.Pod{
		"decoded whole": func() *corev1.Pod { return arrive(t, s, pod) },
		"watched":       func() *corev1.Pod { return arriveWatched(t, s, watched, pod) },
	}
	for name, arrives := range arrives {
		if old, pod := arrives(), arrives(); old.DeletionTimestamp == pod.DeletionTimestamp || !old.DeletionTimestamp.Equal(pod.DeletionTimestamp) {
			t.Errorf("%s: %p and %p", name, old.DeletionTimestamp, pod.DeletionTimestamp)
		}
	}
}

func TestContainersThatDifferShareWhatIsEqual(t *testing.T) {
	s := newPodSharing()
	other := replicaOf(typicalPod(), 2)
	other.Spec.Containers[0].Ports[0].ContainerPort = 81
	first, second := arrive(t, s, replicaOf(typicalPod(), 1)), arrive(t, s, other)
	switch a, b := &first.Spec.Containers[0], &second.Spec.Containers[0]; {
	case a == b:
		t.Error("different containers are shared")
	case !same(a.Resources.Requests, b.Resources.Requests):
		t.Error("requests are not shared")
	case unsafe.StringData(a.Image) != unsafe.StringData(b.Image):
		t.Error("images are not shared")
	}
}

// TestSharingChangesNothing compares pods that share with pods that do not, for relatives
// that differ in every part that may be shared.
func TestSharingChangesNothing(t *testing.T) {
	differences := map[string]func(*corev1.Pod){
		"nothing":       func(*corev1.Pod) {},
		"labels":        func(p *corev1.Pod) { p.Labels["tier"] = "front" },
		"no labels":     func(p *corev1.Pod) { p.Labels = nil },
		"annotations":   func(p *corev1.Pod) { p.Annotations["checksum/config"] = "other" },
		"owner":         func(p *corev1.Pod) { p.OwnerReferences[0].UID = "other" },
		"no controller": func(p *corev1.Pod) { p.OwnerReferences[0].Controller = nil },
		"finalizers":    func(p *corev1.Pod) { p.Finalizers = []string{"example.com/hold"} },
		"image":         func(p *corev1.Pod) { p.Spec.Containers[1].Image = "other" },
		"cpu":           func(p *corev1.Pod) { p.Spec.Containers[0].Resources.Requests["cpu"] = resource.MustParse("101m") },
		"quantity's format": func(p *corev1.Pod) {
			p.Spec.Containers[0].Resources.Requests["memory"] = resource.MustParse("134217728")
		},
		"limits": func(p *corev1.Pod) {
			p.Spec.Containers[0].Resources.Limits = corev1.ResourceList{"cpu": resource.MustParse("1")}
		},
		"no requests":      func(p *corev1.Pod) { p.Spec.Containers[0].Resources.Requests = nil },
		"ports":            func(p *corev1.Pod) { p.Spec.Containers[0].Ports[0].ContainerPort = 81 },
		"mounts":           func(p *corev1.Pod) { p.Spec.Containers[0].VolumeMounts = nil },
		"fewer containers": func(p *corev1.Pod) { p.Spec.Containers = p.Spec.Containers[:1] },
		"no containers":    func(p *corev1.Pod) { p.Spec.Containers = nil },
		"init container":   func(p *corev1.Pod) { p.Spec.InitContainers = p.Spec.Containers[:1] },
		"security context": func(p *corev1.Pod) {
			p.Spec.Containers[0].SecurityContext = &corev1.SecurityContext{Privileged: ptr.To(true)}
		},
		"pod's security": func(p *corev1.Pod) { p.Spec.SecurityContext.RunAsUser = ptr.To(int64(1)) },
		"toleration":     func(p *corev1.Pod) { p.Spec.Tolerations[0].TolerationSeconds = ptr.To(int64(1)) },
		"selector":       func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{"disk": "ssd"} },
		"grace period":   func(p *corev1.Pod) { p.Spec.TerminationGracePeriodSeconds = ptr.To(int64(0)) },
		"deadline":       func(p *corev1.Pod) { p.Spec.ActiveDeadlineSeconds = ptr.To(int64(9)) },
		"priority":       func(p *corev1.Pod) { p.Spec.Priority = ptr.To(int32(9)) },
		"account":        func(p *corev1.Pod) { p.Spec.ServiceAccountName = "other" },
		"volume":         func(p *corev1.Pod) { p.Spec.Volumes[0].ConfigMap.Name = "other" },
		"volume's type": func(p *corev1.Pod) {
			p.Spec.Volumes[0].VolumeSource = corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}
		},
		"claim": func(p *corev1.Pod) {
			p.Spec.Volumes[0].VolumeSource = corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: p.Name}}
		},
		"fewer volumes": func(p *corev1.Pod) { p.Spec.Volumes = p.Spec.Volumes[1:] },
		"env from a secret": func(p *corev1.Pod) {
			p.Spec.Containers[0].EnvFrom = []corev1.EnvFromSource{{SecretRef: &corev1.SecretEnvSource{}}}
		},
		"SELinux":     func(p *corev1.Pod) { p.Spec.Containers[1].SecurityContext = seLinux },
		"other hosts": func(p *corev1.Pod) { p.Status.HostIPs = []corev1.HostIP{{IP: "192.0.2.1"}, {IP: "2001:db8::1"}} },
		"allocated to a container": func(p *corev1.Pod) {
			p.Status.ContainerStatuses[1].Resources = &corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": resource.MustParse("2")}}
		},
		"affinity": func(p *corev1.Pod) { p.Spec.Affinity = &corev1.Affinity{PodAffinity: &corev1.PodAffinity{}} },
		"phase":    func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed },
		"condition": func(p *corev1.Pod) {
			p.Status.Conditions[3].Status, p.Status.Conditions[3].Reason = "False", "NotReady"
		},
		"condition's time": func(p *corev1.Pod) {
			p.Status.Conditions[3].LastTransitionTime = metav1.NewTime(p.Status.Conditions[3].LastTransitionTime.Add(time.Second))
		},
		"fewer conditions": func(p *corev1.Pod) { p.Status.Conditions = p.Status.Conditions[1:] },
		"started":          func(p *corev1.Pod) { p.Status.StartTime = ptr.To(metav1.NewTime(p.Status.StartTime.Add(time.Second))) },
		"restarted":        func(p *corev1.Pod) { p.Status.ContainerStatuses[1].RestartCount++ },
		"fewer statuses":   func(p *corev1.Pod) { p.Status.ContainerStatuses = p.Status.ContainerStatuses[:1] },
		"ended": func(p *corev1.Pod) {
			p.Status.ContainerStatuses[0].State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 3}}
		},
		"sidecar's status": func(p *corev1.Pod) { p.Status.InitContainerStatuses = p.Status.ContainerStatuses[:1] },
		"not started":      func(p *corev1.Pod) { p.Status.ContainerStatuses[0].Started = ptr.To(false) },
		"allocated": func(p *corev1.Pod) {
			p.Status.ContainerStatuses[0].AllocatedResources = corev1.ResourceList{"cpu": resource.MustParse("2")}
		},
		"other name": func(p *corev1.Pod) { p.GenerateName = "other-" },
	}
	for relative, prepare := range differences {
		for name, change := range differences {
			t.Run(relative+" then "+name, func(t *testing.T) {
				s := newPodSharing()
				before := typicalPod()
				prepare(before)
				kept := arrive(t, s, before)
				reference := kept.DeepCopy()

				pod := replicaOf(typicalPod(), 7)
				change(pod)
				got := arrive(t, s, pod)
				want, err := ShrinkPod(decoded(t, pod))
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(encoded(t, want), encoded(t, got)); diff != "" {
					t.Errorf("sharing has changed the pod: %s", diff)
				}
				watched := watching(s)
				for range 2 { // its parts are new, and then known
					if diff := cmp.Diff(encoded(t, want), encoded(t, arriveWatched(t, s, watched, pod))); diff != "" {
						t.Errorf("as a watched pod it is another one: %s", diff)
					}
				}
				if !equality.Semantic.DeepEqual(kept, reference) || !equality.Semantic.DeepEqual(got, want) {
					t.Error("a relative was changed")
				}
			})
		}
	}
}

// Two informers can have pods of one family, as one of a single namespace beside that of all. An object is a relative of
// others only once it does not change any more, and what watched pods have in common never changes, which the race
// detector checks.
func TestObjectsOfTwoInformersShare(t *testing.T) {
	s := newPodSharing()
	watched := watching(s)
	jobs := defaultTransforms()[batchv1.SchemeGroupVersion.WithResource("jobs")]
	var informers sync.WaitGroup
	for range 4 {
		informers.Go(func() {
			for n := range 50 {
				template := typicalPod()
				template.Spec.Containers[0].Image = fmt.Sprint("image:", n%3)
				whole := arrive(t, s, replicaOf(template.DeepCopy(), n))
				same := arriveWatched(t, s, watched, replicaOf(template, n))
				if diff := cmp.Diff(whole, same); diff != "" {
					t.Error(diff)
				}
				if _, err := jobs(jobOf(t, "job", "")); err != nil {
					t.Error(err)
				}
			}
		})
	}
	informers.Wait()
}

// The spec of a new template is compared with that of the one before, as are metadata and statuses.
func TestWatchedPodsShareWhatIsEqual(t *testing.T) {
	s := newPodSharing()
	watched := watching(s)
	node := unique.Make(replicaOf(typicalPod(), 1).Spec.NodeName)
	defer runtime.KeepAlive(node) // else a collection in between would have another copy made
	a := arriveWatched(t, s, watched, replicaOf(typicalPod(), 1))
	b := arriveWatched(t, s, watched, replicaOf(typicalPod(), 2))
	changed := replicaOf(typicalPod(), 3)
	changed.Spec.Containers[1].Image = "other"
	changed.Annotations["checksum/config"] = "other"
	c := arriveWatched(t, s, watched, changed)
	for name, equal := range map[string]bool{
		"specs":           &a.Spec.Containers[0] == &b.Spec.Containers[0] && &a.Spec.Tolerations[0] == &b.Spec.Tolerations[0],
		"labels":          same(a.Labels, b.Labels) && same(b.Labels, c.Labels),
		"owners":          &a.OwnerReferences[0] == &c.OwnerReferences[0],
		"resources":       same(a.Spec.Containers[0].Resources.Requests, c.Spec.Containers[0].Resources.Requests),
		"tolerations":     &a.Spec.Tolerations[0] == &c.Spec.Tolerations[0],
		"conditions":      &a.Status.Conditions[0] == &b.Status.Conditions[0],
		"the marker":      &a.ManagedFields[0] == &shrunkFields[0],
		"addresses":       unsafe.StringData(a.Status.PodIP) == unsafe.StringData(a.Status.PodIPs[0].IP),
		"names of a node": unsafe.StringData(a.Spec.NodeName) == unsafe.StringData(arriveWatched(t, s, watched, replicaOf(typicalPod(), 11)).Spec.NodeName),
	} {
		if !equal {
			t.Errorf("%s are not shared", name)
		}
	}
	if len(a.Spec.Volumes) != 1 || a.Annotations[corev1.LastAppliedConfigAnnotation] != "" {
		t.Errorf("it is not shrunk: %v, %v", a.Spec.Volumes, a.Annotations)
	}
	if again, err := s.shrink(a); err != nil || again != any(a) {
		t.Errorf("in the cache it becomes %v, %v", again, err)
	}
}

func TestATransformedPodIsLeftAlone(t *testing.T) {
	s := newPodSharing()
	pod := arrive(t, s, typicalPod())
	again, err := s.shrink(pod)
	if err != nil || again != any(pod) {
		t.Errorf("got %p, %v, want the same pod", again, err)
	}
	tombstone := cache.DeletedFinalStateUnknown{Key: "a/b"}
	if got, err := s.shrink(tombstone); err != nil || got != any(tombstone) {
		t.Errorf("got %v, %v, want the tombstone", got, err)
	}
}

// jobOf is a Job of a CronJob as an informer gets it.
func jobOf(t testing.TB, name, cronJob string) *batchv1.Job {
	t.Helper()
	pod := typicalPod()
	job := &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, ManagedFields: pod.ManagedFields},
		Spec:       batchv1.JobSpec{Parallelism: ptr.To(int32(1)), Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: pod.Labels}, Spec: pod.Spec}},
	}
	if cronJob != "" {
		job.OwnerReferences = []metav1.OwnerReference{{UID: types.UID(cronJob), Controller: ptr.To(true)}}
	}
	fresh := &batchv1.Job{}
	must.Succeed(t, fresh.Unmarshal(must.Get(job.Marshal())(t)))
	return fresh
}

func TestObjectsOfOneControllerShareTheirTemplates(t *testing.T) {
	transform := defaultTransforms()[batchv1.SchemeGroupVersion.WithResource("jobs")]
	arrived := func(name, cronJob string) *batchv1.Job {
		job := jobOf(t, name, cronJob)
		want := job.DeepCopy()
		want.ManagedFields = nil
		if got := must.Get(transform(job))(t); got != any(job) || !reflect.DeepEqual(job, want) {
			t.Errorf("%s was changed: %s", name, cmp.Diff(want, got))
		}
		return job
	}
	first, alone, second, stranger := arrived("a-1", "a"), arrived("alone", ""), arrived("a-2", "a"), arrived("b-1", "b")
	containers := func(job *batchv1.Job) *corev1.Container { return &job.Spec.Template.Spec.Containers[0] }
	switch {
	case containers(first) != containers(second):
		t.Error("Jobs of one CronJob do not share their containers")
	case first.Spec.Parallelism != second.Spec.Parallelism:
		t.Error("Jobs of one CronJob do not share their settings")
	case containers(first) == containers(stranger), containers(first) == containers(alone):
		t.Error("Jobs of different controllers were compared")
	}
	if another := arrived("another", ""); containers(alone) != containers(another) {
		t.Error("Jobs without a controller do not share their containers")
	}
}

func TestASharedObjectIsLeftAlone(t *testing.T) {
	transform := defaultTransforms()[batchv1.SchemeGroupVersion.WithResource("jobs")]
	must.Get(transform(jobOf(t, "first", "")))(t)
	second := jobOf(t, "second", "")
	second.ManagedFields = nil // as in the cache
	containers := &second.Spec.Template.Spec.Containers[0]
	if got := must.Get(transform(second))(t); got != any(second) || &second.Spec.Template.Spec.Containers[0] != containers {
		t.Error("an object in the cache was changed")
	}
	tombstone := cache.DeletedFinalStateUnknown{Key: "a/b", Obj: second}
	if got := must.Get(transform(tombstone))(t); got != any(tombstone) {
		t.Errorf("got %v, want the tombstone", got)
	}
}

// TestFamiliesThatDiedOutAreForgotten makes many families of one pod each, such as Jobs.
func TestFamiliesThatDiedOutAreForgotten(t *testing.T) {
	s := newPodSharing()
	for n := range 4 * firstSweep {
		pod := typicalPod()
		pod.GenerateName = fmt.Sprintf("job-%d-", n)
		arrive(t, s, pod)
		if n%firstSweep == 0 {
			runtime.GC()
		}
	}
	runtime.GC()
	pod := typicalPod()
	for n := range firstSweep {
		pod.GenerateName = fmt.Sprintf("next-%d-", n)
		arrive(t, s, pod)
	}
	if n := len(s.byName.newest); n > 3*firstSweep {
		t.Errorf("%d families are remembered", n)
	}
	if n := len(s.byImage.newest); n != 1 {
		t.Errorf("%d images are remembered, want 1", n)
	}
}
