package selinuxwarning

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-base/metrics/testutil"
	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/config/v1beta1"
	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/test/controllertest"
	"kcmd.dev/test/must"
)

const metric = "selinux_warning_controller_selinux_volume_conflict"

// user returns a pod of a namespace that mounts the claim of the namespace with a level.
func user(namespace, name, of string, changes ...func(*corev1.Pod)) *corev1.Pod {
	return controllertest.Pod(namespace, name, append([]func(*corev1.Pod){func(p *corev1.Pod) {
		p.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "claim"},
		}}}
		p.Spec.Containers = []corev1.Container{container(level(of), "data")}
		if of == "" {
			p.Spec.Containers = []corev1.Container{container(nil, "data")}
		}
	}}, changes...)...)
}

func recursive(p *corev1.Pod) {
	p.Spec.SecurityContext = &corev1.PodSecurityContext{SELinuxChangePolicy: ptr.To(corev1.SELinuxChangePolicyRecursive)}
}

// claim returns the claim of a namespace, which is bound.
func claim(namespace string, changes ...func(*corev1.PersistentVolumeClaim)) *corev1.PersistentVolumeClaim {
	return controllertest.Changed(&corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "claim", UID: types.UID(namespace)},
		Spec:       corev1.PersistentVolumeClaimSpec{VolumeName: namespace},
		Status:     corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound},
	}, changes...)
}

// persistent returns the volume of the claim of a namespace. All are the same disk.
func persistent(namespace string, changes ...func(*corev1.PersistentVolume)) *corev1.PersistentVolume {
	return controllertest.Changed(&corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: namespace},
		Spec: corev1.PersistentVolumeSpec{
			ClaimRef:               &corev1.ObjectReference{Namespace: namespace, Name: "claim", UID: types.UID(namespace)},
			PersistentVolumeSource: corev1.PersistentVolumeSource{AWSElasticBlockStore: &corev1.AWSElasticBlockStoreVolumeSource{VolumeID: "vol-1"}},
		},
	}, changes...)
}

func driver(mountable *bool) *storagev1.CSIDriver {
	return &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: "ebs.csi.aws.com"}, Spec: storagev1.CSIDriverSpec{SELinuxMount: mountable}}
}

// world is a claim of each of two namespaces for the same disk, whose driver mounts with a label.
func world(others ...runtime.Object) []runtime.Object {
	return append([]runtime.Object{claim("ns"), persistent("ns"), claim("other"), persistent("other"), driver(ptr.To(true))}, others...)
}

type fixture struct {
	*controllertest.Subject[types.NamespacedName]
	c *warner
}

func begin(t testing.TB, objects ...runtime.Object) *fixture {
	t.Helper()
	f := &fixture{Subject: controllertest.NewSubject(t, key("p"), objects...)}
	c := must.Get(newController(f.Env.Env))(t)
	f.c, f.Work = c, c.reconcile
	f.Kinds = []runtime.Object{&corev1.Pod{}, &corev1.PersistentVolumeClaim{}, &corev1.PersistentVolume{}, &storagev1.CSIDriver{}}
	f.CatchUp(t)
	return f
}

// see has the controller work on pods, given as <namespace>/<name>.
func (f *fixture) see(t testing.TB, pods ...string) {
	t.Helper()
	for _, pod := range pods {
		namespace, name, _ := strings.Cut(pod, "/")
		if err := f.Work(f.Context(), types.NamespacedName{Namespace: namespace, Name: name}); err != nil {
			t.Errorf("%s: %v", pod, err)
		}
	}
}

// gauge is how the conflict of a pod with another is shown.
func gauge(property, pod1, value1, pod2, value2 string) string {
	namespace1, name1, _ := strings.Cut(pod1, "/")
	namespace2, name2, _ := strings.Cut(pod2, "/")
	return fmt.Sprintf("pod1_name=%s pod1_namespace=%s pod1_value=%s pod2_name=%s pod2_namespace=%s pod2_value=%s property=%s 1",
		name1, namespace1, value1, name2, namespace2, value2, property)
}

func (f *fixture) wantGauges(t testing.TB, want ...string) {
	t.Helper()
	got := f.Series(t, metric)
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("gauges are %q, want %q", got, want)
	}
}

const (
	theSame  = ". If both pods land on the same node, only one of them may access the volume."
	twoWarns = "that uses the same volume as this pod with SELinuxLabel "
)

