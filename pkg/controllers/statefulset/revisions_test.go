package statefulset

import (
	"cmp"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	ktesting "k8s.io/client-go/testing"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/controllers/kit/owners"
	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/pkg/controllers/kit/workloads/history"
	"kcmd.dev/pkg/controllers/kit/workloads/podtemplate"
	"kcmd.dev/test/controllertest"
	"kcmd.dev/test/must"
)

// drifted is the revision of image v1 as an earlier version stored it: with a null
// creation timestamp and without a default that the present set has.
func drifted(t *testing.T, number int64) *appsv1.ControllerRevision {
	t.Helper()
	r := revisionAt(t, number)
	raw := strings.Replace(string(r.Data.Raw), `"metadata":{`, `"metadata":{"creationTimestamp":null,`, 1)
	if raw == string(r.Data.Raw) {
		t.Fatal("nothing drifted")
	}
	r.Data.Raw, r.Name = []byte(raw), r.Name+"-old"
	return r
}

func renamed(name string, r *appsv1.ControllerRevision) *appsv1.ControllerRevision {
	r.Name = name
	return r
}

func TestRevisions(t *testing.T) {
	create := "create controllerrevisions " + revisionAt(t, 1).Name
	for _, test := range []struct {
		name     string
		history  []*appsv1.ControllerRevision
		status   string // current revision
		update   string
		number   int64
		current  string
		requests []string
	}{
		{"STS-19d: first", nil, "", revisionAt(t, 1).Name, 1, revisionAt(t, 1).Name, []string{create}},
		{"STS-19a: unchanged", []*appsv1.ControllerRevision{renamed("a", revisionAt(t, 1))}, "a", "a", 1, "a", nil},
		{"STS-19: no status yet", []*appsv1.ControllerRevision{renamed("a", revisionAt(t, 1))}, "", "a", 1, "a", nil},
		{"STS-19d: changed", []*appsv1.ControllerRevision{renamed("a", revisionAt(t, 4, image("v0")))}, "a", revisionAt(t, 1).Name, 5, "a", []string{create}},
		{"STS-19b: rolled back", []*appsv1.ControllerRevision{renamed("a", revisionAt(t, 1)), renamed("b", revisionAt(t, 2, image("v2")))}, "b", "a", 3, "b",
			[]string{"update controllerrevisions a"}},
		{"STS-19a: duplicate, the last is equal", []*appsv1.ControllerRevision{renamed("a", revisionAt(t, 1)), renamed("b", revisionAt(t, 2))}, "a", "b", 2, "a", nil},
		{"STS-19b: duplicate, the last is not", []*appsv1.ControllerRevision{renamed("a", revisionAt(t, 1)), renamed("b", revisionAt(t, 2)), renamed("c", revisionAt(t, 3, image("v2")))}, "c", "b", 4, "c",
			[]string{"update controllerrevisions b"}},
		{"STS-19c: drifted", []*appsv1.ControllerRevision{renamed("a", drifted(t, 1))}, "a", "a", 1, "a", nil},
		{"STS-19c: drifted, not the last", []*appsv1.ControllerRevision{renamed("a", drifted(t, 1)), renamed("b", revisionAt(t, 2, image("v2")))}, "b", revisionAt(t, 1).Name, 3, "b", []string{create}},
		{"STS-19: current is gone", []*appsv1.ControllerRevision{renamed("a", revisionAt(t, 1))}, "gone", "a", 1, "a",
			[]string{"get controllerrevisions gone"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			set := newSet(1)
			set.Status.CurrentRevision = test.status
			objects := []runtime.Object{set}
			for _, r := range test.history {
				r.ResourceVersion = "3" + r.Name
				objects = append(objects, r)
			}
			f := newFixture(t, objects...)
			got, err := f.c.currentRevisions(t.Context(), set, test.history)
			if err != nil {
				t.Fatal(err)
			}
			if got.update.Name != test.update || got.update.Revision != test.number || got.current.Name != test.current || got.collisions != 0 {
				t.Errorf("update %s %d, current %s", got.update.Name, got.update.Revision, got.current.Name)
			}
			f.WantRequestsInAnyOrder(t, test.requests...)
			if len(test.requests) > 0 {
				return
			}
			// The second time, what equals the template is remembered.
			if f.c.equalities.of(set, got.update) == 0 {
				t.Error("nothing is remembered")
			}
			again, err := f.c.currentRevisions(t.Context(), set, test.history)
			if err != nil || again.update != got.update {
				t.Errorf("got %v, %v", again.update, err)
			}
		})
	}
}

