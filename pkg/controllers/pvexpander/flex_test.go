package pvexpander

import (
	"errors"
	"reflect"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kcmd.dev/test/controllertest"
)

// state is what an expansion leaves on a claim and its volume.
type state struct {
	progress            corev1.ClaimResourceStatus
	allocated, has      string
	resizer             string
	conditions          []corev1.PersistentVolumeClaimConditionType
	volumeSize, oldSize string
}

func (f *fixture) state(t testing.TB) state {
	t.Helper()
	c, v := f.claim(t), f.volume(t)
	quantity := func(all corev1.ResourceList) string {
		q, ok := all[corev1.ResourceStorage]
		if !ok {
			return ""
		}
		return q.String()
	}
	s := state{
		progress:  c.Status.AllocatedResourceStatuses[corev1.ResourceStorage],
		allocated: quantity(c.Status.AllocatedResources), has: quantity(c.Status.Capacity),
		resizer:    c.Annotations[resizerAnnotation],
		volumeSize: quantity(v.Spec.Capacity), oldSize: v.Annotations[oldSizeAnnotation],
	}
	for _, condition := range c.Status.Conditions {
		s.conditions = append(s.conditions, condition.Type)
	}
	return s
}

const (
	isResizing = corev1.PersistentVolumeClaimResizing
	isPending  = corev1.PersistentVolumeClaimFileSystemResizePending
	nodePends  = corev1.PersistentVolumeClaimNodeResizePending
)

var expanding = []string{getVolume, patchClaim, patchVolume, patchClaim, patchVolume}

func TestAFlexVolumeIsExpanded(t *testing.T) {
	told := []corev1.PersistentVolumeClaimConditionType{isResizing, isPending}
	for name, tc := range map[string]struct {
		claim    []claimChange
		volume   []volumeChange
		requests []string
		want     state
		event    []string
		observed []string
	}{
		"PVX-20b, PVX-21e, PVX-21f, PVX-21g, PVX-33: a file system": {nil, nil, expanding,
			state{nodePends, "2Gi", "1Gi", driver, told, "2Gi", "1Gi"}, nil, []string{"success 1"}},
		"PVX-21f: the volume is large enough": {nil, []volumeChange{ofSize("2Gi")}, expanding,
			state{nodePends, "2Gi", "1Gi", driver, told, "2Gi", "1Gi"}, nil, []string{"success 1"}},
		"PVX-44: the volume is larger": {nil, []volumeChange{ofSize("4Gi")}, expanding,
			state{nodePends, "4Gi", "1Gi", driver, told, "4Gi", "1Gi"}, nil, []string{"success 1"}},
		"PVX-44: the volume was expanded for another claim": {[]claimChange{requesting("1Gi")}, []volumeChange{ofSize("4Gi"), marked}, expanding[:4],
			state{nodePends, "4Gi", "1Gi", driver, told, "4Gi", "1Gi"}, nil, []string{"success 1"}},
		"PVX-21g: the volume is marked": {nil, []volumeChange{func(v *corev1.PersistentVolume) { setMark(v, resource.MustParse("512Mi")) }}, expanding[:4],
			state{nodePends, "2Gi", "1Gi", driver, told, "2Gi", "512Mi"}, nil, []string{"success 1"}},
		"PVX-21g: a block device": {nil, []volumeChange{block}, expanding[:4],
			state{"", "2Gi", "2Gi", driver, nil, "2Gi", ""}, []string{"Normal VolumeResizeSuccessful ExpandVolume succeeded for volume ns/claim"}, []string{"success 1"}},
		"PVX-21d, PVX-22: the node knows": {[]claimChange{progress(nodePends), allocated("2Gi")}, []volumeChange{ofSize("2Gi"), marked}, []string{getVolume},
			state{nodePends, "2Gi", "1Gi", "", nil, "2Gi", "1Gi"}, nil, []string{"success 1"}},
		"PVX-38: the node knows, the volume is not marked": {[]claimChange{progress(nodePends), allocated("2Gi")}, []volumeChange{ofSize("2Gi")}, []string{getVolume, patchVolume},
			state{nodePends, "2Gi", "1Gi", "", nil, "2Gi", "1Gi"}, nil, []string{"success 1"}},
		"PVX-21d: the node failed, a block device": {[]claimChange{progress(corev1.PersistentVolumeClaimNodeResizeInfeasible), allocated("2Gi")}, []volumeChange{ofSize("2Gi"), block},
			[]string{getVolume, patchClaim, patchVolume}, state{nodePends, "2Gi", "1Gi", "", []corev1.PersistentVolumeClaimConditionType{isPending}, "2Gi", "1Gi"}, nil, []string{"success 1"}},
		"PVX-21a, PVX-33: the node is done": {[]claimChange{having("2Gi")}, []volumeChange{ofSize("2Gi"), marked}, []string{getVolume, patchVolume},
			state{"", "", "2Gi", "", nil, "2Gi", ""}, nil, nil},
		"PVX-19, PVX-21a: nothing is left": {[]claimChange{having("2Gi")}, []volumeChange{ofSize("2Gi")}, []string{getVolume},
			state{"", "", "2Gi", "", nil, "2Gi", ""}, nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			f := begun(t, claim(tc.claim...), volume(append([]volumeChange{flex}, tc.volume...)...))
			f.MustReconcile(t)
			f.WantRequests(t, tc.requests...)
			if got := f.state(t); !reflect.DeepEqual(got, tc.want) {
				t.Errorf("got  %+v\nwant %+v", got, tc.want)
			}
			f.WantEvents(t, tc.event...)
			f.wantObserved(t, tc.observed...)
			f.CatchUp(t)
			f.MustReconcile(t)
			if writes := f.Writes(); len(writes) != 0 {
				t.Errorf("the second pass wrote %v", writes)
			}
		})
	}
}