var (
	iscsi = corev1.VolumeSource{ISCSI: &corev1.ISCSIVolumeSource{TargetPortal: "10.0.0.1:3260", IQN: "iqn", Lun: 1}}
	ebs   = corev1.VolumeSource{AWSElasticBlockStore: &corev1.AWSElasticBlockStoreVolumeSource{VolumeID: "vol-1"}}
)

// inline defines the volume in the pod.
func inline(source corev1.VolumeSource) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Spec.Volumes[0].VolumeSource = source }
}

func TestConflictsAreReported(t *testing.T) {
	for name, tc := range map[string]struct {
		first, second *corev1.Pod
		events        []string
		gauges        []string
	}{
		"SEL-13, SEL-24, SEL-27, SEL-28, SEL-45: labels": {
			user("ns", "p", "s0:c1"), user("ns", "q", "s0:c2"),
			[]string{
				`Normal SELinuxLabelConflict SELinuxLabel ":::s0:c2" conflicts with pod p ` + twoWarns + `":::s0:c1"` + theSame,
				`Normal SELinuxLabelConflict SELinuxLabel ":::s0:c1" conflicts with pod q ` + twoWarns + `":::s0:c2"` + theSame,
			},
			[]string{gauge("SELinuxLabel", "ns/p", ":::s0:c1", "ns/q", ":::s0:c2"), gauge("SELinuxLabel", "ns/q", ":::s0:c2", "ns/p", ":::s0:c1")},
		},
		"SEL-25, SEL-28, SEL-31: of two namespaces": {
			user("ns", "p", "s0:c1"), user("other", "q", "s0:c2"),
			[]string{
				`Normal SELinuxLabelConflict SELinuxLabel":::s0:c2" conflicts with another pod that uses the same volume as this pod with a different SELinuxLabel` + theSame,
				`Normal SELinuxLabelConflict SELinuxLabel":::s0:c1" conflicts with another pod that uses the same volume as this pod with a different SELinuxLabel` + theSame,
			},
			[]string{gauge("SELinuxLabel", "ns/p", ":::s0:c1", "other/q", ":::s0:c2"), gauge("SELinuxLabel", "other/q", ":::s0:c2", "ns/p", ":::s0:c1")},
		},
		"SEL-20, SEL-24, SEL-36: policies": {
			user("ns", "p", "s0", recursive, func(p *corev1.Pod) { p.Spec.Containers[0].SecurityContext.SELinuxOptions.Level = "" }),
			user("ns", "q", "", func(p *corev1.Pod) {
				p.Spec.Containers[0].SecurityContext = &corev1.SecurityContext{SELinuxOptions: &corev1.SELinuxOptions{Type: "t"}}
			}),
			[]string{
				`Normal SELinuxChangePolicyConflict SELinuxChangePolicy "MountOption" conflicts with pod p that uses the same volume as this pod with SELinuxChangePolicy "Recursive"` + theSame,
				`Normal SELinuxChangePolicyConflict SELinuxChangePolicy "Recursive" conflicts with pod q that uses the same volume as this pod with SELinuxChangePolicy "MountOption"` + theSame,
			},
			[]string{gauge("SELinuxChangePolicy", "ns/p", "Recursive", "ns/q", "MountOption"), gauge("SELinuxChangePolicy", "ns/q", "MountOption", "ns/p", "Recursive")},
		},
		"SEL-16b, SEL-19, SEL-31: defined in the pods": {
			user("ns", "p", "s0:c1", inline(iscsi)), user("ns", "q", "s0:c2", inline(iscsi)),
			[]string{
				`Normal SELinuxLabelConflict SELinuxLabel ":::s0:c2" conflicts with pod p ` + twoWarns + `":::s0:c1"` + theSame,
				`Normal SELinuxLabelConflict SELinuxLabel ":::s0:c1" conflicts with pod q ` + twoWarns + `":::s0:c2"` + theSame,
			},
			[]string{gauge("SELinuxLabel", "ns/p", ":::s0:c1", "ns/q", ":::s0:c2"), gauge("SELinuxLabel", "ns/q", ":::s0:c2", "ns/p", ":::s0:c1")},
		},
		"SEL-16c: migrated, defined in a pod": {
			user("ns", "p", "s0:c1"), user("ns", "q", "s0:c2", inline(ebs)),
			[]string{
				`Normal SELinuxLabelConflict SELinuxLabel ":::s0:c2" conflicts with pod p ` + twoWarns + `":::s0:c1"` + theSame,
				`Normal SELinuxLabelConflict SELinuxLabel ":::s0:c1" conflicts with pod q ` + twoWarns + `":::s0:c2"` + theSame,
			},
			[]string{gauge("SELinuxLabel", "ns/p", ":::s0:c1", "ns/q", ":::s0:c2"), gauge("SELinuxLabel", "ns/q", ":::s0:c2", "ns/p", ":::s0:c1")},
		},
		"SEL-39: the same label":               {user("ns", "p", "s0:c1"), user("ns", "q", "s0:c1"), nil, nil},
		"SEL-39: two recursive pods":           {user("ns", "p", "s0:c1", recursive), user("ns", "q", "s0:c2", recursive), nil, nil},
		"SEL-37: no labels":                    {user("ns", "p", ""), user("ns", "q", "", recursive), nil, nil},
		"SEL-15: the first one has succeeded":  {user("ns", "p", "s0:c1", controllertest.InPhase(corev1.PodSucceeded)), user("ns", "q", "s0:c2"), nil, nil},
		"SEL-15: the second one has failed":    {user("ns", "p", "s0:c1"), user("ns", "q", "s0:c2", controllertest.InPhase(corev1.PodFailed)), nil, nil},
		"SEL-16a: the claim of another volume": {user("ns", "p", "s0:c1"), controllertest.Pod("ns", "q"), nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			f := begin(t, world(tc.first, tc.second)...)
			f.see(t, tc.first.Namespace+"/"+tc.first.Name)
			f.WantEvents(t)
			f.see(t, tc.second.Namespace+"/"+tc.second.Name)
			f.WantEvents(t, tc.events...)
			f.wantGauges(t, tc.gauges...)
			f.see(t, "ns/p", "other/q", "ns/q", "ns/p")
			f.WantEvents(t)
			f.WantRequests(t)
		})
	}
}

