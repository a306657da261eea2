package attachdetach

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"

	"kcmd.dev/pkg/controllers/kit/volumes"
	"kcmd.dev/test/controllertest"
)

func TestJudgeDetach(t *testing.T) {
	healthy, ill, shutDown := condition{healthy: true}, condition{}, condition{healthy: true, outOfService: true}
	long := maxWait + 1
	for name, tc := range map[string]struct {
		mounted  bool
		is       condition
		waited   time.Duration
		disabled bool
		want     detachVerdict
	}{
		"ATT-39e: not mounted":                                {false, healthy, 0, false, detachVerdict{detach: true}},
		"ATT-39e: not mounted, not healthy":                   {false, ill, 0, false, detachVerdict{detach: true}},
		"ATT-39e: mounted":                                    {true, healthy, 0, false, detachVerdict{again: maxWait + 1}},
		"ATT-39e: mounted, not healthy":                       {true, ill, time.Minute, false, detachVerdict{again: maxWait - time.Minute + 1}},
		"ATT-39c: mounted, not healthy, for just six minutes": {true, ill, maxWait, false, detachVerdict{again: 1}},
		"ATT-39c, ATT-55: mounted, not healthy, for long":     {true, ill, long, false, detachVerdict{detach: true, why: byTimeout}},
		"ATT-60: mounted, healthy, for long":                  {true, healthy, long, false, detachVerdict{}},
		"ATT-13: mounted, not healthy, for long, disabled":    {true, ill, long, true, detachVerdict{}},
		"ATT-39d, ATT-60: mounted, out of service":            {true, shutDown, 0, false, detachVerdict{detach: true, why: byOutOfService}},
		"ATT-13: mounted, out of service, disabled":           {true, shutDown, long, true, detachVerdict{detach: true, why: byOutOfService}},
		"ATT-39g: the time comes first as a reason":           {true, shutDown, long, false, detachVerdict{detach: true, why: byTimeout}},
		"ATT-39g, ATT-52: not mounted, healthy, for long":     {false, healthy, long, false, detachVerdict{detach: true, why: byTimeout}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := judgeDetach(tc.mounted, tc.is, tc.waited, tc.disabled); got != tc.want {
				t.Errorf("%+v, want %+v", got, tc.want)
			}
		})
	}
}

func TestMayBeMounted(t *testing.T) {
	for name, tc := range map[string]struct {
		node             *corev1.Node
		assumed, pending bool
		want             bool
	}{
		"ATT-96: the node is healthy and does not use it": {aNode("a", uses("w")), true, true, false},
		"ATT-96: the node uses it":                        {aNode("a", uses("v")), true, true, true},
		"ATT-96: the node has used it since":              {aNode("a", uses("v")), false, true, true},
		"ATT-96: the node is not ready":                   {aNode("a", notReady), true, true, true},
		"ATT-96: the node is gone":                        {nil, true, true, true},
		"ATT-96: its kubelet attaches volumes itself":     {aNode("a", unmanaged), true, true, true},
		"ATT-28f: the attachment is not pending":          {aNode("a"), true, false, true},
		"ATT-28f: nor is it in use":                       {aNode("a", uses("v")), false, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := mayBeMounted(tc.node, volumeName("v"), tc.assumed, tc.pending); got != tc.want {
				t.Errorf("%v, want %v", got, tc.want)
			}
		})
	}
}

// TestConditionOf pins ATT-39d.
//
// Pins ATT-39d.
func TestConditionOf(t *testing.T) {
	without := aNode("a")
	without.Status.Conditions = nil
	for name, tc := range map[string]struct {
		node *corev1.Node
		want condition
	}{
		"no node":           {nil, condition{}},
		"no condition":      {without, condition{}},
		"ready":             {aNode("a"), condition{healthy: true}},
		"not ready":         {aNode("a", notReady), condition{}},
		"out of service":    {aNode("a", outOfService), condition{healthy: true, outOfService: true}},
		"some other taint":  {aNode("a", func(n *corev1.Node) { n.Spec.Taints = []corev1.Taint{{Key: "other"}} }), condition{healthy: true}},
		"any value, effect": {aNode("a", outOfService, func(n *corev1.Node) { n.Spec.Taints[0].Value, n.Spec.Taints[0].Effect = "x", "" }), condition{healthy: true, outOfService: true}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := conditionOf(tc.node); got != tc.want {
				t.Errorf("%+v, want %+v", got, tc.want)
			}
		})
	}
}

