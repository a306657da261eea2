// Package ttl tells kubelets how long they may cache Secrets and ConfigMaps: the more nodes
// there are, the longer, so that their reads do not overload the API server.
//
// The model, in rules:
//
//  1. Every node has an annotation with a number of seconds, which depends on the number of
//     nodes. Each number of seconds belongs to an interval of cluster sizes. Intervals overlap,
//     so that a cluster whose size varies a little does not have all its nodes rewritten.
//  2. Nodes are counted as they come and go. A node that comes may move the cluster to the next
//     interval, one that goes to the previous one.
//  3. An instance begins when every node has been counted, with the interval that contains the
//     size. If two do, it is the one that more nodes show: a restart rewrites nothing.
//  4. A node is patched when its annotation is wrong. Whether it is, is decided at each event of
//     the node: when the interval changes, nodes follow as their kubelets report.
//
// Behaviour: docs/specs/ttl-controller.md.
package ttl

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	corelisters "k8s.io/client-go/listers/core/v1"

	"kcmd.dev/pkg/controller"
	"kcmd.dev/pkg/controllers/kit/reconcile"
)

// Descriptor describes ttl-controller.
func Descriptor() controller.Descriptor {
	return controller.DescribeFixed(controller.Descriptor{
		Name:           "ttl-controller",
		Aliases:        []string{"ttl"},
		ServiceAccount: "ttl-controller",
		ClusterScoped:  true,
		Requires:       []schema.GroupVersionResource{corev1.SchemeGroupVersion.WithResource("nodes")},
	}, newController)
}

// workers is the number of nodes that are patched concurrently.
const workers = 5

type ttlController struct {
	controller.Env
	nodes corelisters.NodeLister
	size  size
	loop  *reconcile.Loop[string]
	queue reconcile.Queue[string] // the loop, except in tests
}

func newController(env controller.Env) (*ttlController, error) {
	nodes := env.Informers.Core().V1().Nodes()
	c := &ttlController{Env: env, nodes: nodes.Lister()}
	c.loop = reconcile.New(env, reconcile.Options[string]{Queue: "ttlcontroller", Workers: workers}, c.reconcile)
	c.queue = c.loop
	c.watch(nodes.Informer())
	return c, nil
}

// Run implements controller.Controller.
func (c *ttlController) Run(ctx context.Context) error {
	return reconcile.Run(ctx, c.Env, c.begin, c.loop.Run)
}

// begin chooses the first interval. The handlers have counted all nodes by now.
func (c *ttlController) begin(context.Context) error {
	nodes, err := c.nodes.List(labels.Everything())
	if err != nil {
		return err
	}
	c.size.begin(shownBy(nodes))
	return nil
}