// Pins SEL-15.
func TestPodsInWhateverPhaseAreJudged(t *testing.T) {
	for _, phase := range []corev1.PodPhase{"", corev1.PodPending, corev1.PodRunning, corev1.PodUnknown} {
		t.Run(string(phase), func(t *testing.T) {
			f := begin(t, world(user("ns", "p", "s0:c1", controllertest.InPhase(phase), controllertest.OnNode("")), user("ns", "q", "s0:c2", controllertest.Terminating))...)
			f.see(t, "ns/p", "ns/q")
			if got := f.RecordedEvents(); len(got) != 2 {
				t.Errorf("events are %q", got)
			}
		})
	}
}

// Pins SEL-15, SEL-22 and SEL-38.
func TestConflictsGoWithThePod(t *testing.T) {
	for name, end := range map[string]func(*fixture){
		"deleted": func(f *fixture) { f.Uncache(t, user("ns", "p", "")) },
		"finished": func(f *fixture) {
			f.Cache(t, user("ns", "p", "s0:c1", controllertest.InPhase(corev1.PodSucceeded)))
		},
		"replaced by one that uses nothing": func(f *fixture) {
			f.Cache(t, controllertest.Pod("ns", "p", func(p *corev1.Pod) { p.UID = "second" }))
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := begin(t, world(user("ns", "p", "s0:c1"), user("ns", "q", "s0:c2"))...)
			f.see(t, "ns/p", "ns/q")
			f.RecordedEvents()
			if got := f.Series(t, metric); len(got) != 2 {
				t.Fatalf("gauges are %q", got)
			}
			end(f)
			f.see(t, "ns/p")
			f.wantGauges(t)
			f.WantEvents(t)
		})
	}
}

// Nobody is told of the conflict on behalf of a pod that is not there any more.
//
// Pins SEL-21e.
func TestThePodOfAnEventIsGone(t *testing.T) {
	for name, end := range map[string]func(*fixture){
		"SEL-21e: gone": func(f *fixture) { f.Uncache(t, user("ns", "p", "")) },
		"SEL-52: replaced": func(f *fixture) {
			f.Cache(t, user("ns", "p", "s0:c2", func(p *corev1.Pod) { p.UID = "second" }))
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := begin(t, world(user("ns", "p", "s0:c1"), user("ns", "q", "s0:c2"))...)
			f.see(t, "ns/p")
			end(f)
			f.see(t, "ns/q")
			f.WantEvents(t, `Normal SELinuxLabelConflict SELinuxLabel ":::s0:c2" conflicts with pod p `+twoWarns+`":::s0:c1"`+theSame)
		})
	}
}

