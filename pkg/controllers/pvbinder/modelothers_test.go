package pvbinder

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/reference"
	"k8s.io/component-helpers/storage/volume"
	"k8s.io/utils/ptr"

	"kcmd.dev/test/must"
	"kcmd.dev/test/simulation"
)

const (
	csiDriver       = "csi.example.com"
	claimProtection = "kubernetes.io/pvc-protection"
	pvProtection    = "kubernetes.io/pv-protection"
)

// others are the scheduler, the provisioner, and the protection of claims and volumes.
func (m *model) others(all bool) bool {
	did := false
	act := func(what, name string, do func()) {
		if all || m.OneIn(2) {
			m.Note("%s %s", what, name)
			do()
			did = true
		}
	}
	for _, c := range m.allClaims() {
		switch {
		case c.DeletionTimestamp != nil:
			act("unprotected", c.Name, func() {
				simulation.Change(m.World, c, func(c *pvc) { c.Finalizers = nil })
			})
		case c.Spec.VolumeName != "":
		case (isLate(c) || !all && m.OneIn(3)) && !volume.IsDelayBindingProvisioning(c):
			act("scheduled", c.Name, func() { m.schedule(c) })
		case c.Annotations[volume.AnnStorageProvisioner] == csiDriver:
			_, made := simulation.Get[*pv](m.World, "", volumeNameFor(c))
			if !made && !slices.ContainsFunc(m.asked, func(asked *pvc) bool { return asked.UID == c.UID }) {
				act("provisioning of", c.Name, func() { m.asked = append(m.asked, c) })
			}
		}
	}
	for _, v := range m.allVolumes() {
		switch {
		case v.DeletionTimestamp != nil && slices.Contains(v.Finalizers, pvProtection):
			if v.Status.Phase != corev1.VolumeBound {
				act("unprotected", v.Name, func() { m.unprotect(v, pvProtection) })
			}
		case v.Annotations[volume.AnnDynamicallyProvisioned] != csiDriver:
		case v.Status.Phase == corev1.VolumeReleased && isReclaimable(v, corev1.PersistentVolumeReclaimDelete):
			act("deprovisioned", v.Name, func() { m.deprovision(v) })
		}
	}
	for len(m.asked) > 0 && (all || m.OneIn(2)) {
		c := m.asked[0]
		m.asked = m.asked[1:]
		act("provisioned for", c.Name, func() { m.provision(c) })
	}
	return did
}

func (m *model) unprotect(v *pv, finalizer string) {
	simulation.Change(m.World, v, func(v *pv) { v.Finalizers, _ = without(v.Finalizers, finalizer) })
}

// refer has a volume refer to a claim, with its UID.
func (m *model) refer(v *pv, c *pvc) {
	v.Spec.ClaimRef = must.Get(reference.GetReference(scheme.Scheme, c))(m.t)
	byController(v)
	m.note(v)
}

func isLate(c *pvc) bool { return volume.GetPersistentVolumeClaimClass(c) == "late" }

// schedule has the scheduler choose a volume for a claim, or a node. An external binder chooses volumes as well.
func (m *model) schedule(c *pvc) {
	for _, v := range m.allVolumes() {
		if v.Status.Phase == corev1.VolumeAvailable && v.Spec.ClaimRef == nil && mismatch(c, v, true) == "" {
			simulation.Change(m.World, v, func(v *pv) { m.refer(v, c) })
			return
		}
	}
	if isLate(c) {
		simulation.Change(m.World, c, claimNoted(volume.AnnSelectedNode, "n"))
	}
}

func (m *model) provision(c *pvc) {
	if live := m.claimWith(c.UID); live != nil && m.Faulty && m.OneIn(4) {
		simulation.Change(m.World, live, func(c *pvc) { delete(c.Annotations, volume.AnnSelectedNode) })
		return
	}
	if _, ok := simulation.Get[*pv](m.World, "", volumeNameFor(c)); ok || m.claimWith(c.UID) == nil && !m.OneIn(4) {
		return
	}
	v := aVolume(volumeNameFor(c), provisionedBy(csiDriver), policy(corev1.PersistentVolumeReclaimDelete))
	v.UID, v.ResourceVersion, v.Spec.StorageClassName = "", "", volume.GetPersistentVolumeClaimClass(c)
	v.Finalizers = []string{pvProtection, volume.PVDeletionProtectionFinalizer}
	m.refer(v, c)
	m.Create(v)
}

