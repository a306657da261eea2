package informers

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"

	"kcmd.dev/test/fakeclient"
)

// warmPods returns Informers that hold n pods, listed once from memory, and the function
// that gets their informer in any scope.
func warmPods(b *testing.B, n int) (*Informers, func(*Scope) cache.SharedIndexInformer, *atomic.Int32) {
	b.Helper()
	list := &corev1.PodList{ListMeta: listMeta("1")}
	for i := range n {
		list.Items = append(list.Items, *pod(fmt.Sprintf("p%d", i)))
	}
	var lists atomic.Int32
	source := &cache.ListWatch{
		ListWithContextFunc: func(context.Context, metav1.ListOptions) (apiruntime.Object, error) {
			lists.Add(1)
			return list, nil
		},
		WatchFuncWithContext: func(context.Context, metav1.ListOptions) (watch.Interface, error) {
			return watch.NewFake(), nil
		},
	}
	client := fakeclient.New()
	get := func(s *Scope) cache.SharedIndexInformer {
		return s.InformerFor(&corev1.Pod{}, func(kubernetes.Interface, time.Duration) cache.SharedIndexInformer {
			return cache.NewSharedIndexInformer(cache.ToListWatcherWithWatchListSemantics(source, client),
				&corev1.Pod{}, 0, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
		})
	}
	shared := New(Options{Client: client})
	ctx, cancel := context.WithCancel(context.Background())
	shared.Start(ctx)
	keeper := shared.NewScope(ScopeOptions{Name: "keeper", Dry: true})
	get(keeper)
	keeper.StartWithContext(ctx)
	if err := keeper.WaitForCacheSyncWithContext(ctx).AsError(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		keeper.Close()
		cancel()
		shared.Shutdown()
	})
	return shared, get, &lists
}

// BenchmarkScopeOpenClose is what a restarted controller costs: open, replay, close.
func BenchmarkScopeOpenClose(b *testing.B) {
	for _, handlers := range []int{0, 1, 3} {
		b.Run(fmt.Sprintf("pods=50000/handlers=%d", handlers), func(b *testing.B) {
			shared, get, lists := warmPods(b, 50000)
			b.ReportAllocs()
			for b.Loop() {
				s := shared.NewScope(ScopeOptions{Name: "bench"})
				s.SetResyncPeriod(12 * time.Hour)
				var shown atomic.Int64
				for range handlers {
					if _, err := get(s).AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: func(any) { shown.Add(1) }}); err != nil {
						b.Fatal(err)
					}
				}
				s.StartWithContext(b.Context())
				if !s.WaitUntilReady(b.Context()) || shown.Load() != int64(50000*handlers) {
					b.Fatalf("shown %d objects", shown.Load())
				}
				s.Close()
			}
			if lists.Load() != 1 {
				b.Fatalf("%d lists", lists.Load())
			}
		})
	}
}

// BenchmarkResync is one resync of one handler over 50,000 objects.
func BenchmarkResync(b *testing.B) {
	shared, get, _ := warmPods(b, 50000)
	s := shared.NewScope(ScopeOptions{Name: "bench"})
	defer s.Close()
	var shown atomic.Int64
	if _, err := get(s).AddEventHandler(cache.ResourceEventHandlerFuncs{UpdateFunc: func(_, _ any) { shown.Add(1) }}); err != nil {
		b.Fatal(err)
	}
	if !s.WaitUntilReady(b.Context()) {
		b.Fatal("handler did not sync")
	}
	h := onlyHandler(s)
	b.ReportAllocs()
	for b.Loop() {
		h.resync()
	}
	if shown.Load()%50000 != 0 || shown.Load() == 0 {
		b.Fatalf("shown %d objects", shown.Load())
	}
}

// BenchmarkCachedPod reports the heap that one cached pod takes, decoded from protobuf as
// an informer does, whole and transformed.
func BenchmarkCachedPod(b *testing.B) {
	var encoded [replicas][]byte
	for i := range encoded {
		var err error
		if encoded[i], err = replicaOf(typicalPod(), i).Marshal(); err != nil {
			b.Fatal(err)
		}
	}
	whole := func(obj any) (any, error) { return obj, nil }
	for name, transform := range map[string]cache.TransformFunc{
		"whole": whole, "stripped": stripManagedFields, "shrunk": ShrinkPod, "shrunk and shared": newPodSharing().shrink,
	} {
		b.Run(name, func(b *testing.B) {
			const n = 5000
			for b.Loop() {
				before := liveHeap()
				cached := make([]any, n)
				for i := range cached {
					pod := &corev1.Pod{}
					if err := pod.Unmarshal(encoded[i%replicas]); err != nil {
						b.Fatal(err)
					}
					var err error
					if cached[i], err = transform(pod); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(liveHeap()-before)/n, "heap-B/pod")
				runtime.KeepAlive(cached)
			}
			b.ReportMetric(float64(len(encoded[0])), "wire-B/pod")
		})
	}
}