// A pod that is gone, and not yet forgotten, does not keep others from hearing of their conflicts.
func TestThePodOfOneOfSeveralEventsIsGone(t *testing.T) {
	told := func(own, other, label string) string {
		return fmt.Sprintf(`Normal SELinuxLabelConflict SELinuxLabel ":::s0:%s" conflicts with pod %s %s":::s0:%s"%s`, own, other, twoWarns, label, theSame)
	}
	mounting, not := driver(ptr.To(true)), driver(nil)
	for name, tc := range map[string]struct {
		before *storagev1.CSIDriver
		seen   []string
		then   string
		want   []string
	}{
		"SEL-56: a new pod": {
			mounting, []string{"ns/o", "ns/p"}, "ns/q",
			[]string{told("c3", "o", "c1"), told("c3", "p", "c2"), told("c2", "q", "c3")},
		},
		"SEL-50, SEL-56: a driver that begins to mount with labels": {
			not, []string{"ns/o", "ns/p", "ns/q"}, "ns/q",
			[]string{told("c2", "q", "c3"), told("c3", "p", "c2")},
		},
	} {
		t.Run(name, func(t *testing.T) {
			gone := user("ns", "o", "s0:c1")
			f := begin(t, world(gone, user("ns", "p", "s0:c2"), user("ns", "q", "s0:c3"))...)
			f.Cache(t, tc.before)
			f.see(t, tc.seen...)
			f.RecordedEvents()
			f.Uncache(t, gone)
			f.Cache(t, mounting)
			f.see(t, tc.then)
			f.WantEvents(t, tc.want...)
		})
	}
}

// Pins SEL-18, SEL-23, SEL-26 and SEL-51.
func TestAPodWithSeveralLabelsIsRetried(t *testing.T) {
	twice := func(p *corev1.Pod) {
		p.Spec.Containers = append(p.Spec.Containers, container(level("s0:c2"), "data"))
	}
	f := begin(t, world(user("ns", "p", "s0:c1", twice))...)
	for range 2 {
		err := f.Reconcile()
		if !reconcile.IsExpected(err) || err.Error() != "ns/p failed with: multiple SELinux labels found: :::s0:c1,:::s0:c2" {
			t.Errorf("got %v", err)
		}
		f.WantEvents(t, `Warning MultipleSELinuxLabels Volume "data" is mounted twice with different SELinux labels inside this pod`)
	}
	// A conflict that was found before stays.
	f.Cache(t, user("ns", "p", "s0:c1"), user("ns", "q", "s0:c2"))
	f.see(t, "ns/p", "ns/q")
	f.Cache(t, user("ns", "p", "s0:c1", twice))
	if err := f.Reconcile(); err == nil {
		t.Error("no error")
	}
	if got := f.Series(t, metric); len(got) != 2 {
		t.Errorf("gauges are %q", got)
	}
}

// Pins SEL-16a and SEL-23.
func TestAPodWhoseClaimIsNotBoundIsRetried(t *testing.T) {
	for name, objects := range map[string][]runtime.Object{
		"no claim":              {persistent("ns")},
		"pending":               {persistent("ns"), claim("ns", func(c *corev1.PersistentVolumeClaim) { c.Status.Phase = corev1.ClaimPending })},
		"no volume":             {claim("ns")},
		"the volume of another": {claim("ns"), persistent("ns", func(v *corev1.PersistentVolume) { v.Spec.ClaimRef.UID = "another" })},
	} {
		t.Run(name, func(t *testing.T) {
			f := begin(t, append(objects, user("ns", "p", "s0:c1"))...)
			if err := f.Reconcile(); !reconcile.IsExpected(err) {
				t.Errorf("got %v", err)
			}
			if f.c.uses.has(key("p"), "p") {
				t.Error("it uses the volume")
			}
		})
	}
}

