package resourcequota

import (
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"

	"kcmd.dev/pkg/controllers/kit/index"
	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/pkg/controllers/kit/watch"
)

// watchQuotas queues quotas that are new, or have other limits or scopes. Writes of statuses, including
// those of the API server, which charges what it admits, queue nothing.
func (c *quotaController) watchQuotas(informer cache.SharedIndexInformer) {
	watch.ObjectsEvery(informer, 0, watch.Funcs[*corev1.ResourceQuota]{
		Add: c.classify,
		Update: func(lane reconcile.Lane, old, new *corev1.ResourceQuota) {
			rescoped := !equality.Semantic.DeepEqual(old.Spec.ScopeSelector, new.Spec.ScopeSelector)
			if rescoped { // the usage may look right until the cache has all objects that count now
				c.recounts.Store(reconcile.KeyOf(new), c.Clock.Now().Add(recountAfter))
			}
			if rescoped || old.UID != new.UID || !same(old.Spec.Hard, new.Spec.Hard) {
				c.classify(lane, new)
			}
		},
		Delete: func(quota *corev1.ResourceQuota) { c.primary.Add(reconcile.KeyOf(quota)) },
	})
}

// classify queues a quota. One that lacks usage which can be computed admits nothing until it is
// reconciled, so it has workers of its own.
func (c *quotaController) classify(lane reconcile.Lane, quota *corev1.ResourceQuota) {
	if lacksUsage(quota, c.evaluators.know) {
		c.priority.Enqueue(lane, reconcile.KeyOf(quota))
		return
	}
	c.primary.Enqueue(lane, reconcile.KeyOf(quota))
}

// lacksUsage reports whether the status of a quota is not of its present limits, or has no usage
// of one that is known.
func lacksUsage(quota *corev1.ResourceQuota, known func(corev1.ResourceName) bool) bool {
	if !same(quota.Spec.Hard, quota.Status.Hard) {
		return true
	}
	for name := range quota.Status.Hard {
		if _, ok := quota.Status.Used[name]; !ok && known(name) {
			return true
		}
	}
	return false
}

// follow adds a handler to an informer whose objects are accounted for. refresh computes the entry of
// an object again, and returns false if nobody counts it.
func follow[T metav1.Object](
	informer cache.SharedIndexInformer,
	refresh func(T) bool, releases func(old, new T) bool, released func(namespace string),
) (cache.ResourceEventHandlerRegistration, error) {
	return informer.AddEventHandlerWithResyncPeriod(watch.Handler(watch.Funcs[T]{
		// Admission has charged it.
		Add: func(_ reconcile.Lane, object T) { refresh(object) },
		Update: func(_ reconcile.Lane, old, new T) {
			recreated := old.GetUID() != new.GetUID()
			if recreated {
				refresh(old)
			}
			if refresh(new) && (recreated || releases(old, new)) {
				released(new.GetNamespace())
			}
		},
		Delete: func(object T) {
			if refresh(object) {
				released(object.GetNamespace())
			}
		},
	}), 0)
}

// watchObjects watches the resources that every API server serves and of which more is limited
// than their number.
func (c *quotaController) watchObjects() error {
	core := c.Informers.Core().V1()
	registration, err := follow(core.Pods().Informer(),
		func(pod *corev1.Pod) bool {
			c.claims.podChanged(pod.Namespace, podKey(pod.Namespace, pod.UID))
			return c.pods.changed(pod.Namespace, pod.Name)
		},
		func(old, new *corev1.Pod) bool { return releasesPod(old, new, c.Clock.Now()) },
		func(namespace string) { c.released(pods.GroupResource(), namespace) })
	if err != nil {
		return err
	}
	c.pods.readFrom(source{core.Pods().Informer().GetIndexer(), registration.HasSynced})

	registration, err = follow(core.Services().Informer(),
		func(service *corev1.Service) bool { return c.services.changed(service.Namespace, service.Name) },
		releasesService,
		func(namespace string) { c.released(services.GroupResource(), namespace) })
	if err != nil {
		return err
	}
	c.services.readFrom(source{core.Services().Informer().GetIndexer(), registration.HasSynced})

	registration, err = follow(core.PersistentVolumeClaims().Informer(),
		func(claim *corev1.PersistentVolumeClaim) bool {
			return c.volumeClaims.changed(claim.Namespace, claim.Name)
		},
		func(old, new *corev1.PersistentVolumeClaim) bool { return releasesVolumeClaim(old, new, c.features) },
		func(namespace string) { c.released(volumeClaims.GroupResource(), namespace) })
	if err != nil {
		return err
	}
	c.volumeClaims.readFrom(source{core.PersistentVolumeClaims().Informer().GetIndexer(), registration.HasSynced})
	return nil
}

// watchClaims watches ResourceClaims and what their usage depends on.
func (c *quotaController) watchClaims() (*monitor, error) {
	informers := c.Informers.Resource().V1()
	m := &monitor{resource: claims, end: func() {
		c.classes.forget()
		c.claims.readFrom(source{})
	}}
	if c.extendedResources {
		classes := informers.DeviceClasses().Informer()
		c.classes.readFrom(classes)
		if err := m.add(classes, watch.Handler(watch.Funcs[*resourcev1.DeviceClass]{
			AddOrUpdate: func(reconcile.Lane, *resourcev1.DeviceClass) { c.claims.refreshAll() },
			Delete:      func(*resourcev1.DeviceClass) { c.claims.refreshAll() },
		})); err != nil {
			c.monitors.release(m)
			return nil, err
		}
	}
	informer := informers.ResourceClaims().Informer()
	index.Ensure(informer, claimsByPod, claimsByPodKeys)
	released := func(namespace string) { c.released(claims.GroupResource(), namespace) }
	if err := m.add(informer, watch.Handler(watch.Funcs[*resourcev1.ResourceClaim]{
		Add: func(_ reconcile.Lane, claim *resourcev1.ResourceClaim) { c.claims.claimChanged(claim) },
		Update: func(_ reconcile.Lane, old, new *resourcev1.ResourceClaim) {
			c.claims.claimChanged(old) // it may have been made for another pod
			if c.claims.claimChanged(new) && old.UID != new.UID {
				released(new.Namespace)
			}
		},
		Delete: func(claim *resourcev1.ResourceClaim) {
			if c.claims.claimChanged(claim) {
				released(claim.Namespace)
			}
		},
	})); err != nil {
		c.monitors.release(m)
		return nil, err
	}
	c.claims.readFrom(source{informer.GetIndexer(), func() bool { return m.complete() && c.pods.isComplete() }})
	return m, nil
}

// change is what queues quotas: objects of a resource have gone from a namespace, or use less.
type change struct {
	resource  schema.GroupResource
	namespace string
}

// String is how a change is shown in the status.
func (c change) String() string { return c.namespace + " " + c.resource.String() }

// released queues a change, unless there is no quota that it could concern.
func (c *quotaController) released(resource schema.GroupResource, namespace string) {
	if len(c.quotasOf(namespace)) > 0 {
		c.changes.Add(change{resource, namespace})
	}
}