// Pins PVX-10, PVX-14, PVX-21e, PVX-21f and PVX-21g.
func TestThePatchesOfAnExpansion(t *testing.T) {
	f := begun(t, claim(func(c *corev1.PersistentVolumeClaim) {
		c.Status.AllocatedResources = corev1.ResourceList{"other": resource.MustParse("1")}
		c.Status.AllocatedResourceStatuses = map[corev1.ResourceName]corev1.ClaimResourceStatus{"other": nodePends}
	}), volume(flex))
	f.MustReconcile(t)
	want := []string{
		`{"metadata":{"annotations":{"volume.kubernetes.io/storage-resizer":"example.com/flex"},"resourceVersion":"7","uid":"claim-uid"},` +
			`"status":{"allocatedResourceStatuses":{"storage":"ControllerResizeInProgress"},"allocatedResources":{"storage":"2Gi"},` +
			`"conditions":[{"lastProbeTime":null,"lastTransitionTime":"2026-01-02T03:04:05Z","status":"True","type":"Resizing"}]}}`,
		`{"metadata":{"resourceVersion":"8","uid":"volume-uid"},"spec":{"capacity":{"storage":"2Gi"}}}`,
		`{"metadata":{"resourceVersion":"1001","uid":"claim-uid"},"status":{"$setElementOrder/conditions":[{"type":"Resizing"},{"type":"FileSystemResizePending"}],` +
			`"allocatedResourceStatuses":{"storage":"NodeResizePending"},"conditions":[{"lastProbeTime":null,"lastTransitionTime":"2026-01-02T03:04:05Z",` +
			`"message":"Waiting for user to (re-)start a pod to finish file system resize of volume on node.","status":"True","type":"FileSystemResizePending"}]}}`,
		`{"metadata":{"annotations":{"volume.alpha.kubernetes.io/pre-resize-capacity":"1Gi"},"resourceVersion":"1002","uid":"volume-uid"}}`,
	}
	if !slices.Equal(f.patches, want) {
		for i := range f.patches {
			t.Errorf("patch %d is %s", i, f.patches[i])
		}
	}
	if got := f.claim(t).Status; len(got.AllocatedResources) != 2 || len(got.AllocatedResourceStatuses) != 2 {
		t.Errorf("the status is %+v", got)
	}
}

// A patch that changes nothing is sent, too.
//
// Pins PVX-14.
func TestThePatchOfAVolumeThatIsLargeEnough(t *testing.T) {
	f := begun(t, claim(), volume(flex, ofSize("2Gi"), block))
	f.MustReconcile(t)
	if want := `{"metadata":{"resourceVersion":"8","uid":"volume-uid"}}`; f.patches[1] != want {
		t.Errorf("the patch is %s", f.patches[1])
	}
	if got := f.claim(t).Status; got.AllocatedResourceStatuses != nil || got.Conditions != nil {
		t.Errorf("the status is %+v", got)
	}
}

