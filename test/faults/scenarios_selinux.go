package faults

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kcmd.dev/test/manager"
)

var csiDrivers = storagev1.SchemeGroupVersion.WithResource("csidrivers")

// conflict is what a pod is warned of.
type conflict struct{ pod, label, other, otherLabel string }

// between is a conflict of two pods, as each of them sees it.
func between(pod, label, other, otherLabel string) []conflict {
	return []conflict{{pod, label, other, otherLabel}, {other, otherLabel, pod, label}}
}

// warned is that a pod has been told of a conflict.
func (c conflict) warned(ctx context.Context, w *world) error {
	want := fmt.Sprintf("conflicts with pod %s that uses the same volume as this pod with SELinuxLabel %q", c.other, c.otherLabel)
	events, err := w.admin.CoreV1().Events(w.namespace).List(ctx, metav1.ListOptions{FieldSelector: fields.Set{"involvedObject.name": c.pod, "reason": "SELinuxLabelConflict"}.String()})
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(events.Items, func(e corev1.Event) bool { return strings.Contains(e.Message, want) }) {
		return fmt.Errorf("no event of %s says that it %s", c.pod, want)
	}
	return nil
}

// inConflict is that the metrics of the manager that leads show just these conflicts, of which events have told.
func inConflict(conflicts ...conflict) []Condition {
	shows := func(ctx context.Context, w *world) error {
		leader, err := w.leader(ctx)
		if err != nil {
			return err
		}
		page, err := leader.Get(ctx, "/metrics")
		if err != nil {
			return err
		}
		var got, want []string
		for line := range strings.Lines(string(page)) {
			if strings.HasPrefix(line, "selinux_warning_controller_selinux_volume_conflict{") {
				got = append(got, strings.TrimSpace(line))
			}
		}
		for _, c := range conflicts {
			want = append(want, fmt.Sprintf(`selinux_warning_controller_selinux_volume_conflict{pod1_name=%q,pod1_namespace=%[2]q,pod1_value=%q,pod2_name=%q,pod2_namespace=%[2]q,pod2_value=%[5]q,property="SELinuxLabel"} 1`,
				c.pod, w.namespace, c.label, c.other, c.otherLabel))
		}
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			return fmt.Errorf("the metrics show %q, want %q", got, want)
		}
		return nil
	}
	all := []Condition{shows}
	for _, c := range conflicts {
		all = append(all, c.warned)
	}
	return all
}

// seLinuxWarning writes nothing but events. What it knows is shown by its metrics.
func seLinuxWarning() Scenario {
	const levelA, levelB = "s0:c1,c2", "s0:c3,c4"
	const labelA, labelB = ":::" + levelA, ":::" + levelB
	labeled := func(name, level string) Action {
		return Create(fmt.Sprintf(`
apiVersion: v1
kind: Pod
metadata: {name: %s}
spec:
  nodeName: node-a
  terminationGracePeriodSeconds: 0
  securityContext: {seLinuxOptions: {level: %q}}
  containers: [{name: web, image: "web:1", volumeMounts: [{name: data, mountPath: /data}]}]
  volumes: [{name: data, persistentVolumeClaim: {claimName: data}}]
`, name, level))
	}
	mounts := func(with bool) Action {
		return Patch("csidrivers", csiDriver, fmt.Sprintf(`{"spec":{"seLinuxMount":%t}}`, with))
	}
	ofP := between("p", labelA, "q", labelB)
	return Scenario{
		Name:        "selinux-warning",
		Bare:        true,
		Controllers: func(c *manager.Config) []**bool { return []**bool{&c.Controllers.SELinuxWarning.Enabled} },
		Kinds:       []schema.GroupVersionResource{pods, claims, volumes, csiDrivers},
		// Upstream compares a pod that it has evaluated again with one that it has not.
		Differs: map[string]string{`event of selinux_warning .*("Recursive"|SELinuxLabel "")`: "SEL-50"},
		Steps: []Step{
			{
				"run pods, and bind their claim later",
				[]Action{
					Create("{apiVersion: storage.k8s.io/v1, kind: CSIDriver, metadata: {name: " + csiDriver + "}, spec: {seLinuxMount: true}}"),
					labeled("p", levelA), labeled("q", levelB),
					Volume("disk", "disks", "1Gi", onDriver("disk")), Claim("data", "disks", "  volumeName: disk"), Bind("disk", "data"),
				},
				inConflict(ofP...),
			},
			{"run a third one", []Action{labeled("third", levelA)}, inConflict(append(between("third", labelA, "q", labelB), ofP...)...)},
			{"lose it", []Action{Delete("pods", "third", metav1.DeletePropagationBackground)}, inConflict(ofP...)},
			{"have the driver mount without labels", []Action{mounts(false)}, inConflict()},
			{"have it mount with labels again", []Action{mounts(true)}, inConflict(ofP...)},
			{"end a pod", []Action{PatchStatus("pods", "q", `{"status":{"phase":"Succeeded"}}`)}, inConflict()},
			{
				"create it again under the name, with another label",
				[]Action{Delete("pods", "q", metav1.DeletePropagationBackground), labeled("q", levelA), labeled("late", levelB)},
				inConflict(append(between("p", labelA, "late", labelB), between("q", labelA, "late", labelB)...)...),
			},
		},
	}
}
