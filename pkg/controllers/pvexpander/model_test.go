package pvexpander

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"kcmd.dev/pkg/controller"
	"kcmd.dev/test/must"
	"kcmd.dev/test/simulation"
)

// model is a world with claims, each of which is bound to the volume of its name, kubelets and external resizers.
type model struct {
	*simulation.World
	t *testing.T
}

func (m *model) claim(name string) (*corev1.PersistentVolumeClaim, bool) {
	return simulation.Get[*corev1.PersistentVolumeClaim](m.World, namespace, name)
}

func (m *model) volume(name string) (*corev1.PersistentVolume, bool) {
	return simulation.Get[*corev1.PersistentVolume](m.World, "", name)
}

func (m *model) changeClaim(c *corev1.PersistentVolumeClaim, change claimChange) {
	simulation.Change(m.World, c, change)
}

func gigabytes(n int) resource.Quantity { return resource.MustParse(fmt.Sprint(n, "Gi")) }

func inGigabytes(q resource.Quantity) int { return int(q.Value() >> 30) }

func inProgress(c *corev1.PersistentVolumeClaim) corev1.ClaimResourceStatus {
	return c.Status.AllocatedResourceStatuses[corev1.ResourceStorage]
}

// validate checks what the controller changes.
func (m *model) validate(old, new runtime.Object) error {
	if was, ok := old.(*corev1.PersistentVolume); ok {
		return validateVolume(was, new.(*corev1.PersistentVolume))
	}
	was, is := old.(*corev1.PersistentVolumeClaim), new.(*corev1.PersistentVolumeClaim)
	v, _ := m.volume(was.Spec.VolumeName)
	changesStatus := !apiequality.Semantic.DeepEqual(was.Status, is.Status)
	switch {
	case !apiequality.Semantic.DeepEqual(was.Spec, is.Spec):
		return errors.New("only the status may be changed")
	case v == nil || !isBoundTo(v, was): // released meanwhile
		return nil
	case v.Spec.FlexVolume == nil && changesStatus, v.Spec.CSI != nil:
		return errors.New("an external resizer expands the claim")
	case grew(capacityOf(is), capacityOf(was)):
		return errors.New("the capacity shrinks")
	case grew(capacityOf(was), capacityOf(is)) && (!isBlock(v) || grew(sizeOf(v), capacityOf(is))):
		return errors.New("the claim has more than its volume")
	}
	return nil
}

func validateVolume(was, is *corev1.PersistentVolume) error {
	switch {
	case was.Spec.FlexVolume == nil:
		return errors.New("an external resizer expands the volume")
	case grew(sizeOf(is), sizeOf(was)):
		return fmt.Errorf("%s shrinks", is.Name)
	}
	return nil
}

func (m *model) newClaim(name string) {
	m.Create(&corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       corev1.PersistentVolumeClaimSpec{Resources: corev1.VolumeResourceRequirements{Requests: withSize(nil, gigabytes(1+m.Rand.IntN(4)))}},
		Status:     corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimPending},
	})
}

func (m *model) newVolume(name string, size resource.Quantity) {
	v := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name}}
	v.Spec.Capacity = withSize(nil, size)
	switch m.Rand.IntN(4) {
	case 0:
		v.Spec.CSI = &corev1.CSIPersistentVolumeSource{Driver: "example.com"}
	case 1:
		ebs(v)
	case 2:
		flex(v)
	case 3:
		flex(v)
		block(v)
	}
	m.Create(v)
}

// bind is the binder and the administrator, who has released volumes reused or deleted.
func (m *model) bind(name string) bool {
	c, hasClaim := m.claim(name)
	v, hasVolume := m.volume(name)
	switch {
	case !hasClaim && !hasVolume, hasClaim && hasVolume && isBoundTo(v, c) && c.Status.Phase == corev1.ClaimBound:
		return false
	case !hasVolume:
		if c.Spec.VolumeName != "" {
			return false // lost
		}
		m.newVolume(name, requested(c))
	case v.Spec.ClaimRef != nil && (!hasClaim || !isBoundTo(v, c)):
		if m.OneIn(2) {
			m.Delete(v, nil)
		} else {
			simulation.Change(m.World, v, func(v *corev1.PersistentVolume) { v.Spec.ClaimRef = nil })
		}
	case !hasClaim || c.Spec.VolumeName != "":
		return false
	case grew(sizeOf(v), requested(c)):
		m.Delete(v, nil)
	case v.Spec.ClaimRef == nil:
		simulation.Change(m.World, v, func(v *corev1.PersistentVolume) {
			v.Spec.ClaimRef = &corev1.ObjectReference{Namespace: namespace, Name: name, UID: c.UID}
		})
	default:
		m.changeClaim(c, func(c *corev1.PersistentVolumeClaim) {
			has := sizeOf(v)
			if isMarked(v) {
				has = resource.MustParse(v.Annotations[oldSizeAnnotation])
			}
			c.Spec.VolumeName, c.Status.Phase, c.Status.Capacity = name, corev1.ClaimBound, withSize(nil, has)
		})
	}
	return true
}