// An expansion that fails at any of its writes is continued, and ends as if nothing had failed.
//
// Pins PVX-31 and PVX-38.
func TestAnExpansionIsContinued(t *testing.T) {
	boom := errors.New("boom")
	const (
		claimFailed  = `patchPVCStatus failed to patch PVC "claim": boom`
		volumeFailed = `error Patching PV "volume" with error : boom`
	)
	for name, tc := range map[string]struct {
		request string
		nth     int
		err     string
		volume  []volumeChange
	}{
		"PVX-21h: at the beginning":    {patchClaim, 1, "error updating pvc ns/claim with resize in progress: " + claimFailed, nil},
		"PVX-21h: at the volume":       {patchVolume, 1, "error updating pv for pvc ns/claim: " + volumeFailed, nil},
		"PVX-21h: at the node":         {patchClaim, 2, "error marking pvc ns/claim for node expansion: error marking pvc ns/claim for node expansion: " + claimFailed, nil},
		"PVX-21h: at the mark":         {patchVolume, 2, "error marking pvc ns/claim for node expansion: error updating pv volume annotation (volume.alpha.kubernetes.io/pre-resize-capacity) with pre-resize capacity 1Gi: " + volumeFailed, nil},
		"PVX-21h: at the end, a block": {patchClaim, 2, "error marking pvc ns/claim as resized: " + claimFailed, []volumeChange{block}},
	} {
		t.Run(name, func(t *testing.T) {
			undisturbed := begun(t, claim(), volume(append([]volumeChange{flex}, tc.volume...)...))
			undisturbed.MustReconcile(t)

			f := begun(t, claim(), volume(append([]volumeChange{flex}, tc.volume...)...))
			allow := f.RefuseIf(tc.request, boom, func(n int) bool { return n == tc.nth })
			if err := f.Reconcile(); errorText(err) != tc.err {
				t.Errorf("got %v", err)
			}
			f.WantEvents(t, "Warning VolumeResizeFailed "+tc.err)
			f.wantObserved(t, "fail-unknown 1")
			allow()
			f.CatchUp(t)
			f.MustReconcile(t)
			if got, want := f.state(t), undisturbed.state(t); !reflect.DeepEqual(got, want) {
				t.Errorf("got  %+v\nwant %+v", got, want)
			}
		})
	}
}

// Pins PVX-21h.
func TestTellingTheNodeAgainFails(t *testing.T) {
	is := []claimChange{progress(corev1.PersistentVolumeClaimNodeResizeInfeasible), allocated("2Gi")}
	f := begun(t, claim(is...), volume(flex, ofSize("2Gi")))
	f.Refuse(patchClaim, errors.New("boom"))
	const text = `error marking pvc ns/claim for node expansion: patchPVCStatus failed to patch PVC "claim": boom`
	if err := f.Reconcile(); errorText(err) != text {
		t.Errorf("got %v", err)
	}
	f.WantEvents(t, "Warning VolumeResizeFailed "+text)
	f.wantObserved(t, "fail-unknown 1")
}

// Pins PVX-21a.
func TestAMarkThatCannotBeRemoved(t *testing.T) {
	f := begun(t, claim(having("2Gi")), volume(flex, ofSize("2Gi"), marked))
	allow := f.Refuse(patchVolume, errors.New("boom"))
	if err := f.Reconcile(); errorText(err) != `error Patching PV "volume" with error : boom` {
		t.Errorf("got %v", err)
	}
	f.WantEvents(t)
	f.wantObserved(t)
	allow()
	f.MustReconcile(t)
	if isMarked(f.volume(t)) {
		t.Error("the mark is still there")
	}
}

// Between reading the volume and writing it the volume goes, and another one takes its name; or it
// is released.
//
// Pins PVX-36.
func TestAVolumeThatWasReplacedIsNotWritten(t *testing.T) {
	for name, replace := range map[string]volumeChange{
		"PVX-36: another one": func(v *corev1.PersistentVolume) { v.UID = "second" },
		"PVX-36: released":    func(v *corev1.PersistentVolume) { v.Spec.ClaimRef = nil },
	} {
		t.Run(name, func(t *testing.T) {
			f := begun(t, claim(), volume(flex))
			is, err := f.c.Client.CoreV1().PersistentVolumes().Get(t.Context(), "volume", metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			controllertest.Change(t, f.Env, "", "volume", replace)
			if err := f.c.expandFlex(t.Context(), claim(), is); !apierrors.IsConflict(err) {
				t.Errorf("got %v", err)
			}
			if got := f.volume(t); sizeString(got) != "1Gi" || isMarked(got) {
				t.Errorf("it was written: %+v", got)
			}
		})
	}
}

func sizeString(v *corev1.PersistentVolume) string {
	q := sizeOf(v)
	return q.String()
}

// The cache shows the claim as it was before the last pass.
//
// Pins PVX-14.
func TestAStaleClaimDoesNotExpandTwice(t *testing.T) {
	f := begun(t, claim(), volume(flex))
	f.MustReconcile(t)
	want := f.state(t)
	if err := f.Reconcile(); !apierrors.IsConflict(err) {
		t.Errorf("got %v", err)
	}
	f.CatchUp(t)
	f.MustReconcile(t)
	if got := f.state(t); !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}
