package legacytokencleaner

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/tools/cache"

	"kcmd.dev/pkg/controller"
)

// listTimeout bounds the wait for the pods of a namespace.
const listTimeout = time.Minute

// usage knows which Secrets pods refer to. It is used for one pass.
type usage struct {
	*cleaner
	cached, live map[string]answer // by namespace
}

// answer is what the list of the pods of a namespace led to. A failure is remembered too: each
// further Secret of the namespace would wait for the next one.
type answer struct {
	secrets sets.Set[string]
	err     error
}

func newUsage(c *cleaner) *usage {
	return &usage{cleaner: c, cached: map[string]answer{}, live: map[string]answer{}}
}

// refersTo reports whether a pod refers to a Secret. The cache proves that one does; that none
// does takes a live list.
func (u *usage) refersTo(ctx context.Context, namespace, name string) (bool, error) {
	cached, err := remembered(u.cached, namespace, u.cachedPods)
	if err != nil || cached.Has(name) {
		return true, err
	}
	live, err := remembered(u.live, namespace, func(namespace string) ([]*corev1.Pod, error) { return u.livePods(ctx, namespace) })
	return live.Has(name), err
}

func remembered(answers map[string]answer, namespace string, list func(string) ([]*corev1.Pod, error)) (sets.Set[string], error) {
	if known, ok := answers[namespace]; ok {
		return known.secrets, known.err
	}
	pods, err := list(namespace)
	if err != nil {
		err = fmt.Errorf("listing the pods of namespace %s: %w", namespace, err)
	}
	answers[namespace] = answer{secrets: secretsOf(pods), err: err}
	return answers[namespace].secrets, err
}

func (u *usage) cachedPods(namespace string) ([]*corev1.Pod, error) {
	return u.pods.Pods(namespace).List(labels.Everything())
}

// livePods lists the pods of a namespace through an informer of its own, whose first read is
// consistent. The role of this controller does not permit reading pods; that of the process,
// which fills the caches, does.
func (u *usage) livePods(ctx context.Context, namespace string) ([]*corev1.Pod, error) {
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	view := u.Informers.Filtered(controller.Filter{Namespace: namespace})
	pods := view.Core().V1().Pods()
	informer := pods.Informer()
	defer u.Informers.Release(informer)
	view.StartWithContext(ctx)
	if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
		return nil, errors.Join(errors.New("the API server did not answer"), context.Cause(ctx))
	}
	return pods.Lister().Pods(namespace).List(labels.Everything())
}