// A list after a break of the watch lacked the revision of the pods that the partition protects, and one of them is
// created again.
func TestTheCacheLacksTheCurrentRevision(t *testing.T) {
	was, is := revisionAt(t, 1).Name, revisionAt(t, 1, image("v2")).Name
	for name, test := range map[string]struct {
		live    func(*appsv1.ControllerRevision)
		refused error
		want    string // the revision of the pod, empty if there is none
	}{
		"STS-79: it exists":                 {want: was},
		"STS-79: it is that of another set": {live: func(r *appsv1.ControllerRevision) { r.OwnerReferences[0].UID = "other" }, want: is},
		"STS-79: it is not selected":        {live: func(r *appsv1.ControllerRevision) { r.Labels = nil }, want: is},
		"STS-79: it cannot be read":         {refused: errTest},
	} {
		t.Run(name, func(t *testing.T) {
			f := settled(t, 2, image("v2"), edited, partition(2))
			lost := podAt(newSet(2), was, 0)
			f.Remove(t, lost)
			f.Uncache(t, lost, revisionAt(t, 1))
			if test.live != nil {
				f.Store(t, controllertest.Changed(revisionAt(t, 1), test.live))
			}
			if test.refused != nil {
				f.Refuse("get controllerrevisions", test.refused)
			}
			if err := f.Reconcile(); !errors.Is(err, test.refused) {
				t.Fatalf("got %v, want %v", err, test.refused)
			}
			pod, made := controllertest.Stored[*corev1.Pod](t, f.Env, key.Namespace, lost.Name)
			if made != (test.want != "") || made && revisionOf(pod) != test.want {
				t.Errorf("the pod is made: %v, at %s, want %q", made, pod.GetLabels(), test.want)
			}
			if got := f.status(t).CurrentRevision; got != cmp.Or(test.want, was) {
				t.Errorf("the current revision is %s", got)
			}
		})
	}
}

// TestADefaultThatIsNotKnownCausesNoUpdate: the template of the set got a default, which this
// version knows nothing of, after its revision was stored. What the generation of the set
// says of it holds for as long as the template stays.
// Pins STS-65.
func TestADefaultThatIsNotKnownCausesNoUpdate(t *testing.T) {
	defaulted := func(set *appsv1.StatefulSet) { set.Spec.Template.Spec.EnableServiceLinks = ptr.To(true) }
	observed := func(revision string, generation int64) func(*appsv1.StatefulSet) {
		return func(set *appsv1.StatefulSet) {
			set.Status.CurrentRevision, set.Status.UpdateRevision, set.Status.ObservedGeneration = revision, revision, generation
		}
	}
	generation := func(n int64) func(*appsv1.StatefulSet) {
		return func(set *appsv1.StatefulSet) { set.Generation = n }
	}
	stored := renamed("a", revisionAt(t, 1))
	stored.ResourceVersion = "3"
	history := []*appsv1.ControllerRevision{stored}
	for name, test := range map[string]struct {
		gate   config
		passes [][]func(*appsv1.StatefulSet) // over the set, one after the other
		same   bool                          // the last reconcile finds the stored revision
	}{
		"nothing but the default":                            {config{semanticComparison: true}, [][]func(*appsv1.StatefulSet){{observed("a", 1)}}, true},
		"without the gate":                                   {config{}, [][]func(*appsv1.StatefulSet){{observed("a", 1)}}, false},
		"the spec has changed since":                         {config{semanticComparison: true}, [][]func(*appsv1.StatefulSet){{observed("a", 1), generation(2)}}, false},
		"another revision was found for it":                  {config{semanticComparison: true}, [][]func(*appsv1.StatefulSet){{observed("b", 1)}}, false},
		"the set was not observed yet":                       {config{semanticComparison: true}, [][]func(*appsv1.StatefulSet){{observed("", 0)}}, false},
		"an equal template, then another change of the spec": {config{semanticComparison: true}, [][]func(*appsv1.StatefulSet){{observed("a", 1)}, {observed("a", 1), generation(2)}}, true},
		"an equal template, then a change of the template":   {config{semanticComparison: true}, [][]func(*appsv1.StatefulSet){{observed("a", 1)}, {observed("a", 1), generation(2), image("v2")}}, false},
		"an equal template, then the same of another set":    {config{semanticComparison: true}, [][]func(*appsv1.StatefulSet){{observed("a", 1)}, {observed("a", 1), generation(2), func(set *appsv1.StatefulSet) { set.UID = "other" }}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixtureWith(t, test.gate, newSet(1), stored)
			var got revisions
			for _, changes := range test.passes {
				var err error
				if got, err = f.c.currentRevisions(t.Context(), newSet(1, append(changes, defaulted)...), history); err != nil {
					t.Fatal(err)
				}
			}
			if (got.update.Name == "a") != test.same {
				t.Errorf("the update revision is %s", got.update.Name)
			}
		})
	}
}

