package pvbinder

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/storage/volume"
	"k8s.io/utils/ptr"
)

func TestJudgeClaim(t *testing.T) {
	mine := claimedBy(claimUID)
	for name, tc := range map[string]struct {
		claim  *pvc
		volume *pv
		action claimAction
		event  string
		err    string
	}{
		"PVB-57, PVB-58: it names no volume":       {claim: aClaim(), action: findVolume},
		"PVB-59a: its volume does not exist":       {claim: aClaim(naming("volume")), action: leavePending},
		"PVB-59b: its volume is free":              {claim: aClaim(naming("volume")), volume: aVolume("volume"), action: bindClaim},
		"PVB-59b: neither label nor phase matters": {claim: aClaim(naming("volume"), selecting("a", "b")), volume: aVolume("volume", inPhase(corev1.VolumeFailed)), action: bindClaim},
		"PVB-59b: its volume does not fit": {claim: aClaim(naming("volume"), requesting("9Gi")), volume: aVolume("volume"), action: leavePending,
			event: `Warning VolumeMismatch Cannot bind to requested volume "volume": requested PV is too small`},
		"PVB-59c: its volume is reserved for it": {claim: aClaim(naming("volume"), requesting("9Gi")), volume: aVolume("volume", claimedBy("")), action: bindClaim},
		"PVB-59c: a bind was interrupted":        {claim: aClaim(naming("volume")), volume: aVolume("volume", mine), action: bindClaim},
		"PVB-59d: its volume belongs to another": {claim: aClaim(naming("volume")), volume: aVolume("volume", claimedByAnother), action: leavePending,
			event: `Warning FailedBinding volume "volume" already bound to a different claim.`},
		"PVB-59d, PVB-107: its volume belongs to a namesake": {claim: aClaim(naming("volume"), recreatedClaim), volume: aVolume("volume", mine), action: leavePending,
			event: `Warning FailedBinding volume "volume" already bound to a different claim.`},
		"PVB-59d: the controller named a volume of another": {claim: aClaim(naming("volume"), claimByController), volume: aVolume("volume", claimedByAnother), action: refuseClaim,
			event: `Warning FailedBinding volume "volume" already bound to a different claim.`,
			err:   `invalid binding of claim "ns/claim" to volume "volume": volume already claimed by "ns2/name2"`},
		"PVB-48, PVB-60: bound, and names no volume": {claim: aClaim(completed), action: declareLost,
			event: "Warning ClaimLost Bound claim has lost reference to PersistentVolume. Data on the volume is lost!"},
		"PVB-61: bound, and its volume does not exist": {claim: aClaim(naming("volume"), completed), action: declareLost,
			event: "Warning ClaimLost Bound claim has lost its PersistentVolume. Data on the volume is lost!"},
		"PVB-62: bound, and its volume names no claim":       {claim: aClaim(naming("volume"), completed), volume: aVolume("volume", volumeClass("other")), action: bindClaim},
		"PVB-62, PVB-64: bound, and its volume is its own":   {claim: aClaim(naming("volume"), completed), volume: aVolume("volume", mine), action: bindClaim},
		"PVB-62: only the UID counts":                        {claim: aClaim(naming("volume"), completed), volume: aVolume("volume", claimedByAnother, func(v *pv) { v.Spec.ClaimRef.UID = claimUID }), action: bindClaim},
		"PVB-63: bound, and its volume belongs to another":   {claim: aClaim(naming("volume"), completed), volume: aVolume("volume", claimedByAnother), action: declareLost, event: misboundEvent},
		"PVB-63: bound, and its volume is only reserved":     {claim: aClaim(naming("volume"), completed), volume: aVolume("volume", claimedBy("")), action: declareLost, event: misboundEvent},
		"PVB-63, PVB-107: bound, and it belongs to namesake": {claim: aClaim(naming("volume"), completed, recreatedClaim), volume: aVolume("volume", mine), action: declareLost, event: misboundEvent},
		"PVB-55: a claim that is being deleted is bound": {claim: aClaim(naming("volume"), func(c *pvc) { c.DeletionTimestamp = ptr.To(c.CreationTimestamp) }),
			volume: aVolume("volume"), action: bindClaim},
	} {
		t.Run(name, func(t *testing.T) {
			plan := judgeClaim(tc.claim, tc.volume, true)
			if plan.action != tc.action || printedPlan(plan) != tc.event {
				t.Errorf("got %s, event %q", plan.action, printedPlan(plan))
			}
			if tc.err != "" && (plan.err == nil || plan.err.Error() != tc.err) {
				t.Errorf("got error %v", plan.err)
			}
			if missing := tc.claim.Spec.VolumeName != "" && tc.volume == nil; plan.missing != missing {
				t.Errorf("missing is %v", plan.missing)
			}
		})
	}
}

const misboundEvent = "Warning ClaimMisbound Two claims are bound to the same volume, this one is bound incorrectly"

func printedPlan(plan claimPlan) string {
	if plan.event == nil {
		return ""
	}
	return plan.event.Type + " " + plan.event.Reason + " " + plan.event.Message
}

