package garbagecollector

import (
	"errors"
	"fmt"
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/controllers/kit/customresources"
)

// mapper knows what was served when it was last reset, or did not know a kind.
type mapper struct {
	meta.RESTMapper
	m     *model
	known []*monitored
}

func (m *mapper) Reset() { m.known = m.m.all() }

func (m *mapper) find(fits func(*monitored) bool) (*monitored, error) {
	for range 2 {
		if i := slices.IndexFunc(m.known, fits); i >= 0 {
			return m.known[i], nil
		}
		m.Reset()
	}
	return nil, errors.New("no match")
}

func (m *mapper) RESTMapping(kind schema.GroupKind, versions ...string) (*meta.RESTMapping, error) {
	found, err := m.find(func(k *monitored) bool {
		return k.apiVersion == kind.WithVersion(versions[0]).GroupVersion().String() && k.kind == kind.Kind
	})
	if err != nil {
		return nil, err
	}
	mapping := &meta.RESTMapping{Resource: found.resource, Scope: meta.RESTScopeNamespace}
	if found.kind == nodes.kind {
		mapping.Scope = meta.RESTScopeRoot
	}
	return mapping, nil
}

func (m *mapper) ResourceFor(resource schema.GroupVersionResource) (schema.GroupVersionResource, error) {
	found, err := m.find(func(k *monitored) bool {
		return k.resource.GroupResource() == resource.GroupResource() &&
			(resource.Version == "" || resource.Version == k.resource.Version)
	})
	if err != nil {
		return schema.GroupVersionResource{}, err
	}
	return found.resource, nil
}

// all returns what is served, the preferred version first.
func (m *model) all() []*monitored {
	versions := []*monitored{jobs, laterJobs}
	if m.preferLater {
		slices.Reverse(versions)
	}
	all := append(slices.Clone(allKinds[:3]), versions...)
	return slices.DeleteFunc(all, func(k *monitored) bool { return !m.metadata.IsServed(k.resource) })
}

// discover sets the next answer of discovery, which may lack a group.
func (m *model) discover() {
	core, batch := served("v1", "ConfigMap", "Secret", "Node"), (*metav1.APIResourceList)(nil)
	if all := m.all(); len(all) > 3 {
		batch = served(all[3].apiVersion, "Job")
	}
	failed := map[schema.GroupVersion]error{}
	if m.Faulty && m.OneIn(5) {
		failed[laterJobs.resource.GroupVersion()] = errors.New("down")
		failed[jobs.resource.GroupVersion()] = errors.New("down")
	}
	switch {
	case m.Faulty && m.OneIn(10):
		m.served.set(errors.New("down"))
	case len(failed) > 0:
		m.served.set(&discovery.ErrGroupDiscoveryFailed{Groups: failed}, core)
	case batch == nil:
		m.served.set(nil, core)
	default:
		m.served.set(nil, core, batch)
	}
}

// refs are random references of an object in a namespace.
func (m *model) refs(namespace string) []metav1.OwnerReference {
	var refs []metav1.OwnerReference
	for range m.Rand.IntN(3) {
		kind := allKinds[m.Rand.IntN(len(allKinds))]
		ref := metav1.OwnerReference{APIVersion: kind.apiVersion, Kind: kind.kind, UID: "none", Name: "none"}
		if all := m.metadata.Of(kind.resource); len(all) > 0 && !m.OneIn(10) {
			o := all[m.Rand.IntN(len(all))]
			isIn := o.GetNamespace() == "" || o.GetNamespace() == namespace
			if o.GetDeletionTimestamp() != nil || !isIn && !m.OneIn(10) {
				continue
			}
			ref.Name, ref.UID = o.GetName(), o.GetUID()
		}
		if namespace != "" && m.OneIn(15) {
			ref.Kind = allKinds[m.Rand.IntN(2)].kind
			ref.APIVersion = "v1"
		}
		if ref.Kind == jobs.kind && m.OneIn(3) {
			ref.APIVersion = laterJobs.apiVersion
		}
		if m.OneIn(2) {
			ref.BlockOwnerDeletion = ptr.To(true)
		}
		if namespace == "" && ref.Kind != nodes.kind {
			return []metav1.OwnerReference{ref} // it is kept, and would hold other owners
		}
		if !hasReference(refs, ref) { // the API server removes a reference that is there twice
			refs = append(refs, ref)
		}
	}
	return refs
}

func (m *model) create() {
	kind := allKinds[m.Rand.IntN(len(allKinds))]
	namespace := []string{"a", "a", "b"}[m.Rand.IntN(3)]
	if kind == nodes {
		namespace = ""
	}
	name := fmt.Sprint("n", m.Rand.IntN(4))
	isThere := slices.ContainsFunc(m.metadata.Of(kind.resource), func(o metav1.Object) bool {
		return o.GetNamespace() == namespace && o.GetName() == name
	})
	if isThere || kind == jobs && (m.terminating || len(m.all()) == 3) {
		return
	}
	o := metav1.ObjectMeta{Namespace: namespace, Name: name, OwnerReferences: m.refs(namespace)}
	if m.OneIn(4) {
		o.Finalizers = []string{"x"}
	}
	m.Create(map[*monitored]runtime.Object{
		configMaps: &corev1.ConfigMap{ObjectMeta: o}, secrets: &corev1.Secret{ObjectMeta: o},
		nodes: &corev1.Node{ObjectMeta: o}, jobs: &batchv1.Job{ObjectMeta: o},
	}[kind])
}

