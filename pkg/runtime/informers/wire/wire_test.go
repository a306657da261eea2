package wire

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/streaming"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/scheme"
	restwatch "k8s.io/client-go/rest/watch"

	"kcmd.dev/test/must"
)

const tokenVolume = "kube-api-access-"

var mark = []metav1.ManagedFieldsEntry{{Manager: "decoded"}}

// testOptions drop an annotation, the token volume with its mounts, commands, and images of container statuses. A pod
// whose first container is privileged keeps its token volume.
func testOptions() Options {
	return Options{
		Metadata: func(m *metav1.ObjectMeta) { delete(m.Annotations, "dropped") },
		Spec: func(spec *corev1.PodSpec) {
			for n := range spec.Containers {
				c := &spec.Containers[n]
				c.Command = nil
				if c.SecurityContext != nil {
					return
				}
				c.VolumeMounts = nil
			}
			spec.Volumes = nil
		},
		Status: func(s *corev1.PodStatus) {
			for n := range s.ContainerStatuses {
				s.ContainerStatuses[n].Image = ""
			}
		},
		Mark:        mark,
		TokenVolume: tokenVolume,
	}
}

// replica is a pod of one template.
func replica(n int) *corev1.Pod {
	token := fmt.Sprintf("%sx%04d", tokenVolume, n)
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: fmt.Sprintf("web-%d", n), GenerateName: "web-", Namespace: "ns", UID: types.UID(fmt.Sprint("uid", n)), ResourceVersion: fmt.Sprint(n),
			CreationTimestamp: metav1.Unix(int64(n), 0),
			Labels:            map[string]string{"app": "web", "tier": "front"},
			Annotations:       map[string]string{"kept": "yes", "dropped": "yes"},
			OwnerReferences:   []metav1.OwnerReference{{Kind: "ReplicaSet", Name: "web", UID: "owner"}},
			Finalizers:        []string{"example.com/hold"},
			ManagedFields:     []metav1.ManagedFieldsEntry{{Manager: "kubelet", FieldsV1: metav1.NewFieldsV1(`{"f:status":{}}`)}},
		},
		Spec: corev1.PodSpec{
			NodeName: fmt.Sprint("node-", n), Hostname: fmt.Sprint("host-", n), ServiceAccountName: "default",
			Containers: []corev1.Container{{
				Name: "c", Image: "image", Command: []string{"run"},
				Resources:    corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": resource.MustParse("100m")}},
				VolumeMounts: []corev1.VolumeMount{{Name: token, MountPath: "/token"}},
			}},
			Volumes:     []corev1.Volume{{Name: "other"}, {Name: token, VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{}}}},
			Tolerations: []corev1.Toleration{{Key: "t"}},
		},
		Status: corev1.PodStatus{
			Phase: corev1.PodRunning, PodIP: fmt.Sprint("10.0.0.", n),
			ContainerStatuses: []corev1.ContainerStatus{{Name: "c", Image: "image", Ready: true}},
		},
	}
}

// whole is what a pod is to be: decoded by the generated code, and then shrunk.
func whole(t testing.TB, encoded []byte) *corev1.Pod {
	t.Helper()
	pod, o := &corev1.Pod{}, testOptions()
	must.Succeed(t, pod.Unmarshal(encoded))
	o.Metadata(&pod.ObjectMeta)
	o.Spec(&pod.Spec)
	o.Status(&pod.Status)
	pod.ManagedFields = o.Mark
	return pod
}

func encode(t testing.TB, pod *corev1.Pod) []byte {
	t.Helper()
	return must.Get(pod.Marshal())(t)
}