// BenchmarkArrivingPod is what it takes to decode a watched pod and to make it what is cached.
func BenchmarkArrivingPod(b *testing.B) {
	usual := scheme.Codecs.WithoutConversion()
	encoder := scheme.Codecs.EncoderForVersion(protobufOf(usual), corev1.SchemeGroupVersion)
	var raw [replicas][]byte
	for i := range raw {
		var err error
		if raw[i], err = apiruntime.Encode(encoder, replicaOf(typicalPod(), i)); err != nil {
			b.Fatal(err)
		}
	}
	shared := newPodSharing()
	for name, decoder := range map[string]apiruntime.Decoder{
		"whole": usual.DecoderToVersion(protobufOf(usual), corev1.SchemeGroupVersion),
		"parts": watching(shared),
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				pod, err := apiruntime.Decode(decoder, raw[i%replicas])
				if err != nil {
					b.Fatal(err)
				}
				if _, err := shared.shrink(pod); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// replicas is how many different pods of one ReplicaSet the benchmarks decode.
const replicas = 100

// replicaOf makes of a pod another one of the same ReplicaSet.
func replicaOf(p *corev1.Pod, n int) *corev1.Pod {
	suffix := fmt.Sprintf("x%04d", n)
	p.Name = p.GenerateName + suffix
	p.UID = types.UID(fmt.Sprintf("0f8fad5b-d9cb-469f-a165-%012d", n))
	p.Spec.NodeName = fmt.Sprintf("node-%d.example.com", n%10)
	p.Status.PodIP = fmt.Sprintf("10.1.2.%d", n)
	p.Status.PodIPs = []corev1.PodIP{{IP: p.Status.PodIP}}
	token := "kube-api-access-" + suffix
	p.Spec.Volumes[1].Name = token
	for i := range p.Spec.Containers {
		p.Spec.Containers[i].VolumeMounts[1].Name = token
		p.Status.ContainerStatuses[i].VolumeMounts[1].Name = token
		p.Status.ContainerStatuses[i].ContainerID = fmt.Sprintf("containerd://%064d", n)
	}
	return p
}

// BenchmarkTransformPod is what is done to one pod when it arrives.
func BenchmarkTransformPod(b *testing.B) {
	for name, transform := range map[string]cache.TransformFunc{"shrunk": ShrinkPod, "shrunk and shared": newPodSharing().shrink} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			pods := make([]*corev1.Pod, 0, 1000)
			for i := 0; b.Loop(); i++ {
				if len(pods) == 0 {
					b.StopTimer()
					for n := range cap(pods) {
						pods = append(pods, replicaOf(typicalPod(), n%replicas))
					}
					b.StartTimer()
				}
				if _, err := transform(pods[len(pods)-1]); err != nil {
					b.Fatal(err)
				}
				pods = pods[:len(pods)-1]
			}
		})
	}
}

func liveHeap() int64 {
	runtime.GC()
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}

