package storage

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/config/v1beta1"
	"kcmd.dev/pkg/runtime"
	"kcmd.dev/test/await"
	"kcmd.dev/test/controlplane"
	"kcmd.dev/test/integration/harness"
	"kcmd.dev/test/manager"
	"kcmd.dev/test/must"
)

const warningAccount = "system:serviceaccount:kube-system:selinux-warning-controller"

func seLinuxWarning(c *manager.Config) **bool { return &c.Controllers.SELinuxWarning.Enabled }

// createDriver creates a CSIDriver until the end of the test.
func createDriver(t *testing.T, name string, seLinuxMount bool) {
	t.Helper()
	drivers := admin.StorageV1().CSIDrivers()
	must.Get(drivers.Create(t.Context(), &storagev1.CSIDriver{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: storagev1.CSIDriverSpec{SELinuxMount: ptr.To(seLinuxMount)},
	}, metav1.CreateOptions{}))(t)
	t.Cleanup(func() { _ = drivers.Delete(context.Background(), name, metav1.DeleteOptions{}) })
}

// disk is the volume of a driver; there is only one.
func disk(driver string) func(*corev1.PersistentVolume) {
	return func(v *corev1.PersistentVolume) {
		v.Spec.PersistentVolumeSource = corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: driver, VolumeHandle: "disk"}}
	}
}

// createLabeled creates a pod that mounts the claim of its namespace with a level.
func createLabeled(t *testing.T, namespace, name, level string, edits ...func(*corev1.Pod)) *corev1.Pod {
	t.Helper()
	return createPod(t, namespace, name, append([]func(*corev1.Pod){unscheduled, using("claim"), func(p *corev1.Pod) {
		p.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "data", MountPath: "/data"}}
		p.Spec.SecurityContext = &corev1.PodSecurityContext{SELinuxOptions: &corev1.SELinuxOptions{Level: level}}
	}}, edits...)...)
}

func recursive(p *corev1.Pod) {
	p.Spec.SecurityContext.SELinuxChangePolicy = ptr.To(corev1.SELinuxChangePolicyRecursive)
}

const onOneNode = ". If both pods land on the same node, only one of them may access the volume."

// conflictsWith is the event of a pod that is in conflict with another one of its namespace.
func conflictsWith(other, property, own, others string) string {
	return fmt.Sprintf("selinux_warning Normal %sConflict: %s %q conflicts with pod %s that uses the same volume as this pod with %s %q%s",
		property, property, own, other, property, others, onOneNode)
}

// shown is how the metric shows a conflict of pods, given as <namespace>/<name>.
func shown(property, pod1, value1, pod2, value2 string) string {
	namespace1, name1, _ := strings.Cut(pod1, "/")
	namespace2, name2, _ := strings.Cut(pod2, "/")
	return fmt.Sprintf(`selinux_warning_controller_selinux_volume_conflict{pod1_name=%q,pod1_namespace=%q,pod1_value=%q,pod2_name=%q,pod2_namespace=%q,pod2_value=%q,property=%q} 1`,
		name1, namespace1, value1, name2, namespace2, value2, property)
}

// bothWays is how the metric shows that two pods are in conflict.
func bothWays(property, pod1, value1, pod2, value2 string) []string {
	return []string{shown(property, pod1, value1, pod2, value2), shown(property, pod2, value2, pod1, value1)}
}

// awaitShown waits until the metric shows just these conflicts of a namespace.
func awaitShown(t *testing.T, m *manager.Manager, namespace string, want ...string) {
	t.Helper()
	slices.Sort(want)
	await.That(t, "the metric shows the conflicts", func(ctx context.Context) error {
		page, err := m.Get(ctx, "/metrics")
		if err != nil {
			return err
		}
		var got []string
		for line := range strings.Lines(string(page)) {
			if strings.HasPrefix(line, "selinux_warning_controller_") && strings.Contains(line, fmt.Sprintf("%q", namespace)) {
				got = append(got, strings.TrimSpace(line))
			}
		}
		if slices.Sort(got); !slices.Equal(got, want) {
			return fmt.Errorf("it shows %q, want %q", got, want)
		}
		return nil
	})
}

const (
	labelProperty, policyProperty = "SELinuxLabel", "SELinuxChangePolicy"
	levelA, levelB                = "s0:c1,c2", "s0:c3,c4"
	labelA, labelB                = ":::" + levelA, ":::" + levelB
)

