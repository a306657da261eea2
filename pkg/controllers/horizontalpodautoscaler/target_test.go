package horizontalpodautoscaler

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"testing"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"

	"kcmd.dev/test/controllertest"
)

var deployments = schema.GroupResource{Group: "apps", Resource: "deployments"}

// unmapped is a mapper that fails.
type unmapped struct {
	meta.RESTMapper
	err error
}

// RESTMappings implements meta.RESTMapper.
func (u unmapped) RESTMappings(schema.GroupKind, ...string) ([]*meta.RESTMapping, error) {
	return nil, u.err
}

// Pins HPA-73.
func TestWithoutATargetNothingIsSelected(t *testing.T) {
	kind := func(hpa *autoscalingv2.HorizontalPodAutoscaler) { hpa.Spec.ScaleTargetRef.Kind = "Gadget" }
	for name, tc := range map[string]struct {
		edit     edit
		unmapped error // of the mapper
		err      error // of the scale
		selector string
		selects  bool
	}{
		"HPA-73: no such object":               {err: apierrors.NewNotFound(deployments, "web"), selector: "app=web"},
		"HPA-73: no such kind":                 {edit: kind, selector: "app=web"},
		"HPA-77: its group could not be asked": {unmapped: errors.New("not asked"), selector: "app=web", selects: true},
		"HPA-73: no selector":                  {},
		"HPA-73: unusable selector":            {selector: "a in"},
		"HPA-73: a page of a proxy": {
			err:      apierrors.NewGenericServerResponse(http.StatusNotFound, "get", deployments, "web", "404 page not found", 0, true),
			selector: "app=web", selects: true,
		},
		"HPA-73: no answer": {err: errors.New("connection lost"), selector: "app=web", selects: true},
	} {
		t.Run(name, func(t *testing.T) {
			edits := []edit{}
			if tc.edit != nil {
				edits = append(edits, tc.edit)
			}
			h := newHarness(t, testConfig, withPods(1, newHPA(edits...))...)
			h.registered(t, "web", "app=web")
			h.scale.Status.Selector = tc.selector
			h.scaleErr = func(string) error { return tc.err }
			if tc.unmapped != nil {
				h.c.Mapper = unmapped{err: tc.unmapped}
			}
			if _, err := h.evaluate(t); err == nil {
				t.Fatal("the evaluation must fail")
			}
			if got := h.c.selectors.selecting("ns", podsNamed(1)); slices.Contains(got, webKey) != tc.selects {
				t.Errorf("the pod is selected by %v", got)
			}
		})
	}
}

// A target that was replaced by another for the same pods does not keep the autoscaler of the other from scaling them.
//
// Pins HPA-73.
func TestPodsOfAnAbsentTargetMayBeScaledByAnother(t *testing.T) {
	old := newHPA(func(hpa *autoscalingv2.HorizontalPodAutoscaler) { hpa.Name, hpa.UID = "old", "old" })
	h := newHarness(t, testConfig, withPods(3, newHPA(withMetrics(external("queue", "2", ""))), old)...)
	h.registered(t, "old", "app=web")
	h.series("12")
	if _, err := h.evaluate(t); err == nil || h.written != nil {
		t.Fatalf("%v, wrote %v, although the pods are selected by both", err, h.written)
	}
	h.scaleErr = func(string) error { return apierrors.NewNotFound(deployments, "old") }
	if err := h.c.reconcile(h.Context(), cache.NewObjectName("ns", "old")); err == nil {
		t.Fatal("its target is gone")
	}
	h.scaleErr = nil
	if _, err := h.evaluate(t); err != nil || !slices.Equal(h.written, []int32{6}) {
		t.Errorf("%v, wrote %v", err, h.written)
	}
}

// retarget edits the reference to the target.
func (h *harness) retarget(t testing.TB, edit func(*autoscalingv2.CrossVersionObjectReference)) {
	t.Helper()
	var want autoscalingv2.CrossVersionObjectReference
	controllertest.Change(t, h.Env, "ns", "web", func(hpa *autoscalingv2.HorizontalPodAutoscaler) {
		edit(&hpa.Spec.ScaleTargetRef)
		want = hpa.Spec.ScaleTargetRef
	})
	controllertest.Eventually(t, "the cache shows the other target", func() bool {
		hpa, err := h.c.autoscalers.HorizontalPodAutoscalers("ns").Get("web")
		return err == nil && hpa.Spec.ScaleTargetRef == want
	})
}