// typicalPod is a web server of a deployment as the API server returns it: one container
// with probes and a sidecar, the service account token, and three field managers.
func typicalPod() *corev1.Pod {
	probe := &corev1.Probe{
		ProbeHandler:  corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/healthz", Port: intstr.FromInt32(8080), Scheme: "HTTP"}},
		PeriodSeconds: 10, TimeoutSeconds: 1, SuccessThreshold: 1, FailureThreshold: 3,
	}
	container := func(name string) corev1.Container {
		c := corev1.Container{
			Name: name, Image: "registry.example.com/team/" + name + ":v1.2.3",
			Command: []string{"/bin/server"}, Args: []string{"--listen=:8080", "--log-format=json", "--config=/etc/app/config.yaml"},
			Ports:     []corev1.ContainerPort{{Name: "http", ContainerPort: 8080, Protocol: corev1.ProtocolTCP}},
			Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m"), corev1.ResourceMemory: resource.MustParse("128Mi")}},
			VolumeMounts: []corev1.VolumeMount{
				{Name: "config", MountPath: "/etc/app"},
				{Name: "kube-api-access-x7k2p", ReadOnly: true, MountPath: "/var/run/secrets/kubernetes.io/serviceaccount"},
			},
			LivenessProbe: probe, ReadinessProbe: probe,
			TerminationMessagePath: "/dev/termination-log", TerminationMessagePolicy: corev1.TerminationMessageReadFile, ImagePullPolicy: corev1.PullIfNotPresent,
		}
		for i := range 10 {
			c.Env = append(c.Env, corev1.EnvVar{Name: fmt.Sprintf("APP_SETTING_%d", i), Value: fmt.Sprintf("some-value-of-setting-%d", i)})
		}
		return c
	}
	status := func(name string) corev1.ContainerStatus {
		return corev1.ContainerStatus{
			Name: name, Ready: true, Started: ptr.To(true), Image: "registry.example.com/team/" + name + ":v1.2.3",
			ImageID:     "registry.example.com/team/" + name + "@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
			ContainerID: "containerd://0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
			State:       corev1.ContainerState{Running: &corev1.ContainerStateRunning{}},
			VolumeMounts: []corev1.VolumeMountStatus{
				{Name: "config", MountPath: "/etc/app"},
				{Name: "kube-api-access-x7k2p", ReadOnly: true, MountPath: "/var/run/secrets/kubernetes.io/serviceaccount"},
			},
		}
	}
	started := metav1.NewTime(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	fields := metav1.ManagedFieldsEntry{
		Manager: "kube-controller-manager", Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: "v1", FieldsType: "FieldsV1",
		FieldsV1: metav1.NewFieldsV1(strings.Repeat("x", 1200)),
	}
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: "web-7d9c5b8f6d-x7k2p", GenerateName: "web-7d9c5b8f6d-", Namespace: "team-production", UID: "0f8fad5b-d9cb-469f-a165-70867728950e", ResourceVersion: "123456789",
			Labels:          map[string]string{"app.kubernetes.io/name": "web", "app.kubernetes.io/part-of": "shop", "pod-template-hash": "7d9c5b8f6d"},
			Annotations:     map[string]string{"prometheus.io/scrape": "true", "checksum/config": "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web-7d9c5b8f6d", UID: "7c9e6679-7425-40de-944b-e07fc1f90ae7", Controller: ptr.To(true), BlockOwnerDeletion: ptr.To(true)}},
			ManagedFields:   []metav1.ManagedFieldsEntry{fields, fields, fields},
		},
		Spec: corev1.PodSpec{
			NodeName: "node-1.example.com", ServiceAccountName: "web", DeprecatedServiceAccount: "web", SchedulerName: "default-scheduler",
			RestartPolicy: corev1.RestartPolicyAlways, DNSPolicy: corev1.DNSClusterFirst, TerminationGracePeriodSeconds: ptr.To[int64](30),
			SecurityContext: &corev1.PodSecurityContext{}, EnableServiceLinks: ptr.To(true), Priority: ptr.To[int32](0), PreemptionPolicy: ptr.To(corev1.PreemptLowerPriority),
			Containers: []corev1.Container{container("web"), container("sidecar")},
			Tolerations: []corev1.Toleration{
				{Key: "node.kubernetes.io/not-ready", Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: ptr.To[int64](300)},
				{Key: "node.kubernetes.io/unreachable", Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: ptr.To[int64](300)},
			},
			Volumes: []corev1.Volume{
				{Name: "config", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "web"}, DefaultMode: ptr.To[int32](420)}}},
				{Name: "kube-api-access-x7k2p", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{DefaultMode: ptr.To[int32](420), Sources: []corev1.VolumeProjection{
					{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{ExpirationSeconds: ptr.To[int64](3607), Path: "token"}},
					{ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: corev1.LocalObjectReference{Name: "kube-root-ca.crt"}, Items: []corev1.KeyToPath{{Key: "ca.crt", Path: "ca.crt"}}}},
					{DownwardAPI: &corev1.DownwardAPIProjection{Items: []corev1.DownwardAPIVolumeFile{{Path: "namespace", FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: "metadata.namespace"}}}}},
				}}}},
			},
		},
		Status: corev1.PodStatus{
			Phase: corev1.PodRunning, PodIP: "10.1.2.3", PodIPs: []corev1.PodIP{{IP: "10.1.2.3"}}, HostIP: "192.0.2.1", QOSClass: corev1.PodQOSBurstable,
			StartTime:         &started,
			ContainerStatuses: []corev1.ContainerStatus{status("web"), status("sidecar")},
		},
	}
	for _, condition := range []corev1.PodConditionType{corev1.PodScheduled, corev1.PodInitialized, corev1.ContainersReady, corev1.PodReady, corev1.PodReadyToStartContainers} {
		p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: condition, Status: corev1.ConditionTrue, LastTransitionTime: started})
	}
	return p
}