// Pins STS-3 and STS-19c.
func TestDriftCausesAnUpdateWithoutTheGate(t *testing.T) {
	set, old := newSet(1), drifted(t, 1)
	f := newFixtureWith(t, config{}, set, old)
	got, err := f.c.currentRevisions(t.Context(), set, []*appsv1.ControllerRevision{old})
	if err != nil || got.update.Name != revisionAt(t, 1).Name || got.update.Revision != 2 {
		t.Errorf("got %v, %v", got.update, err)
	}
}

// Pins STS-19d and WL-71.
func TestCollisionsCount(t *testing.T) {
	taken := revisionAt(t, 1)
	taken.Data.Raw, taken.Labels = []byte(`{}`), nil
	set := newSet(1)
	set.Status.CollisionCount = ptr.To[int32](0)
	f := newFixture(t, set, taken)
	got, err := f.c.currentRevisions(t.Context(), set, nil)
	if err != nil || got.collisions != 1 || got.update.Name == taken.Name || *set.Status.CollisionCount != 0 {
		t.Errorf("got %+v, %v", got, err)
	}
	f = newFixture(t, set, taken)
	f.MustReconcile(t)
	if status := f.status(t); *status.CollisionCount != 1 || status.UpdateRevision != got.update.Name {
		t.Errorf("the status is %+v", status)
	}
}

// A set was deleted and created again, and its revision, which is deleted with the former set, is still there. There is
// no event when it is gone. Pins STS-81.
func TestTheRevisionOfAFormerSetIsReplaced(t *testing.T) {
	f := newFixture(t, newSet(0))
	former := revisionAt(t, 1)
	former.OwnerReferences[0].UID = "former"
	f.Store(t, former)
	f.MustReconcile(t)
	f.Queued.Want(t, "web in 10s")
	f.Remove(t, former)
	f.CatchUp(t)
	f.MustReconcile(t)
	f.Queued.Want(t)
	own := controllertest.MustStored[*appsv1.ControllerRevision](t, f.Env, key.Namespace, former.Name)
	if !metav1.IsControlledBy(own, newSet(0)) {
		t.Errorf("the revision belongs to %v", own.OwnerReferences)
	}
}