// user does something. Objects of kinds that are not served cannot be changed.
func (m *model) user() {
	kind := allKinds[m.Rand.IntN(len(allKinds))]
	all := m.metadata.Of(kind.resource)
	if len(all) == 0 || m.OneIn(3) {
		m.create()
		return
	}
	if m.OneIn(8) {
		m.define()
		return
	}
	if kind == jobs && len(m.all()) == 3 {
		return
	}
	o := all[m.Rand.IntN(len(all))]
	if m.OneIn(2) {
		options := metav1.DeleteOptions{}
		if i := m.Rand.IntN(4); i < 3 {
			options.PropagationPolicy = ptr.To([]metav1.DeletionPropagation{
				metav1.DeletePropagationBackground, metav1.DeletePropagationForeground, metav1.DeletePropagationOrphan,
			}[i])
		}
		m.note(o.GetUID(), options.PropagationPolicy)
		_ = m.DeleteWith(kind.resource, o, options)
		return
	}
	m.Note("user changes %s %s", o.GetName(), o.GetUID())
	m.metadata.Change(kind.resource, o, func(o metav1.Object) {
		switch m.Rand.IntN(3) {
		case 0:
			o.SetLabels(map[string]string{"at": m.Clock.Now().Format("150405.000")})
		case 1:
			o.SetOwnerReferences(m.refs(o.GetNamespace()))
		default:
			refs := o.GetOwnerReferences()
			for i := range refs {
				refs[i].BlockOwnerDeletion = ptr.To(m.OneIn(2))
			}
			o.SetOwnerReferences(refs)
		}
	})
}

// define has the definition of Jobs changed: what is served, or what is preferred.
func (m *model) define() {
	isServed := len(m.all()) > 3
	switch m.Rand.IntN(4) {
	case 0:
		m.terminating = m.defined && isServed
	case 1:
		m.preferLater = !m.preferLater
	default:
		if m.terminating {
			return
		}
		if !isServed && !m.defined {
			m.forgetJobs()
		}
		m.metadata.Serve(jobs.resource, m.OneIn(2))
		m.metadata.Serve(laterJobs.resource, m.OneIn(2))
	}
}

// forgetJobs has nothing expected of what the collector knew of Jobs: they may have been gone for long.
func (m *model) forgetJobs() {
	for _, o := range m.metadata.Of(jobs.resource) {
		delete(m.shown, o.GetUID())
		delete(m.before, o.GetUID())
	}
}

// others complete deletions that are held by finalizers, and that of the definition.
func (m *model) others() (did bool) {
	for _, kind := range allKinds {
		for _, o := range m.metadata.Of(kind.resource) {
			isHeld := o.GetDeletionTimestamp() != nil && slices.Contains(o.GetFinalizers(), "x")
			isServed := kind != jobs || len(m.all()) > 3
			if isHeld && isServed && (m.isOver || m.OneIn(3)) {
				m.metadata.Change(kind.resource, o, func(o metav1.Object) {
					o.SetFinalizers(slices.DeleteFunc(slices.Clone(o.GetFinalizers()), func(f string) bool { return f == "x" }))
				})
				did = true
			}
		}
	}
	switch all := m.metadata.Of(jobs.resource); {
	case m.terminating && len(all) == 0:
		m.terminating, m.defined, did = false, false, true
		m.metadata.Serve(jobs.resource, false)
		m.metadata.Serve(laterJobs.resource, false)
		m.metadata.Define(customresources.Definitions, "jobs.batch", false)
	case m.terminating && m.isOver && len(m.all()) < 5: // an owner of a version that is not served cannot be found
		did = true
		m.metadata.Serve(jobs.resource, true)
		m.metadata.Serve(laterJobs.resource, true)
	case m.terminating:
		for _, o := range all {
			if o.GetDeletionTimestamp() == nil {
				_ = m.DeleteWith(jobs.resource, o, metav1.DeleteOptions{})
				did = true
			}
		}
	case m.isOver && len(m.all()) < 5 || !m.defined && len(all) == 0 && len(m.all()) == 3 && m.OneIn(5):
		m.forgetJobs()
		m.defined, did = true, true
		m.metadata.Define(customresources.Definitions, "jobs.batch", true)
		m.metadata.Serve(jobs.resource, true)
		m.metadata.Serve(laterJobs.resource, true)
	}
	return did
}

// meanwhile is what happens while the collector waits for an answer.
func (m *model) meanwhile(action clienttesting.Action) {
	if m.isOver {
		return
	}
	if d, isDelete := action.(clienttesting.DeleteAction); isDelete {
		// An owner that is added just before an object is deleted whatever its version does not save it, see GC-53.
		if d.GetDeleteOptions().Preconditions.ResourceVersion != nil && m.OneIn(5) {
			m.disown(d)
		}
		return
	}
	switch m.Rand.IntN(20) {
	case 0:
		m.user()
	case 1, 2, 3:
		m.Event()
	case 4, 5, 6:
		m.changes.Work()
	}
}

// disown has a user change the owners of an object that the collector is about to delete.
func (m *model) disown(d clienttesting.DeleteAction) {
	for _, o := range m.metadata.Of(d.GetResource()) {
		if o.GetName() == d.GetName() && o.GetNamespace() == d.GetNamespace() && m.metadata.IsServed(d.GetResource()) {
			m.Note("user changes the owners of %s %s", o.GetName(), o.GetUID())
			m.metadata.Change(d.GetResource(), o, func(o metav1.Object) { o.SetOwnerReferences(m.refs(o.GetNamespace())) })
			return
		}
	}
}