// A pod is what it would be if it had been decoded whole, whatever was decoded before.
func TestDecodedPodsAreWhole(t *testing.T) {
	changes := map[string]func(*corev1.Pod){
		"nothing":              func(*corev1.Pod) {},
		"no labels":            func(p *corev1.Pod) { p.Labels = nil },
		"a label":              func(p *corev1.Pod) { p.Labels["tier"] = "back" },
		"another namespace":    func(p *corev1.Pod) { p.Namespace = "other" },
		"a dropped annotation": func(p *corev1.Pod) { p.Annotations["dropped"] = "changed" },
		"no owners":            func(p *corev1.Pod) { p.OwnerReferences = nil },
		"no managed fields":    func(p *corev1.Pod) { p.ManagedFields = nil },
		"deletion": func(p *corev1.Pod) {
			p.DeletionTimestamp, p.DeletionGracePeriodSeconds = &metav1.Time{Time: p.CreationTimestamp.Time}, new(int64)
		},
		"generation":     func(p *corev1.Pod) { p.Generation = 7 },
		"no node":        func(p *corev1.Pod) { p.Spec.NodeName = "" },
		"another image":  func(p *corev1.Pod) { p.Spec.Containers[0].Image = "other" },
		"a command":      func(p *corev1.Pod) { p.Spec.Containers[0].Command = []string{"walk"} },
		"two containers": func(p *corev1.Pod) { p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: "d"}) },
		"no containers":  func(p *corev1.Pod) { p.Spec.Containers = nil },
		"no volumes":     func(p *corev1.Pod) { p.Spec.Volumes = nil },
		"no spec":        func(p *corev1.Pod) { p.Spec = corev1.PodSpec{} },
		"no status":      func(p *corev1.Pod) { p.Status = corev1.PodStatus{} },
		"no metadata":    func(p *corev1.Pod) { p.ObjectMeta = metav1.ObjectMeta{} },
		"a group":        func(p *corev1.Pod) { p.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{} },
		"a long value":   func(p *corev1.Pod) { p.Annotations["long"] = strings.Repeat("x", generationBytes) },
	}
	for before, prepare := range changes {
		for name, change := range changes {
			t.Run(before+" then "+name, func(t *testing.T) {
				d := newDecoder(testOptions())
				first, second := replica(1), replica(2)
				prepare(first)
				change(second)
				var kept []*corev1.Pod
				for _, pod := range []*corev1.Pod{first, second, second} {
					encoded := encode(t, pod)
					got := d.decode(encoded)
					if got == nil {
						t.Fatal("it has to be decoded whole")
					}
					kept = append(kept, got)
					clear(encoded) // as the next event does
				}
				for n, pod := range []*corev1.Pod{first, second, second} {
					if diff := cmp.Diff(whole(t, encode(t, pod)), kept[n]); diff != "" {
						t.Errorf("pod %d (-want +got):\n%s", n, diff)
					}
				}
			})
		}
	}
}

func TestPodsOfOneTemplateAreDecodedOnce(t *testing.T) {
	d := newDecoder(testOptions())
	a, b := d.decode(encode(t, replica(1))), d.decode(encode(t, replica(2)))
	if &a.Spec.Containers[0] != &b.Spec.Containers[0] || &a.Spec.Tolerations[0] != &b.Spec.Tolerations[0] {
		t.Error("their specs were decoded twice")
	}
	if &a.OwnerReferences[0] != &b.OwnerReferences[0] {
		t.Error("their owners were decoded twice")
	}
	if &a.ManagedFields[0] != &mark[0] || &b.ManagedFields[0] != &mark[0] {
		t.Error("they are not marked")
	}
	if &a.Status.ContainerStatuses[0] == &b.Status.ContainerStatuses[0] {
		t.Error("they have one status")
	}
	encodedPod := encode(t, replica(3))
	parts := testing.AllocsPerRun(100, func() { d.decode(encodedPod) })
	all := testing.AllocsPerRun(100, func() { must.Succeed(t, (&corev1.Pod{}).Unmarshal(encodedPod)) })
	if parts > all/2 {
		t.Errorf("%v allocations, %v if it were decoded whole", parts, all)
	}
}

// Where the name of the token volume is left, in whatever place, it is that of the pod.
func TestTokenVolumesThatAreKeptHaveTheirNames(t *testing.T) {
	blank := tokenVolume + "\x00\x00\x00\x00\x00"
	for name, change := range map[string]func(*corev1.Pod){
		"the volume":    func(p *corev1.Pod) { p.Spec.Containers[0].SecurityContext = &corev1.SecurityContext{} },
		"another place": func(p *corev1.Pod) { p.Spec.PriorityClassName = p.Spec.Volumes[1].Name },
		"a part":        func(p *corev1.Pod) { p.Spec.PriorityClassName = "is-" + p.Spec.Volumes[1].Name + "-it" },
		"a blank":       func(p *corev1.Pod) { p.Spec.PriorityClassName = blank },
	} {
		t.Run(name, func(t *testing.T) {
			d := newDecoder(testOptions())
			for n := range 3 {
				pod := replica(n)
				change(pod)
				if got := d.decode(encode(t, pod)); got != nil {
					t.Errorf("pod %d was not left to be decoded whole: %v", n, got.Spec)
				}
			}
			if got := d.decode(encode(t, replica(4))); got == nil {
				t.Error("others have to be decoded whole too")
			}
		})
	}
	d := newDecoder(Options{Metadata: testOptions().Metadata, Spec: func(*corev1.PodSpec) {}, Status: testOptions().Status})
	for n := range 2 {
		want := replica(n)
		if got := d.decode(encode(t, want)); got == nil || got.Spec.Volumes[1].Name != want.Spec.Volumes[1].Name {
			t.Errorf("without token volumes pod %d has %v", n, got)
		}
	}
}