// TestSameTemplate leaves defaults out of stored templates.
// Pins STS-19c and STS-65.
func TestSameTemplate(t *testing.T) {
	probe := func() *corev1.Probe {
		return &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Port: intstr.FromInt32(1)}}}
	}
	minimal := corev1.PodTemplateSpec{Spec: corev1.PodSpec{
		ServiceAccountName: "sa",
		InitContainers:     []corev1.Container{{Image: "r:5000/i"}},
		Containers: []corev1.Container{{
			Image: "i:v1", Ports: []corev1.ContainerPort{{}}, LivenessProbe: probe(), StartupProbe: probe(),
			ReadinessProbe: &corev1.Probe{ProbeHandler: corev1.ProbeHandler{GRPC: &corev1.GRPCAction{}}},
			Lifecycle:      &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{HTTPGet: &corev1.HTTPGetAction{}}},
			Env:            []corev1.EnvVar{{Name: "x", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{}}}},
		}},
		Volumes: []corev1.Volume{
			{Name: "none"},
			{VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{}}},
			{VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{}}},
			{VolumeSource: corev1.VolumeSource{DownwardAPI: &corev1.DownwardAPIVolumeSource{Items: []corev1.DownwardAPIVolumeFile{{FieldRef: &corev1.ObjectFieldSelector{}}}}}},
			{VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
				{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{}}, {DownwardAPI: &corev1.DownwardAPIProjection{}},
			}}}},
			{VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{}}},
			{VolumeSource: corev1.VolumeSource{ISCSI: &corev1.ISCSIVolumeSource{}}},
			{VolumeSource: corev1.VolumeSource{RBD: &corev1.RBDVolumeSource{}}},
			{VolumeSource: corev1.VolumeSource{AzureDisk: &corev1.AzureDiskVolumeSource{}}},
			{VolumeSource: corev1.VolumeSource{ScaleIO: &corev1.ScaleIOVolumeSource{}}},
			{VolumeSource: corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{VolumeClaimTemplate: &corev1.PersistentVolumeClaimTemplate{}}}},
		},
	}}
	full := podtemplate.WithDefaults(&minimal)
	for _, want := range []string{
		`"restartPolicy":"Always"`, `"dnsPolicy":"ClusterFirst"`, `"schedulerName":"default-scheduler"`, `"terminationGracePeriodSeconds":30`,
		`"securityContext":{}`, `"serviceAccount":"sa"`, `"terminationMessagePath":"/dev/termination-log"`, `"terminationMessagePolicy":"File"`,
		`"imagePullPolicy":"IfNotPresent"`, `"imagePullPolicy":"Always"`, `"protocol":"TCP"`, `"path":"/"`, `"scheme":"HTTP"`, `"timeoutSeconds":1`,
		`"periodSeconds":10`, `"successThreshold":1`, `"failureThreshold":3`, `"service":""`, `"apiVersion":"v1"`, `"emptyDir":{}`,
		`"defaultMode":420`, `"expirationSeconds":3600`, `"type":""`, `"iscsiInterface":"default"`, `"keyring":"/etc/ceph/keyring"`,
		`"cachingMode":"ReadWrite"`, `"storageMode":"ThinProvisioned"`, `"volumeMode":"Filesystem"`,
	} {
		encoded, err := json.Marshal(full)
		if err != nil || !strings.Contains(string(encoded), want) {
			t.Errorf("%s is not filled in: %s, %v", want, encoded, err)
		}
	}
	changed := full.DeepCopy()
	changed.Spec.Containers[0].LivenessProbe.PeriodSeconds = 11
	for _, test := range []struct {
		name            string
		stored, present *corev1.PodTemplateSpec
		want            bool
	}{
		{"same", &minimal, &minimal, true},
		{"defaulted since", &minimal, full, true},
		{"defaulted no more", full, &minimal, true},
		{"STS-19d: changed", full, changed, false},
		{"changed from the default", &minimal, changed, false},
	} {
		payload, err := history.Payload(test.present)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := sameTemplate(test.stored, test.present, payload); err != nil || got != test.want {
			t.Errorf("%s: %v, %v", test.name, got, err)
		}
	}
	if !apiequality.Semantic.DeepEqual(podtemplate.WithDefaults(full), full) {
		t.Error("defaults are not stable")
	}
}