func TestIsSafe(t *testing.T) {
	for name, tc := range map[string]struct {
		node *corev1.Node
		why  forced
		want bool
	}{
		"ATT-39h: no node":                            {nil, notForced, true},
		"ATT-39h: not in use":                         {aNode("a", uses("w")), notForced, true},
		"ATT-39h: in use":                             {aNode("a", uses("v")), notForced, false},
		"ATT-39h: in use, not healthy":                {aNode("a", uses("v"), notReady), notForced, false},
		"ATT-39h: in use, out of service since":       {aNode("a", uses("v"), outOfService), notForced, false},
		"ATT-80: in use, not healthy, for long":       {aNode("a", uses("v"), notReady), byTimeout, true},
		"ATT-80: in use, healthy, for long":           {aNode("a", uses("v")), byTimeout, false},
		"ATT-80: in use, out of service":              {aNode("a", uses("v"), outOfService), byOutOfService, true},
		"ATT-80: in use, not out of service any more": {aNode("a", uses("v"), notReady), byOutOfService, false},
		"ATT-80: in use, out of service, for long":    {aNode("a", uses("v"), outOfService), byTimeout, true},
	} {
		t.Run(name, func(t *testing.T) {
			if got := isSafe(tc.node, volumeName("v"), tc.why); got != tc.want {
				t.Errorf("%v, want %v", got, tc.want)
			}
		})
	}
}

func TestJudgeAttach(t *testing.T) {
	for name, tc := range map[string]struct {
		state          attachState
		excluded, held bool
		want           attachVerdict
	}{
		"ATT-40a: busy":                   {attached, true, true, busy},
		"ATT-40b: attached":               {attached, false, true, keep},
		"ATT-40c: attached elsewhere":     {detached, false, true, reportMultiAttach},
		"ATT-40c: uncertain, and so":      {uncertain, false, true, reportMultiAttach},
		"ATT-40d: attached nowhere":       {detached, false, false, attach},
		"ATT-40d: uncertain is no attach": {uncertain, false, false, attach},
	} {
		t.Run(name, func(t *testing.T) {
			if got := judgeAttach(tc.state, tc.excluded, tc.held); got != tc.want {
				t.Errorf("%v, want %v", got, tc.want)
			}
		})
	}
}

func TestAttachOutcome(t *testing.T) {
	va := func(changes ...func(*storagev1.VolumeAttachment)) *storagev1.VolumeAttachment {
		return anAttachment("v", "a", append(changes, func(va *storagev1.VolumeAttachment) { va.UID = "uid" })...)
	}
	for name, tc := range map[string]struct {
		va           *storagev1.VolumeAttachment
		uid, deleted types.UID
		waited       time.Duration
		want         string // the error, "ok", or empty if it has not ended
	}{
		"ATT-40g: not in the cache":              {nil, "", "", time.Minute, ""},
		"ATT-40g: not in the cache for long":     {nil, "", "", driverWait, "timed out"},
		"ATT-40g, ATT-55: not attached for long": {va(), "", "", driverWait, "timed out"},
		"ATT-40g: not attached":                  {va(), "", "", driverWait - 1, ""},
		"ATT-40g: attached":                      {va(isAttached), "", "", 0, "ok"},
		"ATT-40g: attached, with an error":       {va(isAttached, attachError("bad")), "", "", time.Minute, "ok"},
		"ATT-40g, ATT-57: being deleted":         {va(isAttached, beingDeleted), "", "", 0, "volume attachment is being deleted"},
		"ATT-81: its deletion was requested":     {va(isAttached), "", "uid", 0, "volume attachment is being deleted"},
		"ATT-81: that of another one was":        {va(isAttached), "", "other", 0, "ok"},
		"ATT-81: not the one that was created":   {va(isAttached), "created", "", time.Minute, ""},
		"ATT-81: the one that was created":       {va(isAttached), "uid", "", 0, "ok"},
		"ATT-40h, ATT-83: an error, at once":     {va(attachError("bad")), "", "", errorGrace - 1, ""},
		"ATT-40g, ATT-59: an error":              {va(attachError("bad")), "", "", errorGrace, "bad"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := outcomeOf(attachOutcome(tc.va, tc.uid, tc.deleted, tc.waited)); got != tc.want {
				t.Errorf("%q, want %q", got, tc.want)
			}
		})
	}
}

