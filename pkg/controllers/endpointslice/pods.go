package endpointslice

import (
	"context"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/endpointslice/util"
)

// podChange is what a notification of a pod tells about the Services it concerns. It is
// the projection of k8s.io/endpointslice in a form that can be compared, so that equal
// changes, as of the pods of one Deployment, are mapped to Services once.
type podChange struct {
	namespace string
	labels    string // in the form of labels.Set.String
	// relabelled pods had oldLabels before.
	relabelled bool
	oldLabels  string
	// podChanged says of a relabelled pod that something else changed too, which concerns
	// also the Services that select it before and after.
	podChanged bool
}

func (p podChange) String() string { return p.namespace + "/{" + p.labels + "}" }

func changeOf(p *util.PodProjectionKey) podChange {
	change := podChange{namespace: p.Namespace, labels: p.Labels.String(), podChanged: p.PodChanged}
	// Labels before are nil also for a relabelled pod that had none. Without them it could
	// only be selected by empty selectors, which select it still.
	if p.OldLabels != nil {
		change.relabelled, change.oldLabels = true, p.OldLabels.String()
	}
	return change
}

// reconcilePodChange queues the Services that a change of a pod concerns.
func (c *endpointSliceController) reconcilePodChange(_ context.Context, change podChange) error {
	concerned, err := c.concerned(change)
	if err != nil {
		return fmt.Errorf("finding the Services of pod %s: %w", change, err)
	}
	for key := range concerned {
		c.serviceLoop.AddAfter(key, c.config.batchPeriod)
	}
	return nil
}

func (c *endpointSliceController) concerned(change podChange) (sets.Set[string], error) {
	now, err := c.servicesSelecting(change.namespace, change.labels)
	if err != nil || !change.relabelled {
		return now, err
	}
	before, err := c.servicesSelecting(change.namespace, change.oldLabels)
	if err != nil {
		return nil, err
	}
	if change.podChanged {
		return now.Union(before), nil
	}
	return now.SymmetricDifference(before), nil
}

func (c *endpointSliceController) servicesSelecting(namespace, podLabels string) (sets.Set[string], error) {
	services, err := c.selecting.Selecting(namespace, parseLabels(podLabels))
	if err != nil {
		return nil, err
	}
	keys := sets.New[string]()
	for _, service := range services {
		keys.Insert(service.Namespace + "/" + service.Name)
	}
	return keys, nil
}

// parseLabels reads what labels.Set.String wrote. Neither keys nor values of labels can
// hold a comma or an equals sign.
func parseLabels(s string) labels.Set {
	set := labels.Set{}
	if s == "" {
		return set
	}
	for pair := range strings.SplitSeq(s, ",") {
		key, value, _ := strings.Cut(pair, "=")
		set[key] = value
	}
	return set
}