// Pins STS-20.
func TestBuilderMakesPodsAtTheirRevision(t *testing.T) {
	set := newSet(2, partition(1), image("v2"))
	old, update := revisionAt(t, 1), revisionAt(t, 2, image("v2"))
	for _, updateIsSet := range []bool{true, false} {
		b := newBuilder(set, revisions{current: old, update: update}, updateIsSet)
		for ordinal, want := range []struct{ revision, image string }{{old.Name, "v1"}, {update.Name, "v2"}} {
			pod, err := b.pod(ordinal)
			if err != nil || revisionOf(pod) != want.revision || pod.Spec.Containers[0].Image != want.image {
				t.Errorf("%d: %v, %v", ordinal, pod, err)
			}
		}
	}
	unusual := old.DeepCopy()
	unusual.Data.Raw = []byte(`{"spec":{"template":{"spec":{"containers":[{"name":"c","image":"v0"}]}}}}`)
	b := newBuilder(set, revisions{current: unusual, update: update}, false)
	if pod, err := b.pod(0); err != nil || pod.Spec.Containers[0].Image != "v0" || pod.Labels["app"] != "a" {
		t.Errorf("%v, %v", pod, err)
	}
	unusual.Data.Raw = []byte(`[]`)
	b = newBuilder(set, revisions{current: unusual, update: update}, false)
	if _, err := b.pod(0); err == nil {
		t.Error("takes what is no patch")
	}
}

// What was orphaned along with the set is not taken back. Pins STS-55.
func TestOrphansOfASetThatIsBeingDeletedStayOrphans(t *testing.T) {
	deleted := newSet(1, func(set *appsv1.StatefulSet) {
		set.DeletionTimestamp, set.Finalizers = &metav1.Time{Time: start}, []string{"orphan"}
	})
	pod, revision := podAt(newSet(1), "r", 0, orphaned), revisionAt(t, 1)
	revision.OwnerReferences = nil
	f := newFixture(t, deleted, pod, revision)
	if err := f.Reconcile(); !reconcile.IsExpected(err) {
		t.Errorf("got %v", err)
	}
	f.WantRequests(t, "get statefulsets web")
	f.WantEvents(t)
}

// Only an orphan is adopted, with nothing changed but its owner, and a revision with other labels is not released.
// Pins WL-79.
func TestRevisionsOfOthersAndUnwantedOnesAreLeftAlone(t *testing.T) {
	orphan, foreign, unwanted := renamed("a", revisionAt(t, 1)), renamed("b", revisionAt(t, 2)), renamed("c", revisionAt(t, 3))
	orphan.OwnerReferences, unwanted.Labels = nil, nil
	foreign.OwnerReferences[0].UID = "other"
	f := newFixture(t, newSet(1), orphan.DeepCopy(), foreign, unwanted, renamed("d", revisionAt(t, 4)))
	var sent []string
	f.Intercept("patch controllerrevisions", func(action ktesting.Action) error {
		sent = append(sent, string(action.(ktesting.PatchAction).GetPatch()))
		return nil
	})
	must.Get(f.c.listRevisions(t.Context(), newSet(1), labels.SelectorFromSet(labels.Set{"app": "a"})))(t)
	f.WantRequests(t, "get statefulsets web", "patch controllerrevisions a")
	want := string(must.Get(owners.AdoptPatch(orphan.UID, *metav1.NewControllerRef(newSet(1), setKind)))(t))
	if len(sent) != 1 || sent[0] != want {
		t.Errorf("sent %q, want %q", sent, want)
	}
	f.WantEvents(t)
	adopted := controllertest.MustStored[*appsv1.ControllerRevision](t, f.Env, "ns", "a")
	if !metav1.IsControlledBy(adopted, newSet(1)) || !apiequality.Semantic.DeepEqual(adopted.Labels, orphan.Labels) ||
		string(adopted.Data.Raw) != string(orphan.Data.Raw) {
		t.Errorf("got %+v", adopted)
	}
	f.Refuse("patch controllerrevisions", errTest)
	if _, err := f.c.listRevisions(t.Context(), newSet(1), labels.SelectorFromSet(labels.Set{"app": "a"})); !errors.Is(err, errTest) {
		t.Errorf("got %v", err)
	}
}