// deprovision has the provisioner delete a volume with its storage.
func (m *model) deprovision(v *pv) {
	m.mustBeFree(v, "deprovisioned")
	m.destroyed[v.UID] = true
	if v.DeletionTimestamp == nil {
		m.Delete(v, nil)
		v, _ = simulation.Get[*pv](m.World, "", v.Name)
	}
	m.unprotect(v, volume.PVDeletionProtectionFinalizer)
}

func (m *model) class(name, provisioner string) {
	c := aClass(name, provisioner)
	if name == "late" {
		delayedBinding(c)
	}
	if m.OneIn(2) {
		markedDefault(c)
	}
	m.Create(c)
}

func (m *model) newClaim(name string) {
	n := m.Rand.IntN
	c := aClaim(claimClass([]*string{nil, ptr.To(""), ptr.To("gold"), ptr.To("fast"), ptr.To("late")}[n(5)]))
	c.Name, c.UID, c.ResourceVersion = name, "", ""
	if n(4) == 0 {
		requesting("5Gi")(c)
	}
	if n(4) == 0 {
		naming(fmt.Sprint("v", n(4)))(c)
	}
	if n(3) > 0 {
		c.Finalizers = []string{claimProtection}
	}
	c = m.Create(c).(*pvc)
	if c.Spec.VolumeName == "" && m.OneIn(2) { // so soon that the controller has not seen the claim
		c, _ = simulation.Get[*pvc](m.World, namespace, name)
		m.schedule(c)
	}
}

func (m *model) newVolume(name string) {
	n := m.Rand.IntN
	v := aVolume(name, volumeClass([]string{"", "gold", "late"}[n(3)]), policy(m.policy()))
	v.UID, v.ResourceVersion = "", ""
	if n(2) == 0 {
		onHostPath("/tmp/" + name)(v)
	}
	if n(4) == 0 {
		ofSize("1Gi")(v)
	}
	if n(4) == 0 {
		v.Spec.ClaimRef = &corev1.ObjectReference{Namespace: namespace, Name: fmt.Sprint("c", n(6))}
	}
	if n(4) > 0 {
		v.Finalizers = []string{pvProtection}
	}
	m.Create(v)
}

func (m *model) policy() corev1.PersistentVolumeReclaimPolicy {
	if m.OneIn(2) {
		return corev1.PersistentVolumeReclaimDelete
	}
	return corev1.PersistentVolumeReclaimRetain
}

func (m *model) users() {
	for range 1 + m.Rand.IntN(4) {
		m.user()
	}
}

func (m *model) user() {
	n := m.Rand.IntN
	switch n(7) {
	case 0, 1, 2:
		name := fmt.Sprint("c", n(6))
		c, there := simulation.Get[*pvc](m.World, namespace, name)
		if there && c.DeletionTimestamp == nil {
			m.Delete(c, nil)
			_, there = simulation.Get[*pvc](m.World, namespace, name)
		}
		if !there && n(3) > 0 {
			m.newClaim(name)
		}
	case 3, 4:
		name := fmt.Sprint("v", n(4))
		v, there := simulation.Get[*pv](m.World, "", name)
		if there && n(3) == 0 && v.DeletionTimestamp == nil {
			m.Delete(v, nil)
			_, there = simulation.Get[*pv](m.World, "", name)
		}
		if !there {
			m.newVolume(name)
		}
	case 5:
		if all := m.allVolumes(); len(all) > 0 {
			m.edit(all[n(len(all))])
		}
	case 6:
		name, provisioner := "fast", csiDriver
		if n(2) == 0 {
			name = "late"
		}
		if class, ok := simulation.Get[*storagev1.StorageClass](m.World, "", name); ok {
			m.Delete(class, nil)
		}
		m.class(name, provisioner)
	}
}

// edit has a user free a volume that was released, or change its policy.
func (m *model) edit(v *pv) {
	isKept := v.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimRetain
	if v.Status.Phase == corev1.VolumeReleased && isKept && uidIn(v) != "" && !m.destroyed[v.UID] {
		m.Note("user frees %s", v.Name)
		simulation.Change(m.World, v, func(v *pv) {
			if m.OneIn(2) {
				v.Spec.ClaimRef.UID = ""
			} else {
				v.Spec.ClaimRef = nil
			}
		})
		return
	}
	m.Note("user changes the policy of %s", v.Name)
	simulation.Change(m.World, v, policy(m.policy()))
}