// expand is the kubelet and external resizers.
func (m *model) expand(name string, all bool) bool {
	c, _ := m.claim(name)
	v, ok := m.volume(name)
	if c == nil || !ok || !isBoundTo(v, c) || c.Status.Phase != corev1.ClaimBound {
		return false
	}
	if v.Spec.FlexVolume == nil {
		if !mustGrow(c) || v.Spec.AWSElasticBlockStore != nil && c.Annotations[resizerAnnotation] != "ebs.csi.aws.com" {
			return false
		}
		simulation.Change(m.World, v, func(v *corev1.PersistentVolume) { v.Spec.Capacity = withSize(nil, requested(c)) })
		m.changeClaim(c, func(c *corev1.PersistentVolumeClaim) { c.Status.Capacity = withSize(nil, requested(c)) })
		return true
	}
	switch inProgress(c) {
	case corev1.PersistentVolumeClaimNodeResizePending:
		m.changeClaim(c, progress(corev1.PersistentVolumeClaimNodeResizeInProgress))
	case corev1.PersistentVolumeClaimNodeResizeInProgress:
		if !all && m.OneIn(4) {
			m.changeClaim(c, progress(corev1.PersistentVolumeClaimNodeResizeInfeasible))
		} else {
			m.changeClaim(c, func(c *corev1.PersistentVolumeClaim) { end(c, sizeOf(v)) })
		}
	case corev1.PersistentVolumeClaimNodeResizeInfeasible:
		if !all {
			return false
		}
		m.request(c, max(1, 1+inGigabytes(capacityOf(c))-inGigabytes(requested(c)))) // a volume that is reused may be larger
	default:
		return false
	}
	return true
}

// request changes what a claim requests, as far as users may.
func (m *model) request(c *corev1.PersistentVolumeClaim, change int) {
	request := requested(c)
	request.Add(gigabytes(change))
	if c.Status.Phase == corev1.ClaimBound && grew(capacityOf(c), request) {
		m.Note("%s requests %s", c.Name, request.String())
		m.changeClaim(c, requesting(request.String()))
	}
}

func (m *model) user() {
	name := fmt.Sprint("c", m.Rand.IntN(3))
	switch c, ok := m.claim(name); {
	case !ok:
		m.newClaim(name)
	case m.OneIn(5):
		m.Delete(c, nil)
	case m.OneIn(3):
		m.request(c, -1)
	default:
		m.request(c, 1+m.Rand.IntN(3))
	}
}

func (m *model) others(all bool) bool {
	did := false
	for i := range 3 {
		name := fmt.Sprint("c", i)
		if all || m.OneIn(2) {
			did = m.bind(name) || did
		}
		if all || m.OneIn(2) {
			did = m.expand(name, all) || did
		}
	}
	return did
}

// TestWhateverHappensClaimsHaveWhatTheyRequestInTheEnd has claims expanded, deleted and created again, volumes reused,
// requests fail and the controller restarted, while the caches are behind. Nothing shrinks.
func TestWhateverHappensClaimsHaveWhatTheyRequestInTheEnd(t *testing.T) {
	simulation.Run(t, 40, func(t *testing.T, w *simulation.World) { (&model{World: w, t: t}).run() })
}

func (m *model) run() {
	m.Start = func(env controller.Env, _ any) simulation.Instance {
		c := must.Get(newController(env))(m.t)
		queue := simulation.NewQueue(m.World, c.reconcile)
		queue.AnyOrder = true
		c.queue = queue
		return simulation.Instance{Runners: []simulation.Runner{queue}}
	}
	m.Validate = m.validate
	m.Hasty = []int{0, 3, 10}[m.Rand.IntN(3)]
	if m.OneIn(2) {
		m.Lossy = func(runtime.Object) bool { return m.OneIn(3) }
	}
	for i := range 3 {
		m.newClaim(fmt.Sprint("c", i))
	}
	m.MayComeLate = simulation.AnyWrite
	m.Begin()
	m.Play(func() {
		if m.OneIn(4) {
			m.user()
		} else {
			m.others(false)
		}
	}, m.user)
	m.Settle(10*time.Minute, func() bool { return m.others(true) })
	for _, c := range simulation.All[*corev1.PersistentVolumeClaim](m.World) {
		m.check(c)
	}
}

func (m *model) check(c *corev1.PersistentVolumeClaim) {
	v, ok := m.volume(c.Spec.VolumeName)
	if !ok || !isBoundTo(v, c) {
		return
	}
	switch {
	case mustGrow(c), grew(sizeOf(v), requested(c)), grew(capacityOf(c), sizeOf(v)):
		m.t.Errorf("%s requests %v and has %v of %v", c.Name, c.Spec.Resources.Requests, c.Status.Capacity, v.Spec.Capacity)
	case inProgress(c) != "" || slices.ContainsFunc(c.Status.Conditions, ofResize):
		m.t.Errorf("%s has been expanded, and says %+v", c.Name, c.Status)
	case isMarked(v):
		m.t.Errorf("%s has been expanded, and is marked", v.Name)
	}
}