// Pins STS-16.
func TestAdoptingRevisions(t *testing.T) {
	orphan := revisionAt(t, 1)
	orphan.OwnerReferences = nil
	other := renamed("other", revisionAt(t, 2, image("v2")))
	other.OwnerReferences = nil
	set := newSet(1)
	selector := labels.SelectorFromSet(labels.Set{"app": "a"})
	adopt := []string{"get statefulsets web", "patch controllerrevisions " + orphan.Name, "patch controllerrevisions other"}

	f := newFixture(t, set, orphan, other)
	f.Store(t, orphan.DeepCopy(), other.DeepCopy())
	got, err := f.c.listRevisions(t.Context(), set, selector)
	if err != nil || len(got) != 2 || len(got[0].OwnerReferences) != 1 || got[0].OwnerReferences[0].UID != "o" {
		t.Errorf("got %v, %v", got, err)
	}
	f.WantRequestsInAnyOrder(t, adopt...)
	if err := f.Reconcile(); !reconcile.IsExpected(err) {
		t.Errorf("STS-3: the cache does not show the adopted ones yet: %v", err)
	}
	f.WantRequests(t)

	f = newFixture(t, set, orphan)
	f.Refuse("get statefulsets", errTest)
	if _, err := f.c.listRevisions(t.Context(), set, selector); err == nil || reconcile.IsExpected(err) || err.Error() != "can't adopt ControllerRevisions: can't recheck DeletionTimestamp: no" {
		t.Errorf("got %v", err)
	}

	deleted := newSet(1)
	deleted.DeletionTimestamp = podAt(set, "r", 0, terminating).DeletionTimestamp
	deleted.Finalizers = []string{"orphan"}
	f = newFixture(t, deleted, orphan)
	if _, err := f.c.listRevisions(t.Context(), deleted, selector); !reconcile.IsExpected(err) || !strings.HasPrefix(err.Error(), "can't adopt ControllerRevisions: ns/web has just been deleted") {
		t.Errorf("got %v", err)
	}

	f = newFixture(t, set, orphan)
	f.Refuse("patch controllerrevisions", apierrors.NewNotFound(appsv1.Resource("controllerrevisions"), orphan.Name))
	if _, err := f.c.listRevisions(t.Context(), set, selector); !apierrors.IsNotFound(err) {
		t.Errorf("got %v", err)
	}
}

// Pins STS-59.
func TestATemplateIsEncodedOncePerGenerationAndRevision(t *testing.T) {
	revision := revisionAt(t, 1)
	generation := func(n int64) func(*appsv1.StatefulSet) { return func(set *appsv1.StatefulSet) { set.Generation = n } }
	// What is known of a generation and a revision is not looked at again, so another template would go unnoticed.
	for name, test := range map[string]struct {
		change  func(*appsv1.StatefulSet)
		version string
		known   bool
	}{
		"the same":         {generation(1), "30", true},
		"a new generation": {generation(2), "30", false},
		"a new revision":   {generation(1), "31", false},
		"another set":      {func(set *appsv1.StatefulSet) { set.UID = "other" }, "30", false},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, newSet(1), revision)
			must.Get(f.c.currentRevisions(t.Context(), newSet(1), []*appsv1.ControllerRevision{revision}))(t)
			later := revision.DeepCopy()
			later.ResourceVersion = test.version
			got := must.Get(f.c.currentRevisions(t.Context(), newSet(1, image("v2"), test.change), []*appsv1.ControllerRevision{later}))(t)
			if known := got.update == later; known != test.known {
				t.Errorf("the update revision is %s", got.update.Name)
			}
		})
	}
	// One revision is decoded once.
	b := newBuilder(newSet(1, partition(1)), revisions{current: revision, update: revision}, false)
	b.atCurrent = func() (*appsv1.StatefulSet, error) { return nil, errTest }
	if pod, err := b.pod(0); err != nil || revisionOf(pod) != revision.Name {
		t.Errorf("got %v, %v", pod, err)
	}
}

// In a cluster that was restored from a backup a set gets a generation twice, with another
// template.
func TestEqualitiesAreFoundAgain(t *testing.T) {
	clk := clocktesting.NewFakePassiveClock(time.Unix(1000, 0))
	e := newEqualities(clk)
	set, revision := newSet(1), &appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{ResourceVersion: "7"}}
	e.remember(set, revision, equivalent)
	if e.of(set, revision) != equivalent {
		t.Error("it is not remembered")
	}
	clk.SetTime(clk.Now().Add(equalityTime + 1))
	if e.of(set, revision) != 0 {
		t.Error("it is remembered for ever")
	}
}