// Pins SEL-3, SEL-13, SEL-22, SEL-24, SEL-27, SEL-28 and SEL-38.
func TestPodsWithDifferentLabelsAreWarned(t *testing.T) {
	t.Parallel()
	from := must.Get(cluster.Audit().Mark())(t)
	namespace := cluster.Namespace(t)
	createDriver(t, namespace, true)
	createBound(t, namespace, disk(namespace))
	p, q := createLabeled(t, namespace, "p", levelA), createLabeled(t, namespace, "q", levelB)
	same := createLabeled(t, namespace, "same", levelA)
	cluster.WaitForEvents(t, namespace, p.UID, conflictsWith("q", labelProperty, labelA, labelB))
	cluster.WaitForEvents(t, namespace, same.UID, conflictsWith("q", labelProperty, labelA, labelB))
	cluster.WaitForEvents(t, namespace, q.UID, conflictsWith("p", labelProperty, labelB, labelA), conflictsWith("same", labelProperty, labelB, labelA))
	awaitShown(t, cluster.Manager, namespace, append(
		bothWays(labelProperty, namespace+"/p", labelA, namespace+"/q", labelB),
		bothWays(labelProperty, namespace+"/same", labelA, namespace+"/q", labelB)...)...)

	cluster.DeletePodNow(t, namespace, "same")
	awaitShown(t, cluster.Manager, namespace, bothWays(labelProperty, namespace+"/p", labelA, namespace+"/q", labelB)...)
	cluster.PatchPodStatus(t, namespace, "q", map[string]any{"phase": corev1.PodSucceeded})
	awaitShown(t, cluster.Manager, namespace)

	requests := must.Get(cluster.Audit().Since(from, controlplane.ByUser(warningAccount), controlplane.Writes()))(t)
	if len(requests) == 0 {
		t.Error("nothing was written")
	}
	for _, e := range requests {
		if e.ObjectRef.Resource != "events" || e.Verb != "create" && e.Verb != "patch" {
			t.Errorf("%s %s", e.Verb, e.RequestURI)
		}
	}
}

// Neither the events nor the namespace of one pod is told to the users of the other.
//
// Pins SEL-25, SEL-28 and SEL-31.
func TestPodsOfTwoNamespacesAreWarned(t *testing.T) {
	t.Parallel()
	namespace, other := cluster.Namespace(t), cluster.Namespace(t)
	createDriver(t, namespace, true)
	createBound(t, namespace, disk(namespace))
	createBound(t, other, disk(namespace))
	p, q := createLabeled(t, namespace, "p", levelA), createLabeled(t, other, "q", levelB)
	event := func(label string) string {
		return fmt.Sprintf("selinux_warning Normal SELinuxLabelConflict: SELinuxLabel%q conflicts with another pod that uses the same volume as this pod with a different SELinuxLabel%s", label, onOneNode)
	}
	cluster.WaitForEvents(t, namespace, p.UID, event(labelA))
	cluster.WaitForEvents(t, other, q.UID, event(labelB))
	awaitShown(t, cluster.Manager, namespace, bothWays(labelProperty, namespace+"/p", labelA, other+"/q", labelB)...)
}

// The CSIDriver says only later that it mounts with labels. Until then nothing is in conflict, and
// then no conflict appears that does not last.
//
// Pins SEL-11, SEL-19, SEL-35, SEL-36 and SEL-50.
func TestADriverBeginsToMountWithLabels(t *testing.T) {
	t.Parallel()
	namespace := cluster.Namespace(t)
	createDriver(t, namespace, false)
	createBound(t, namespace, disk(namespace))
	p, q := createLabeled(t, namespace, "p", levelA), createLabeled(t, namespace, "q", levelB)
	s := createLabeled(t, namespace, "s", levelA, recursive)
	set := func(mounts bool) {
		patch := fmt.Sprintf(`{"spec":{"seLinuxMount":%t}}`, mounts)
		must.Get(admin.StorageV1().CSIDrivers().Patch(t.Context(), namespace, types.MergePatchType, []byte(patch), metav1.PatchOptions{}))(t)
	}
	awaitShown(t, cluster.Manager, namespace)
	set(true)
	cluster.WaitForEvents(t, namespace, p.UID, conflictsWith("q", labelProperty, labelA, labelB),
		conflictsWith("s", policyProperty, "MountOption", "Recursive"), conflictsWith("s", labelProperty, labelA, ""))
	cluster.WaitForEvents(t, namespace, q.UID, conflictsWith("p", labelProperty, labelB, labelA),
		conflictsWith("s", policyProperty, "MountOption", "Recursive"), conflictsWith("s", labelProperty, labelB, ""))
	cluster.WaitForEvents(t, namespace, s.UID,
		conflictsWith("p", policyProperty, "Recursive", "MountOption"), conflictsWith("p", labelProperty, "", labelA),
		conflictsWith("q", policyProperty, "Recursive", "MountOption"), conflictsWith("q", labelProperty, "", labelB))
	set(false)
	awaitShown(t, cluster.Manager, namespace)
}