// Whatever is broken or unknown is left to the generated code.
func TestTheUnexpectedIsDecodedWhole(t *testing.T) {
	valid := encode(t, replica(1))
	d := newDecoder(testOptions())
	for n := range valid {
		// Cut between two fields it is an incomplete pod, else it is broken.
		if got := d.decode(valid[:n]); got != nil {
			t.Errorf("cut after %d of %d bytes it is %v", n, len(valid), got)
		}
	}
	for name, encoded := range map[string][]byte{
		"nothing":                 nil,
		"another field":           append(bytes.Clone(valid), 0x22, 0x00),
		"a number":                append(bytes.Clone(valid), 0x20, 0x01),
		"a second status":         append(bytes.Clone(valid), 0x1a, 0x00),
		"metadata is a number":    {0x08, 0x01, 0x12, 0x00, 0x1a, 0x00},
		"broken labels":           {0x0a, 0x02, 0x5a, 0x05, 0x12, 0x00, 0x1a, 0x00},
		"a label is no message":   {0x0a, 0x02, 0x58, 0x05, 0x12, 0x00, 0x1a, 0x00},
		"a broken spec":           {0x0a, 0x00, 0x12, 0x02, 0x12, 0x05, 0x1a, 0x00},
		"containers are a number": {0x0a, 0x00, 0x12, 0x02, 0x10, 0x05, 0x1a, 0x00},
		"a node is a number":      {0x0a, 0x00, 0x12, 0x02, 0x50, 0x05, 0x1a, 0x00},
		"a broken status":         {0x0a, 0x00, 0x12, 0x00, 0x1a, 0x02, 0x0a, 0x05},
	} {
		if got := d.decode(encoded); got != nil {
			t.Errorf("%s is decoded as %v", name, got)
		}
	}
	if got := d.decode([]byte{0x0a, 0x00, 0x12, 0x00, 0x1a, 0x00}); got == nil {
		t.Error("an empty pod is not decoded")
	}
}

func TestPartsThatAreNotUsedAreForgotten(t *testing.T) {
	var made table[int]
	encoded := func(n int) []byte { return fmt.Append(nil, n) }
	for n := range 10 * generation {
		if made.get(encoded(n)) != nil {
			t.Fatalf("%d is there already", n)
		}
		made.put(encoded(n), &n)
		if got := made.get(encoded(0)); got == nil || *got != 0 {
			t.Fatalf("after %d others the one in use is %v", n, got)
		}
		if size := len(made.young) + len(made.old); size > 2*generation {
			t.Fatalf("%d parts are remembered", size)
		}
	}
	if made.get(encoded(5)) != nil {
		t.Error("one that is not used is remembered")
	}
	large := func(n byte) []byte { return bytes.Repeat([]byte{n}, generationBytes/4) }
	for n := range byte(100) {
		made.put(large(n), new(int))
		size := 0
		for _, parts := range []map[string]*int{made.young, made.old} {
			for encoded := range parts {
				size += len(encoded)
			}
		}
		if size > 2*generationBytes {
			t.Fatalf("%d bytes are remembered", size)
		}
	}
	if made.get(large(99)) == nil || made.get(large(1)) != nil {
		t.Error("not the last ones are remembered")
	}
}

// decoderOf reads a stream of events as a client with a serializer does.
func decoderOf(s runtime.NegotiatedSerializer, stream []byte) *restwatch.Decoder {
	info := protobuf(s)
	frames := info.StreamSerializer.Framer.NewFrameReader(io.NopCloser(bytes.NewReader(stream)))
	return restwatch.NewDecoder(streaming.NewDecoder(frames, info.StreamSerializer.Serializer), s.DecoderToVersion(info.Serializer, corev1.SchemeGroupVersion))
}

func usual() runtime.NegotiatedSerializer { return scheme.Codecs.WithoutConversion() }

func pods() runtime.NegotiatedSerializer { return Pods(usual(), testOptions()) }

func protobuf(s runtime.NegotiatedSerializer) runtime.SerializerInfo {
	info, _ := runtime.SerializerInfoForMediaType(s.SupportedMediaTypes(), runtime.ContentTypeProtobuf)
	return info
}

