package pvbinder

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"

	"kcmd.dev/test/controllertest"
)

// storeOf makes a store that shows volumes.
func storeOf(volumes ...*pv) *volumeStore {
	s := newVolumeStore(clocktesting.NewFakeClock(controllertest.Epoch), nil, func(_, _ *pv) {})
	for _, v := range volumes {
		s.seen(v.Name, v)
	}
	return s
}

func TestFind(t *testing.T) {
	rwo, rox, rwx, rwop := corev1.ReadWriteOnce, corev1.ReadOnlyMany, corev1.ReadWriteMany, corev1.ReadWriteOncePod
	labelled := func(v *pv) { v.Labels = map[string]string{"a": "b"} }
	reserved := claimedBy("")
	for name, tc := range map[string]struct {
		volumes []*pv
		claim   *pvc
		delayed bool
		want    string
	}{
		"PVB-58c: there are none":                 {},
		"PVB-58b: the smallest that suffices":     {volumes: []*pv{aVolume("small", ofSize("512Mi")), aVolume("huge", ofSize("9Gi")), aVolume("fits", ofSize("2Gi")), aVolume("large")}, want: "fits"},
		"PVB-58b: of just the size":               {volumes: []*pv{aVolume("large"), aVolume("fits", ofSize("1Gi"))}, want: "fits"},
		"PVB-58b: all are too small":              {volumes: []*pv{aVolume("small", ofSize("512Mi"))}},
		"PVB-58b: a request that is missing is 0": {volumes: []*pv{aVolume("none", ofSize("0"))}, claim: aClaim(func(c *pvc) { c.Spec.Resources.Requests = nil }), want: "none"},
		"PVB-58b: another class":                  {volumes: []*pv{aVolume("other", volumeClass("silver"))}},
		"PVB-58b: no class is one":                {volumes: []*pv{aVolume("gold"), aVolume("none", volumeClass(""))}, claim: aClaim(claimClass(nil)), want: "none"},
		"PVB-52: the class in the annotation":     {volumes: []*pv{aVolume("noted", volumeClass(""), noted(corev1.BetaStorageClassAnnotation, "gold"))}, want: "noted"},
		"PVB-58b: another volume mode":            {volumes: []*pv{aVolume("block", volumeBlock)}},
		"PVB-105: no volume mode is Filesystem":   {volumes: []*pv{aVolume("files", func(v *pv) { v.Spec.VolumeMode = ptr.To(corev1.PersistentVolumeFilesystem) })}, want: "files"},
		"PVB-58b: block":                          {volumes: []*pv{aVolume("files"), aVolume("block", volumeBlock)}, claim: aClaim(claimBlock), want: "block"},
		"PVB-58b: not Available":                  {volumes: []*pv{aVolume("failed", inPhase(corev1.VolumeFailed)), aVolume("pending", inPhase(corev1.VolumePending))}},
		"PVB-58b: being deleted":                  {volumes: []*pv{aVolume("deleted", volumeDeleted), aVolume("later", ofSize("9Gi"))}, want: "later"},
		"PVB-58b: another attributes class":       {volumes: []*pv{aVolume("x", volumeAttributes("x")), aVolume("y", volumeAttributes("y"))}, claim: aClaim(claimAttributes("y")), want: "y"},
		"PVB-58b: labels":                         {volumes: []*pv{aVolume("plain"), aVolume("a", ofSize("6Gi")), aVolume("b", ofSize("7Gi")), aVolume("labelled", ofSize("8Gi"), labelled)}, claim: aClaim(selecting("a", "b")), want: "labelled"},
		"PVB-58b: fewer access modes win":         {volumes: []*pv{aVolume("many", withModes(rwo, rox, rwx), ofSize("1Gi")), aVolume("few", withModes(rwo, rox))}, want: "few"},
		"PVB-31: repeated modes count once":       {volumes: []*pv{aVolume("two", withModes(rwo, rox), ofSize("1Gi")), aVolume("one", withModes(rwo, rwo))}, want: "one"},
		"PVB-58b: modes that it lacks":            {volumes: []*pv{aVolume("one"), aVolume("pod", withModes(rwop))}, claim: aClaim(claimModes(rwo, rwop))},
		"PVB-58b: of another claim":               {volumes: []*pv{aVolume("other", claimedByAnother)}},
		"PVB-107: of a namesake":                  {volumes: []*pv{aVolume("other", claimedBy("first"))}},
		"PVB-58b, PVB-98: reserved for it":        {volumes: []*pv{aVolume("free", ofSize("1Gi")), aVolume("mine", reserved, volumeClass("x"), inPhase(corev1.VolumePending))}, claim: aClaim(selecting("a", "b")), want: "mine"},
		"PVB-98: reserved, and too small":         {volumes: []*pv{aVolume("mine", reserved, ofSize("512Mi"))}},
		"PVB-98: reserved, of another mode":       {volumes: []*pv{aVolume("mine", reserved, volumeBlock)}},
		"PVB-98: reserved, with other modes":      {volumes: []*pv{aVolume("mine", reserved, withModes(rox))}},
		"PVB-98: reserved, of another VAC":        {volumes: []*pv{aVolume("mine", reserved, volumeAttributes("x"))}},
		"PVB-98: free with fewer modes":           {volumes: []*pv{aVolume("mine", reserved, withModes(rwo, rox)), aVolume("free")}, want: "free"},
		"PVB-58b, PVB-99: delayed":                {volumes: []*pv{aVolume("free")}, delayed: true},
		"PVB-99: delayed, and reserved":           {volumes: []*pv{aVolume("free"), aVolume("mine", claimedBy(claimUID))}, delayed: true, want: "mine"},
	} {
		t.Run(name, func(t *testing.T) {
			if tc.claim == nil {
				tc.claim = aClaim()
			}
			found, err := storeOf(tc.volumes...).find(tc.claim, tc.delayed, true)
			if err != nil {
				t.Fatal(err)
			}
			got := ""
			if found != nil {
				got = found.Name
			}
			if got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

func TestFindFails(t *testing.T) {
	invalid := aClaim(func(c *pvc) {
		c.Spec.Selector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "x"}}}
	})
	for name, tc := range map[string]struct {
		claim *pvc
		vac   bool
	}{
		"PVB-58b: for an invalid selector":              {invalid, true},
		"PVB-4: for attributes, with the gate disabled": {aClaim(claimAttributes("x")), false},
	} {
		t.Run(name, func(t *testing.T) {
			if found, err := storeOf(aVolume("v")).find(tc.claim, false, tc.vac); err == nil {
				t.Errorf("got %v", found)
			}
		})
	}
	if found, err := storeOf(aVolume("v", volumeAttributes("x"))).find(aClaim(), false, false); found != nil || err != nil {
		t.Errorf("PVB-4: with the gate disabled a volume with attributes is %v, %v", found, err)
	}
}

// The index follows volumes as they change. Pins PVB-31 and PVB-97.
func TestTheIndexFollowsVolumes(t *testing.T) {
	s := storeOf(aVolume("v"))
	found := func() bool {
		v, err := s.find(aClaim(), false, true)
		return v != nil && err == nil
	}
	if !found() {
		t.Error("a free volume is not found")
	}
	taken := aVolume("v", claimedByAnother, func(v *pv) { v.ResourceVersion = "9" })
	s.wrote("v", taken)
	if found() {
		t.Error("a volume is found that was written")
	}
	s.seen("v", aVolume("v", func(v *pv) { v.ResourceVersion = "8" }))
	if found() {
		t.Error("the cache, which is behind, counts")
	}
	s.seen("v", aVolume("v", func(v *pv) { v.ResourceVersion = "10" }))
	if !found() {
		t.Error("the cache, which is ahead, does not count")
	}
	s.gone("v")
	if found() || len(s.candidates.free) != 0 || len(s.candidates.reserved) != 0 {
		t.Errorf("of a deleted volume there is left %v", s.candidates)
	}
}

// If the first volume fits, no other is looked at. Pins PVB-114.
func TestFewVolumesAreLookedAt(t *testing.T) {
	var all []*pv
	for i := range 100 {
		all = append(all, aVolume(fmt.Sprint("volume-", i)))
	}
	looked := 0
	found, err := inSteps(all, func(of []*pv) (*pv, error) {
		looked += len(of)
		return of[len(of)-1], nil
	})
	if err != nil || found != all[0] || looked != 1 {
		t.Errorf("got %v, %v after %d", found, err, looked)
	}
	looked = 0
	if found, err = inSteps(all, func(of []*pv) (*pv, error) { looked += len(of); return nil, nil }); found != nil || err != nil || looked != 100 {
		t.Errorf("got %v, %v after %d", found, err, looked)
	}
}

// Looking for a volume does not become slower with the number of volumes.
func BenchmarkFind(b *testing.B) {
	for _, n := range []int{10, 10_000} {
		b.Run(fmt.Sprintf("volumes=%d", n), func(b *testing.B) {
			s := storeOf()
			for i := range n {
				v := aVolume(fmt.Sprint("volume-", i))
				s.seen(v.Name, v)
			}
			claim := aClaim()
			for b.Loop() {
				if found, err := s.find(claim, false, true); found == nil || err != nil {
					b.Fatal(found, err)
				}
			}
		})
	}
}

// A store keeps what was written for a while. Pins PVB-31, PVB-97 and PVB-121.
func TestWhatWasWrittenCountsForAWhile(t *testing.T) {
	clock := clocktesting.NewFakeClock(controllertest.Epoch)
	shown := aVolume("v", func(v *pv) { v.ResourceVersion = "5" })
	s := newVolumeStore(clock, func(string) (*pv, error) { return shown, nil }, func(_, _ *pv) {})
	written := aVolume("v", func(v *pv) { v.ResourceVersion = "9" })
	version := func(want, when string) {
		t.Helper()
		if got := s.get("v").ResourceVersion; got != want {
			t.Errorf("%s the version is %s, want %s", when, got, want)
		}
	}
	s.wrote("v", written)
	if s.get("v") != nil {
		t.Error("a write brought back what the cache does not show")
	}
	s.seen("v", shown)
	s.wrote("v", written.DeepCopy())
	version("9", "after a write")
	s.wrote("v", aVolume("v", func(v *pv) { v.UID, v.ResourceVersion = "second", "10" }))
	version("9", "after a write of a namesake")
	s.seen("v", shown)
	version("9", "when the cache is behind")
	clock.Step(5 * time.Minute)
	version("5", "when it was not shown for long")
	s.wrote("v", written.DeepCopy())
	s.refused("v", written, errConflict)
	version("5", "when a write based on it was refused")
	s.wrote("v", written.DeepCopy())
	s.wrote("v", aVolume("v", func(v *pv) { v.ResourceVersion = "11" }))
	s.refused("v", written, errConflict)
	version("11", "when a write based on an earlier version was refused")
	s.seen("v", aVolume("v", func(v *pv) { v.UID, v.ResourceVersion = "second", "6" }))
	version("6", "when it was replaced")
}
