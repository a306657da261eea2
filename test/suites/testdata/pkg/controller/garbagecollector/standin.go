// Package garbagecollector stands in for upstream's, see kcmd.dev/test/suites.
package garbagecollector

import (
	"context"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"kcmd.dev/test/suites/launch"
)

// GarbageCollector looks for new resources by itself.
type GarbageCollector struct{ *launch.Controller }

func NewGarbageCollector(_ context.Context, args ...any) (*GarbageCollector, error) {
	return &GarbageCollector{launch.New(args, "garbage-collector-controller")}, nil
}

func DefaultIgnoredResources() map[schema.GroupResource]struct{} { return nil }

// GraphHasUID reads the graph that the manager shows.
func (c *GarbageCollector) GraphHasUID(uid types.UID) bool {
	graph, ok := c.Debug("garbage-collector-controller/graph?uid=" + string(uid))
	return ok && strings.Contains(graph, string(uid))
}

// IsSynced cannot be known from outside.
func (*GarbageCollector) IsSynced(...any) bool { return true }

func (*GarbageCollector) Sync(ctx context.Context, _ ...any) { <-ctx.Done() }