// streamOf is a stream of events as an API server sends it.
func streamOf(t testing.TB, sent ...watch.Event) []byte {
	t.Helper()
	info := protobuf(scheme.Codecs.WithoutConversion())
	var stream bytes.Buffer
	out := streaming.NewEncoder(info.StreamSerializer.Framer.NewFrameWriter(&stream), info.StreamSerializer.Serializer)
	for _, event := range sent {
		encoder := scheme.Codecs.EncoderForVersion(info.Serializer, corev1.SchemeGroupVersion)
		raw := must.Get(runtime.Encode(encoder, event.Object))(t)
		must.Succeed(t, out.Encode(&metav1.WatchEvent{Type: string(event.Type), Object: runtime.RawExtension{Raw: raw}}))
	}
	return stream.Bytes()
}

func TestWatchedPodsAreDecoded(t *testing.T) {
	failure := &metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Message: "too old", Code: 410}
	sent := []watch.Event{
		{Type: watch.Added, Object: replica(1)},
		{Type: watch.Modified, Object: replica(2)},
		{Type: watch.Deleted, Object: replica(1)},
		{Type: watch.Bookmark, Object: &corev1.Pod{ObjectMeta: metav1.ObjectMeta{ResourceVersion: "9"}}},
		{Type: watch.Added, Object: &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}},
		{Type: watch.Error, Object: failure},
	}
	decoder := decoderOf(pods(), streamOf(t, sent...))
	var got []watch.Event
	for range sent {
		event, object, err := decoder.Decode()
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, watch.Event{Type: event, Object: object})
	}
	if _, _, err := decoder.Decode(); !errors.Is(err, io.EOF) {
		t.Errorf("after the last event: %v", err)
	}
	want := sent
	for n, event := range want {
		if pod, ok := event.Object.(*corev1.Pod); ok {
			want[n].Object = whole(t, encode(t, pod))
		}
	}
	failure.TypeMeta = metav1.TypeMeta{}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// What is asked for by its type is whole, such as the answer to a GET.
func TestRequestedPodsAreWhole(t *testing.T) {
	ours, usual := pods(), usual()
	raw := must.Get(runtime.Encode(scheme.Codecs.EncoderForVersion(protobuf(usual).Serializer, corev1.SchemeGroupVersion), replica(1)))(t)
	pod := &corev1.Pod{}
	if _, _, err := protobuf(ours).Serializer.Decode(raw, nil, pod); err != nil {
		t.Fatal(err)
	}
	pod.TypeMeta = metav1.TypeMeta{}
	if diff := cmp.Diff(encode(t, replica(1)), encode(t, pod)); diff != "" {
		t.Error(diff)
	}
	for n, info := range ours.SupportedMediaTypes() {
		if want := usual.SupportedMediaTypes()[n]; info.MediaType != want.MediaType || info.MediaType != runtime.ContentTypeProtobuf && info.Serializer != want.Serializer {
			t.Errorf("%s is decoded in another way", info.MediaType)
		}
	}
}

// Broken data is reported as by the usual serializers, but for that which is not decoded.
func TestBrokenEventsAreReported(t *testing.T) {
	sent := replica(1)
	sent.ManagedFields = nil
	valid := streamOf(t, watch.Event{Type: watch.Added, Object: sent})
	for at := range valid {
		for _, change := range []byte{0xff, 0x01} {
			broken := bytes.Clone(valid)
			broken[at] ^= change
			wantType, want, wantErr := decoderOf(usual(), broken).Decode()
			gotType, got, err := decoderOf(pods(), broken).Decode()
			if fmt.Sprint(err) != fmt.Sprint(wantErr) || gotType != wantType {
				t.Fatalf("with byte %d changed: %s, error %v, want %s, %v", at, gotType, err, wantType, wantErr)
			}
			pod, ok := want.(*corev1.Pod)
			if !ok {
				continue
			}
			wantPod := whole(t, encode(t, pod))
			if marked := got.(*corev1.Pod); len(marked.ManagedFields) == 0 || &marked.ManagedFields[0] != &mark[0] {
				wantPod = pod
			}
			if diff := cmp.Diff(encode(t, wantPod), encode(t, got.(*corev1.Pod))); diff != "" {
				t.Fatalf("with byte %d changed: %s", at, diff)
			}
		}
	}
}

// Several informers decode with one decoder, which the race detector checks.
func TestDecodingAtTheSameTime(t *testing.T) {
	d := newDecoder(testOptions())
	var informers sync.WaitGroup
	for range 4 {
		informers.Go(func() {
			for n := range 100 {
				pod := d.decode(encode(t, replica(n)))
				if want := fmt.Sprint("node-", n); pod.Spec.NodeName != want || pod.Labels["app"] != "web" {
					t.Errorf("pod %d is on %s with labels %v", n, pod.Spec.NodeName, pod.Labels)
				}
			}
		})
	}
	informers.Wait()
}
