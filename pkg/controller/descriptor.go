package controller

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"kcmd.dev/pkg/config/gates"
	"kcmd.dev/pkg/config/v1beta1"
)

// Config is the configuration that values are taken from.
type Config = v1beta1.KubeControllerManagerConfiguration

// Descriptor holds the static facts of a controller.
type Descriptor struct {
	// Name is the canonical name, as in the configuration, /healthz and logs.
	Name string
	// Aliases are names that older releases used.
	Aliases []string
	// ServiceAccount in kube-system is the identity used with per-controller
	// credentials, and the suffix of the user agent otherwise. Empty means the
	// identity of the process, with ClientName as the suffix.
	ServiceAccount string
	// ClientName is the suffix of the user agent of a controller without a service account.
	ClientName string
	// EventSource is the source component of its events, empty if it has none.
	EventSource string
	// Requires lists the resources without which the controller waits to start. A value
	// can name more, see ResourceReader.
	Requires []schema.GroupVersionResource
	// Alternatives lists resources of which the controller needs one, such as the versions of
	// a kind, the best first. It waits while none is served; the first that is served is
	// Env.Chosen. When that changes the controller is restarted. It does not cache all
	// objects of theirs whole.
	Alternatives []schema.GroupVersionResource
	// Partial lists those of the required resources of which the controller does not cache
	// all objects whole: it filters them, reads their metadata, or does not watch them.
	Partial []schema.GroupVersionResource
	// Gate is the feature gate without which the controller does not run, if any.
	Gate string
	// Limits scales client-side rate limits; zero factors mean 1.
	Limits LimitFactors
	// ReadsServed marks a controller whose New asks for informers by Env.Served. On standby it
	// is built again when what is served has changed, so that its caches follow. A running one
	// is not restarted.
	ReadsServed bool
	// ClusterScoped marks a controller that writes no objects in namespaces but Events. It
	// cannot be paused in a namespace.
	ClusterScoped bool
	// DeletesInBulk marks a controller that a wrong view of the cluster could make delete a
	// large part of it. Its deletions are limited by deletionBreaker.
	DeletesInBulk bool
	// RunsWithoutLease marks a controller that every replica may run.
	RunsWithoutLease bool

	value func(*Config) any
	build func(Env, any) (Controller, error)
}

// LimitFactors multiply the client-side rate limits of a controller that makes many
// requests in bursts. Zero means 1.
type LimitFactors struct {
	QPS   float32
	Burst int
}

// FileReader is implemented by values that name files. A change in the content of one
// of them restarts the controller.
type FileReader interface {
	Files() []string
}

// FileFollower is implemented by values that name files which the controller reads again
// while it runs. A change in the content of one of them restarts nothing: Env.FilesChanged
// tells.
type FileFollower interface {
	FollowedFiles() []string
}

// ClusterCAReader is implemented by values with which a controller may read Env.ClusterCA.
// If ReadsClusterCA returns true, a change of it restarts the controller.
type ClusterCAReader interface {
	ReadsClusterCA() bool
}

// ResourceReader is implemented by values with which a controller needs further
// resources. It waits until they are served.
type ResourceReader interface {
	Resources() []schema.GroupVersionResource
}

// Describe completes a Descriptor with what depends on the configuration: value takes
// the part the controller reads out of a whole configuration and must be pure; build
// makes an instance from that part and nothing else. C is the pointer type of the
// controller; a nil C means that there is nothing to run. What build adds to informers is
// checked here: a handler or an index that was refused is an error of New.
func Describe[V comparable, C interface {
	comparable
	Controller
}](d Descriptor, value func(*Config) V, build func(Env, V) (C, error)) Descriptor {
	d.value = func(c *Config) any { return value(c) }
	d.build = func(env Env, v any) (Controller, error) {
		typed, ok := v.(V)
		if !ok {
			return nil, fmt.Errorf("building %s: value is a %T, not a %T", d.Name, v, typed)
		}
		c, err := build(env, typed)
		if err != nil {
			return nil, err
		}
		if none := *new(C); c == none {
			return nil, nil
		}
		if err := env.Informers.Err(); err != nil {
			return nil, fmt.Errorf("building %s: %w", d.Name, err)
		}
		return c, nil
	}
	return d
}

// DescribeFixed is Describe for a controller that reads nothing of the configuration.
func DescribeFixed[C interface {
	comparable
	Controller
}](d Descriptor, build func(Env) (C, error)) Descriptor {
	return Describe(d, func(*Config) struct{} { return struct{}{} }, func(env Env, _ struct{}) (C, error) { return build(env) })
}

// Value is the comparable part of the configuration that the controller depends on.
func (d Descriptor) Value(c *Config) any { return d.value(c) }

// New builds an instance from a value that Value returned.
func (d Descriptor) New(env Env, value any) (Controller, error) { return d.build(env, value) }

// Enabled reports whether the configuration wants the controller to run, and if not, why.
func (d Descriptor) Enabled(c *Config) (ok bool, reason string) {
	if !c.ControllerEnabled(d.Name) {
		return false, "disabled in the configuration"
	}
	if d.Gate != "" && !gates.Enabled(c, d.Gate) {
		return false, "needs the feature gate " + d.Gate
	}
	return true, ""
}

// Resources are what the API server has to serve for the controller to run with a value.
func (d Descriptor) Resources(value any) []schema.GroupVersionResource {
	if r, ok := value.(ResourceReader); ok {
		return append(d.Requires[:len(d.Requires):len(d.Requires)], r.Resources()...)
	}
	return d.Requires
}

// Whole are the resources of which the controller, with a value, caches all objects whole.
func (d Descriptor) Whole(value any) []schema.GroupVersionResource {
	return slices.DeleteFunc(slices.Clone(d.Resources(value)), func(r schema.GroupVersionResource) bool {
		return slices.Contains(d.Partial, r)
	})
}

// ReadsClusterCA reports whether Env.ClusterCA matters with a value.
func (d Descriptor) ReadsClusterCA(value any) bool {
	r, ok := value.(ClusterCAReader)
	return ok && r.ReadsClusterCA()
}

// FollowedFiles are the files that a controller with a value reads again while it runs.
func (d Descriptor) FollowedFiles(value any) []string {
	if f, ok := value.(FileFollower); ok {
		return f.FollowedFiles()
	}
	return nil
}

// Files are the files that a value names, and whose content restarts the controller.
func (d Descriptor) Files(value any) []string {
	if r, ok := value.(FileReader); ok {
		return r.Files()
	}
	return nil
}