// Pins SEL-19 and SEL-20.
func TestWhetherADriverMountsWithALabel(t *testing.T) {
	for name, tc := range map[string]struct {
		drivers []runtime.Object
		want    bool
	}{
		"SEL-19: no CSIDriver":   {nil, false},
		"SEL-19: it says not":    {[]runtime.Object{driver(ptr.To(false))}, false},
		"SEL-19: it says none":   {[]runtime.Object{driver(nil)}, false},
		"SEL-19: it says so":     {[]runtime.Object{driver(ptr.To(true))}, true},
		"SEL-16c: another one's": {[]runtime.Object{&storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: "other"}, Spec: storagev1.CSIDriverSpec{SELinuxMount: ptr.To(true)}}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			f := begin(t, append([]runtime.Object{claim("ns"), persistent("ns"), user("ns", "p", "s0:c1"), user("ns", "q", "s0:c2")}, tc.drivers...)...)
			f.see(t, "ns/p", "ns/q")
			if got := len(f.RecordedEvents()) > 0; got != tc.want {
				t.Errorf("conflicts: %v", got)
			}
			if _, ok := f.c.uses.volumes["kubernetes.io/csi/ebs.csi.aws.com^vol-1"]; !ok {
				t.Error("the volume is not tracked")
			}
		})
	}
	f := begin(t)
	if mountable, err := f.c.isMountable(""); !mountable || err != nil { // FC and iSCSI
		t.Errorf("without a driver: %v, %v", mountable, err)
	}
}

// Pins SEL-28.
func TestMetric(t *testing.T) {
	f := begin(t, world(user("ns", "p", "s0:c1"), user("other", "q", "s0:c2"))...)
	f.see(t, "ns/p", "other/q")
	want := `
# HELP selinux_warning_controller_selinux_volume_conflict [ALPHA] Conflict between two Pods using the same volume
# TYPE selinux_warning_controller_selinux_volume_conflict gauge
selinux_warning_controller_selinux_volume_conflict{pod1_name="p",pod1_namespace="ns",pod1_value=":::s0:c1",pod2_name="q",pod2_namespace="other",pod2_value=":::s0:c2",property="SELinuxLabel"} 1
selinux_warning_controller_selinux_volume_conflict{pod1_name="q",pod1_namespace="other",pod1_value=":::s0:c2",pod2_name="p",pod2_namespace="ns",pod2_value=":::s0:c1",property="SELinuxLabel"} 1
`
	if err := testutil.GatherAndCompare(f.Metrics, strings.NewReader(want), metric); err != nil {
		t.Error(err)
	}
}

// A pod that was created over protobuf may have bytes in its label that are no UTF-8. Labels that are shown alike are
// one series.
//
// Pins SEL-55.
func TestMetricOfALabelThatIsNotUTF8(t *testing.T) {
	f := begin(t, world(user("ns", "p", "s0:\xff", withDisk("s0:\xfe")), user("other", "q", "s0:c2", withDisk("s0:c2")))...)
	f.see(t, "ns/p", "other/q")
	f.wantGauges(t, gauge(labelProperty, "ns/p", ":::s0:\uFFFD", "other/q", ":::s0:c2"), gauge(labelProperty, "other/q", ":::s0:c2", "ns/p", ":::s0:\uFFFD"))
}

// withDisk adds a container that mounts another volume.
func withDisk(of string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: "disk", VolumeSource: iscsi})
		p.Spec.Containers = append(p.Spec.Containers, container(level(of), "disk"))
	}
}

// Pins SEL-1, SEL-2, SEL-3, SEL-6, SEL-14 and SEL-29.
func TestDescriptor(t *testing.T) {
	d, cfg := Descriptor(), v1beta1.NewDefault()
	if on, _ := d.Enabled(cfg); on || d.EventSource != "selinux_warning" || d.ServiceAccount != d.Name {
		t.Errorf("enabled %v, source %s, account %s", on, d.EventSource, d.ServiceAccount)
	}
	cfg.Controllers.SELinuxWarning.Enabled = ptr.To(true)
	if on, reason := d.Enabled(cfg); !on {
		t.Errorf("it is disabled: %s", reason)
	}
	c := must.Get(d.New(controllertest.New(t).Env, d.Value(cfg)))(t)
	if s := c.(*warner).loop.Inspect(); s.Workers != 1 || s.Queue != "selinux_warning" {
		t.Errorf("loop: %+v", s)
	}
}

// A pass costs the same however many pods use the volume.
func BenchmarkReconcile(b *testing.B) {
	for _, pods := range []int{10, 10_000} {
		b.Run(fmt.Sprintf("pods=%d", pods), func(b *testing.B) {
			objects := world(user("ns", "p", "s0:c1"))
			for n := range pods {
				objects = append(objects, user("ns", fmt.Sprint("pod-", n), "s0:c1"))
			}
			f := begin(b, objects...)
			for n := range pods {
				f.see(b, fmt.Sprint("ns/pod-", n))
			}
			f.MeasureIdle(b)
		})
	}
}