// What one target required says nothing about another one.
//
// Pins HPA-74.
func TestAnotherTargetHasNoPast(t *testing.T) {
	h := newHarness(t, testConfig, withPods(1, newHPA(withMetrics(external("queue", "5", ""))))...)
	h.scale.Spec.Replicas, h.scale.Status.Replicas = 9, 9
	h.series("45")
	if _, err := h.evaluate(t); err != nil || h.written != nil {
		t.Fatalf("%v, wrote %v", err, h.written)
	}
	h.c.histories.of(webKey, "u1").recordScale(1, 9, epoch, time.Minute, time.Minute)
	h.retarget(t, func(ref *autoscalingv2.CrossVersionObjectReference) { ref.Name = "small" })
	h.scale.Spec.Replicas, h.scale.Status.Replicas, h.scale.Status.Selector = 2, 2, ""
	h.Clock.Step(testConfig.syncPeriod)
	if _, err := h.evaluate(t); err == nil {
		t.Fatal("there is no selector")
	}
	h.scale.Status.Selector = "app=web"
	h.series("10")
	h.Clock.Step(testConfig.syncPeriod)
	if _, err := h.evaluate(t); err != nil || h.written != nil {
		t.Errorf("%v, wrote %v for a target that is as it should be", err, h.written)
	}
	past := h.c.histories.of(webKey, "u1")
	if len(past.added) != 0 || past.waitsSince.IsZero() {
		t.Errorf("remembered %+v", past)
	}
}

// A target that somebody else stopped is not started because the autoscaler stopped the one before.
func TestAnotherTargetWasNotScaledToZero(t *testing.T) {
	for name, tc := range map[string]struct {
		edit  func(*autoscalingv2.CrossVersionObjectReference)
		wrote []int32
		zero  string
	}{
		"HPA-74: another target": {
			func(ref *autoscalingv2.CrossVersionObjectReference) { ref.Name = "stopped" }, nil, "none",
		},
		"HPA-74: another version of its kind": {
			func(ref *autoscalingv2.CrossVersionObjectReference) { ref.APIVersion = "apps/v1beta2" }, []int32{2},
			"False NotScaledToZero: the HPA controller did not scale the workload to zero",
		},
	} {
		t.Run(name, func(t *testing.T) {
			gate := testConfig
			gate.scaleToZero = true
			h := newHarness(t, gate, newHPA(withMetrics(external("queue", "5", "")), func(hpa *autoscalingv2.HorizontalPodAutoscaler) {
				hpa.Spec.MinReplicas = ptr.To[int32](0)
				hpa.Status.Conditions = []autoscalingv2.HorizontalPodAutoscalerCondition{{
					Type: autoscalingv2.ScaledToZero, Status: corev1.ConditionTrue,
				}}
			}))
			h.scale.Spec.Replicas, h.scale.Status.Replicas = 0, 0
			h.series("0")
			if _, err := h.evaluate(t); err != nil || h.written != nil {
				t.Fatalf("%v, wrote %v", err, h.written)
			}
			h.retarget(t, tc.edit)
			h.series("9")
			hpa, err := h.evaluate(t)
			if got := condition(hpa, autoscalingv2.ScaledToZero); err != nil || !slices.Equal(h.written, tc.wrote) || got != tc.zero {
				t.Errorf("%v, wrote %v, %s", err, h.written, got)
			}
		})
	}
}

// A target that was created again under its name is another one.
func TestATargetThatWasCreatedAgain(t *testing.T) {
	gate := testConfig
	gate.scaleToZero = true
	for name, tc := range map[string]struct {
		before, again int32  // replicas
		queue, then   string // how long it is, for 5 per replica
		uid           types.UID
		wrote         []int32
	}{
		"HPA-78: the load of the one before": {before: 9, again: 2, queue: "45", then: "10", uid: "2"},
		"HPA-78: its recommendations":        {before: 9, again: 2, queue: "45", then: "10", uid: "1", wrote: []int32{4}},
		"HPA-78: the stop of the one before": {queue: "0", then: "10", uid: "2"},
		"HPA-78: its stop":                   {queue: "0", then: "10", uid: "1", wrote: []int32{2}},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHarness(t, gate, withPods(1, newHPA(withMetrics(external("queue", "5", "")), func(hpa *autoscalingv2.HorizontalPodAutoscaler) {
				hpa.Spec.MinReplicas = ptr.To[int32](0)
				hpa.Status.Conditions = []autoscalingv2.HorizontalPodAutoscalerCondition{{
					Type: autoscalingv2.ScaledToZero, Status: corev1.ConditionTrue,
				}}
			}))...)
			h.scale.UID, h.scale.Spec.Replicas, h.scale.Status.Replicas = "1", tc.before, tc.before
			h.series(tc.queue)
			if _, err := h.evaluate(t); err != nil || h.written != nil {
				t.Fatalf("%v, wrote %v", err, h.written)
			}
			h.scale.UID, h.scale.Spec.Replicas, h.scale.Status.Replicas = tc.uid, tc.again, tc.again
			h.series(tc.then)
			h.Clock.Step(gate.syncPeriod)
			if _, err := h.evaluate(t); err != nil || !slices.Equal(h.written, tc.wrote) {
				t.Errorf("%v, wrote %v", err, h.written)
			}
		})
	}
}