func TestMismatch(t *testing.T) {
	const off = "volumeAttributesClassName is not supported when the feature-gate VolumeAttributesClass is disabled"
	for name, tc := range map[string]struct {
		claim  *pvc
		volume *pv
		without,
		want string
	}{
		"PVB-59b: it fits":                         {claim: aClaim(), volume: aVolume("v")},
		"PVB-59b: of the same size":                {claim: aClaim(requesting("5Gi")), volume: aVolume("v")},
		"PVB-59b: marked for deletion":             {claim: aClaim(requesting("9Gi")), volume: aVolume("v", volumeDeleted), want: `the volume is marked for deletion "v"`},
		"PVB-59b: too small":                       {claim: aClaim(requesting("9Gi")), volume: aVolume("v", volumeClass("x")), want: "requested PV is too small"},
		"PVB-59b: another class":                   {claim: aClaim(), volume: aVolume("v", volumeClass("x"), volumeAttributes("y")), want: "storageClassName does not match"},
		"PVB-59b, PVB-52: class by its annotation": {claim: aClaim(claimNoted(corev1.BetaStorageClassAnnotation, "x")), volume: aVolume("v", noted(corev1.BetaStorageClassAnnotation, "x"))},
		"PVB-59b: another attributes class":        {claim: aClaim(claimBlock), volume: aVolume("v", volumeAttributes("y")), want: "volumeAttributesClassName does not match"},
		"PVB-59b: the same attributes class":       {claim: aClaim(claimAttributes("y")), volume: aVolume("v", volumeAttributes("y"))},
		"PVB-59b: no attributes class is one":      {claim: aClaim(claimAttributes("")), volume: aVolume("v")},
		"PVB-59b: another volume mode":             {claim: aClaim(claimBlock, claimModes(corev1.ReadOnlyMany)), volume: aVolume("v"), want: "incompatible volumeMode"},
		"PVB-59b: an access mode is missing":       {claim: aClaim(claimModes(corev1.ReadWriteOnce, corev1.ReadOnlyMany)), volume: aVolume("v"), want: "incompatible accessMode"},
		"PVB-4: claim with the gate off":           {claim: aClaim(claimAttributes("y")), volume: aVolume("v"), without: "gate", want: off},
		"PVB-4: volume with the gate off":          {claim: aClaim(), volume: aVolume("v", volumeAttributes("y")), without: "gate", want: off},
	} {
		t.Run(name, func(t *testing.T) {
			if got := mismatch(tc.claim, tc.volume, tc.without == ""); got != tc.want {
				t.Errorf("got %q", got)
			}
		})
	}
}

func TestJudgeUnmatched(t *testing.T) {
	selected := claimNoted(volume.AnnSelectedNode, "")
	for name, tc := range map[string]struct {
		claim  *pvc
		facts  unmatched
		action claimAction
		event  string
	}{
		"PVB-58d: no class, and there is a default":  {claim: aClaim(claimClass(nil)), facts: unmatched{defaultClass: "gold", delayed: true}, action: setClass},
		"PVB-58d: the class is empty":                {claim: aClaim(claimClass(ptr.To(""))), facts: unmatched{defaultClass: "gold"}, action: leavePending, event: noVolumeEvent},
		"PVB-58d: the class is in the annotation":    {claim: aClaim(claimClass(nil), claimNoted(corev1.BetaStorageClassAnnotation, "")), facts: unmatched{defaultClass: "gold"}, action: leavePending, event: noVolumeEvent},
		"PVB-58d, PVB-58g: no class, and no default": {claim: aClaim(claimClass(nil)), action: leavePending, event: noVolumeEvent},
		"PVB-58e, PVB-99: it waits for a pod": {claim: aClaim(), facts: unmatched{delayed: true}, action: leavePending,
			event: "Normal WaitForFirstConsumer waiting for first consumer to be created before binding"},
		"PVB-58e: it waits for a pod to be scheduled": {claim: aClaim(), facts: unmatched{delayed: true, waiting: []string{"a"}}, action: leavePending,
			event: "Normal WaitForPodScheduled waiting for pod a to be scheduled"},
		"PVB-58e: it waits for two": {claim: aClaim(), facts: unmatched{delayed: true, waiting: []string{"b", "a"}}, action: leavePending,
			event: "Normal WaitForPodScheduled waiting for pods b,a to be scheduled"},
		"PVB-58e, PVB-51: a node was selected": {claim: aClaim(selected), facts: unmatched{delayed: true, waiting: []string{"a"}}, action: provision},
		"PVB-58f: it has a class":              {claim: aClaim(), action: provision},
	} {
		t.Run(name, func(t *testing.T) {
			plan := judgeUnmatched(tc.claim, tc.facts)
			if plan.action != tc.action || printedPlan(plan) != tc.event {
				t.Errorf("got %s, event %q", plan.action, printedPlan(plan))
			}
			if plan.action == setClass && plan.class != tc.facts.defaultClass {
				t.Errorf("the class is %q", plan.class)
			}
		})
	}
}

const noVolumeEvent = "Normal FailedBinding no persistent volumes available for this claim and no storage class is set"