// Pins SEL-18, SEL-26 and SEL-32.
func TestAPodWithSeveralLabelsIsWarned(t *testing.T) {
	t.Parallel()
	namespace := cluster.Namespace(t)
	pod := createPod(t, namespace, "p", unscheduled, func(p *corev1.Pod) {
		p.Spec.Volumes = []corev1.Volume{{Name: "scratch", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
		first := &p.Spec.Containers[0]
		first.VolumeMounts = []corev1.VolumeMount{{Name: "scratch", MountPath: "/scratch"}}
		first.SecurityContext = &corev1.SecurityContext{SELinuxOptions: &corev1.SELinuxOptions{Level: levelA}}
		second := first.DeepCopy()
		second.Name, second.SecurityContext.SELinuxOptions.Level = "second", levelB
		p.Spec.Containers = append(p.Spec.Containers, *second)
	})
	cluster.WaitForEvent(t, namespace, pod.UID,
		`selinux_warning Warning MultipleSELinuxLabels: Volume "scratch" is mounted twice with different SELinux labels inside this pod`)
}

// The claim is bound while the pods wait.
//
// Pins SEL-9, SEL-10 and SEL-49.
func TestPodsAreJudgedOnceTheirClaimIsBound(t *testing.T) {
	t.Parallel()
	namespace := cluster.Namespace(t)
	createDriver(t, namespace, true)
	p := createLabeled(t, namespace, "p", levelA)
	createLabeled(t, namespace, "q", levelB)
	createBound(t, namespace, disk(namespace))
	cluster.WaitForEvents(t, namespace, p.UID, conflictsWith("q", labelProperty, labelA, labelB))
}

// An edit moves the controller to another lease, which starts another instance. What the first one
// said is not repeated, and the metric shows what there is.
//
// Pins SEL-42 and SEL-43.
func TestNothingIsSaidTwiceAfterAReload(t *testing.T) {
	rest(t)
	namespace := cluster.Namespace(t)
	createDriver(t, namespace, true)
	createBound(t, namespace, disk(namespace))
	r := cluster.Behind(t, only(seLinuxWarning))
	r.Works(t)
	p, q := createLabeled(t, namespace, "p", levelA), createLabeled(t, namespace, "q", levelB)
	ofP, ofQ := conflictsWith("q", labelProperty, labelA, labelB), conflictsWith("p", labelProperty, labelB, labelA)
	cluster.WaitForEvents(t, namespace, p.UID, ofP)
	cluster.WaitForEvents(t, namespace, q.UID, ofQ)

	const name = "selinux-warning-controller"
	harness.Edit(t, r.Manager, func(c *manager.Config) {
		c.LeaderElection.Groups = []v1beta1.LeaseGroup{{Name: "selinux", Controllers: []string{name}}}
	})
	harness.Wait(t, r.Manager, "the second instance works", func(s *runtime.Status) error {
		if n := harness.ControllerOf(s, name).Generation; n != 2 {
			return fmt.Errorf("it is number %d", n)
		}
		return harness.LoopsBegan(s)
	})
	awaitShown(t, r.Manager, namespace, bothWays(labelProperty, namespace+"/p", labelA, namespace+"/q", labelB)...)

	late := createLabeled(t, namespace, "late", levelB)
	cluster.WaitForEvents(t, namespace, late.UID, ofQ)
	cluster.WaitForEvents(t, namespace, p.UID, ofP, conflictsWith("late", labelProperty, labelA, labelB))
	cluster.WaitForEvents(t, namespace, q.UID, ofQ)
	for _, e := range must.Get(admin.CoreV1().Events(namespace).List(t.Context(), metav1.ListOptions{}))(t).Items {
		if e.Count > 1 {
			t.Errorf("%d times: %s %s", e.Count, e.InvolvedObject.Name, e.Message)
		}
	}
}

// A pod goes while the controller is disabled.
//
// Pins SEL-22 and SEL-44.
func TestAStopLeavesNoConflictBehind(t *testing.T) {
	rest(t)
	namespace := cluster.Namespace(t)
	createDriver(t, namespace, true)
	createBound(t, namespace, disk(namespace))
	r := cluster.Behind(t, only(seLinuxWarning))
	r.Works(t)
	createLabeled(t, namespace, "p", levelA)
	createLabeled(t, namespace, "q", levelB)
	gone := createLabeled(t, namespace, "gone", levelA)
	cluster.WaitForEvents(t, namespace, gone.UID, conflictsWith("q", labelProperty, labelA, labelB))
	r.Restart(t, seLinuxWarning, func() {
		awaitShown(t, r.Manager, namespace)
		cluster.DeletePodNow(t, namespace, "gone")
	})
	awaitShown(t, r.Manager, namespace, bothWays(labelProperty, namespace+"/p", labelA, namespace+"/q", labelB)...)
}