// What another process has stopped since is not forgotten because this one knew another target: nobody would start it.
func TestAnotherTargetThatAnotherProcessStopped(t *testing.T) {
	gate := testConfig
	gate.scaleToZero = true
	retarget := func(t *testing.T, h *harness) {
		t.Helper()
		h.retarget(t, func(ref *autoscalingv2.CrossVersionObjectReference) { ref.Name = "another" })
	}
	create := func(_ *testing.T, h *harness) { h.scale.UID = "2" }
	pause := func(h *histories) { h.hold(func(string) bool { return true }) }
	for name, tc := range map[string]struct {
		meanwhile func(*histories)
		move      func(t *testing.T, h *harness)
		wrote     []int32
	}{
		"HPA-74: another target":                {(*histories).interrupt, retarget, []int32{2}},
		"HPA-78: created again":                 {(*histories).interrupt, create, []int32{2}},
		"HPA-74: another target during a pause": {pause, retarget, nil},
		"HPA-78: created again during a pause":  {pause, create, nil},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHarness(t, gate, newHPA(withMetrics(external("queue", "5", "")), func(hpa *autoscalingv2.HorizontalPodAutoscaler) {
				hpa.Spec.MinReplicas = ptr.To[int32](0)
				hpa.Status.Conditions = []autoscalingv2.HorizontalPodAutoscalerCondition{{
					Type: autoscalingv2.ScaledToZero, Status: corev1.ConditionTrue,
				}}
			}))
			h.scale.UID, h.scale.Spec.Replicas, h.scale.Status.Replicas = "1", 0, 0
			h.series("0")
			if _, err := h.evaluate(t); err != nil || h.written != nil {
				t.Fatalf("%v, wrote %v", err, h.written)
			}
			tc.meanwhile(h.c.histories)
			tc.move(t, h)
			h.series("10")
			if _, err := h.evaluate(t); err != nil || !slices.Equal(h.written, tc.wrote) {
				t.Errorf("%v, wrote %v", err, h.written)
			}
		})
	}
}

// A scale that is not written in time is not written, also when nobody can tell: the libraries take such an error for the
// end of their own wait. Pins HPA-24.
func TestAScaleThatIsNotWrittenInTime(t *testing.T) {
	gate := testConfig
	gate.scaleToZero = true
	h := newHarness(t, gate, newHPA(withMetrics(external("queue", "5", "")), func(hpa *autoscalingv2.HorizontalPodAutoscaler) {
		hpa.Spec.MinReplicas = ptr.To[int32](0)
		hpa.Status.Conditions = []autoscalingv2.HorizontalPodAutoscalerCondition{{
			Type: autoscalingv2.ScaledToZero, Status: corev1.ConditionTrue,
		}}
	}))
	h.scale.Spec.Replicas, h.scale.Status.Replicas = 0, 0
	h.series("10")
	timeout := &url.Error{Op: "Put", URL: "https://server", Err: context.DeadlineExceeded}
	h.scaleErr = func(verb string) error {
		if verb == "update" {
			return timeout
		}
		return nil
	}
	hpa, err := h.evaluate(t)
	if !errors.Is(err, timeout) || h.written != nil || !isTrue(hpa.Status.Conditions, autoscalingv2.ScaledToZero) {
		t.Errorf("%v, wrote %v, %s", err, h.written, condition(hpa, autoscalingv2.ScaledToZero))
	}
	h.WantEvents(t, "Warning FailedRescale New size: 2; reason: external metric queue(nil) above target; error: "+timeout.Error())
	h.scaleErr = nil
	h.Clock.Step(gate.syncPeriod)
	if _, err := h.evaluate(t); err != nil || !slices.Equal(h.written, []int32{2}) {
		t.Errorf("later: %v, wrote %v", err, h.written)
	}
}

// A size that somebody else has given the target is not overwritten by a decision about the one before.
func TestConflictsWithAnotherSize(t *testing.T) {
	for name, tc := range map[string]struct {
		meanwhile func(h *harness)
		wrote     []int32
	}{
		"HPA-75: stopped":           {func(h *harness) { h.scale.Spec.Replicas = 0 }, nil},
		"HPA-75: scaled":            {func(h *harness) { h.scale.Spec.Replicas = 40 }, nil},
		"HPA-75: created again":     {func(h *harness) { h.scale.UID = "another" }, nil},
		"HPA-75: scaled as desired": {func(h *harness) { h.scale.Spec.Replicas = 10 }, []int32{10}},
		"HPA-24: another change":    {func(h *harness) { h.scale.ResourceVersion = "2" }, []int32{10}},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHarness(t, testConfig, newHPA())
			h.scale.Spec.Replicas, h.scale.UID = 12, "web"
			puts := 0
			h.scaleErr = func(verb string) error {
				if verb != "update" {
					return nil
				}
				if puts++; puts > 1 {
					return nil
				}
				tc.meanwhile(h)
				return conflict()
			}
			hpa, err := h.evaluate(t)
			if (err == nil) != (tc.wrote != nil) || !slices.Equal(h.written, tc.wrote) {
				t.Errorf("%v, wrote %v", err, h.written)
			}
			if tc.wrote != nil {
				return
			}
			if got, want := condition(hpa, autoscalingv2.AbleToScale), "False FailedUpdateScale: the HPA controller was unable to update the target scale: "+conflict().Error(); got != want {
				t.Error(got)
			}
			h.WantEvents(t, "Warning FailedRescale New size: 10; reason: Current number of replicas above Spec.MaxReplicas; error: "+conflict().Error())
		})
	}
}