func TestDetachOutcome(t *testing.T) {
	for name, tc := range map[string]struct {
		va     *storagev1.VolumeAttachment
		waited time.Duration
		want   string
	}{
		"ATT-39j: gone":                      {nil, 0, "ok"},
		"ATT-39j, ATT-81: replaced":          {anAttachment("v", "a", func(va *storagev1.VolumeAttachment) { va.UID = "new" }), 0, "ok"},
		"ATT-39j: there":                     {anAttachment("v", "a", beingDeleted), driverWait - 1, ""},
		"ATT-39j, ATT-55: there for long":    {anAttachment("v", "a", beingDeleted), driverWait, "timed out"},
		"ATT-39j: an error":                  {anAttachment("v", "a", detachError("bad")), errorGrace, "bad"},
		"ATT-40h, ATT-83: an error, at once": {anAttachment("v", "a", detachError("bad")), errorGrace - 1, ""},
	} {
		t.Run(name, func(t *testing.T) {
			if got := outcomeOf(detachOutcome(tc.va, "va-v-a", tc.waited)); got != tc.want {
				t.Errorf("%q, want %q", got, tc.want)
			}
		})
	}
}

func outcomeOf(ended bool, err error) string {
	switch {
	case !ended:
		return ""
	case err != nil:
		return err.Error()
	}
	return "ok"
}

// Pins ATT-84.
func TestAdopted(t *testing.T) {
	for name, tc := range map[string]struct {
		now, was  attachState
		confirmed bool
		want      attachState
	}{
		"as before":                               {attached, attached, true, attached},
		"it was not known":                        {uncertain, detached, true, uncertain},
		"a detach has failed":                     {attached, uncertain, true, uncertain},
		"an attach has failed":                    {detached, uncertain, false, uncertain},
		"the node was not told":                   {uncertain, attached, true, attached},
		"the VolumeAttachment is not what it was": {uncertain, attached, false, uncertain},
		"the VolumeAttachment is gone":            {detached, attached, false, uncertain},
	} {
		t.Run(name, func(t *testing.T) {
			if got := takenOver(tc.now, tc.was, tc.confirmed); got != tc.want {
				t.Errorf("%v, want %v", got, tc.want)
			}
		})
	}
}

// Pins ATT-34 and ATT-61.
func TestIsTerminated(t *testing.T) {
	running := corev1.ContainerStatus{State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}
	ended := corev1.ContainerStatus{State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}}}
	waits := corev1.ContainerStatus{State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{}}}
	for name, tc := range map[string]struct {
		change func(*corev1.Pod)
		want   bool
	}{
		"running":                      {func(*corev1.Pod) {}, false},
		"succeeded":                    {controllertest.InPhase(corev1.PodSucceeded), true},
		"failed":                       {controllertest.InPhase(corev1.PodFailed), true},
		"being deleted, no containers": {controllertest.Terminating, true},
		"being deleted, a container runs": {func(p *corev1.Pod) {
			controllertest.Terminating(p)
			p.Status.ContainerStatuses = []corev1.ContainerStatus{ended, running}
		}, false},
		"being deleted, an init container runs": {func(p *corev1.Pod) {
			controllertest.Terminating(p)
			p.Status.InitContainerStatuses = []corev1.ContainerStatus{running}
		}, false},
		"being deleted, an ephemeral container runs": {func(p *corev1.Pod) {
			controllertest.Terminating(p)
			p.Status.EphemeralContainerStatuses = []corev1.ContainerStatus{running}
		}, false},
		"being deleted, a container is of unknown state": {func(p *corev1.Pod) {
			controllertest.Terminating(p)
			p.Status.ContainerStatuses = []corev1.ContainerStatus{{}}
		}, false},
		"being deleted, no container runs": {func(p *corev1.Pod) {
			controllertest.Terminating(p)
			p.Status.ContainerStatuses = []corev1.ContainerStatus{ended, waits}
		}, true},
		"no containers": {func(p *corev1.Pod) { p.Status.ContainerStatuses = []corev1.ContainerStatus{ended} }, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := volumes.IsTerminated(controllertest.Pod("ns", "pod", tc.change)); got != tc.want {
				t.Errorf("%v, want %v", got, tc.want)
			}
		})
	}
}

// Pins ATT-40i.
func TestMultiAttachCause(t *testing.T) {
	pod := func(namespace, name string) podRef {
		return podRef{NamespacedName: types.NamespacedName{Namespace: namespace, Name: name}}
	}
	for name, tc := range map[string]struct {
		users []podRef
		want  string
	}{
		"no pod uses it":                       {nil, "Volume is already exclusively attached to one node and can't be attached to another"},
		"pods of the namespace":                {[]podRef{pod("ns", "b"), pod("ns", "a")}, "Volume is already used by pod(s) a, b"},
		"pods of other namespaces":             {[]podRef{pod("x", "b"), pod("y", "a")}, "Volume is already used by 2 pod(s) in different namespaces"},
		"pods of the namespace and of another": {[]podRef{pod("x", "b"), pod("ns", "a")}, "Volume is already used by pod(s) a and 1 pod(s) in different namespaces"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := multiAttachCause("ns", tc.users); got != tc.want {
				t.Errorf("%q, want %q", got, tc.want)
			}
			if got := multiAttach(pod("ns", "pod"), "v", tc.users).Message; got != `Multi-Attach error for volume "v" `+tc.want {
				t.Errorf("message is %q", got)
			}
		})
	}
}

// Pins ATT-38.
func TestAllowsMultiple(t *testing.T) {
	withModes := func(modes ...corev1.PersistentVolumeAccessMode) identified {
		return migrated(specOf(aVolume("v", modes...)))
	}
	ofPod := func(source corev1.VolumeSource) identified {
		var what identified
		what.Volume = &corev1.Volume{VolumeSource: source}
		return what
	}
	for name, tc := range map[string]struct {
		what identified
		want bool
	}{
		"not known":            {identified{}, true},
		"no modes":             {withModes(), true},
		"once":                 {withModes(corev1.ReadWriteOnce), false},
		"one pod":              {withModes(corev1.ReadWriteOncePod), false},
		"many":                 {withModes(corev1.ReadWriteMany), true},
		"many readers":         {withModes(corev1.ReadWriteOnce, corev1.ReadOnlyMany), true},
		"in a pod":             {ofPod(corev1.VolumeSource{ISCSI: &corev1.ISCSIVolumeSource{}}), true},
		"in a pod, Azure disk": {ofPod(corev1.VolumeSource{AzureDisk: &corev1.AzureDiskVolumeSource{}}), false},
		"in a pod, Cinder":     {ofPod(corev1.VolumeSource{Cinder: &corev1.CinderVolumeSource{}}), false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := tc.what.allowsMultiple(); got != tc.want {
				t.Errorf("%v, want %v", got, tc.want)
			}
		})
	}
}

// Pins ATT-28a, ATT-39i, ATT-39j, ATT-47 and ATT-65.
func TestNames(t *testing.T) {
	for _, tc := range []struct{ name, plugin, id, driver, handle string }{
		{"kubernetes.io/csi/driver^handle", "kubernetes.io/csi", "driver^handle", "driver", "handle"},
		{"kubernetes.io/csi/driver^a/b^c", "kubernetes.io/csi", "driver^a/b^c", "driver", "a/b^c"},
		{"kubernetes.io/csi/driver", "kubernetes.io/csi", "driver", "", ""},
		{"kubernetes.io/iscsi/1.2.3.4:3260:iqn:0", "kubernetes.io/iscsi", "1.2.3.4:3260:iqn:0", "", ""},
		{"driver/volume", "", "", "", ""},
	} {
		plugin, id, _ := split(corev1.UniqueVolumeName(tc.name))
		driver, handle, ok := splitCSI(id)
		if !ok {
			driver, handle = "", ""
		}
		if plugin != tc.plugin || id != tc.id || driver != tc.driver || handle != tc.handle {
			t.Errorf("%s: %q %q %q %q", tc.name, plugin, id, driver, handle)
		}
		if name := vaNameOf(place{corev1.UniqueVolumeName(tc.name), "a"}); strings.HasPrefix(name, "csi-") != ok {
			t.Errorf("%s: name %q", tc.name, name)
		}
	}
}
