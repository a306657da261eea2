package controller

import (
	"context"
	"net/http"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/component-base/metrics"
	"k8s.io/utils/clock"
)

// Controller is one running control loop.
type Controller interface {
	// Run works until ctx ends, then finishes the keys in flight and returns nil once
	// every goroutine it started has returned. See rule 3 of the package comment.
	Run(ctx context.Context) error
}

// Debuggable is implemented by controllers with something to show under
// /debug/controllers/<name>/ while they run.
type Debuggable interface {
	// DebuggingHandler serves paths with the prefix stripped.
	DebuggingHandler() http.Handler
}

// Env is what an instance receives. All of it belongs to that one instance, and none of its
// fields is nil but ClusterCA, which may be empty.
type Env struct {
	// Name is the canonical name of the controller.
	Name string

	// Client, Metadata, Dynamic and Discovery act under the identity of the
	// controller. Writes fail once the instance is fenced.
	Client    kubernetes.Interface
	Metadata  metadata.Interface
	Dynamic   dynamic.Interface
	Discovery discovery.DiscoveryInterface

	// ClusterCA is the CA that the client configuration of the process carries or names, in
	// PEM; empty if there is none. What publishes the CA of the cluster falls back to it when
	// no CA file is configured. Read only.
	ClusterCA []byte

	// RESTConfig makes further clients of published libraries, of the same identity and
	// under the same fence.
	RESTConfig *rest.Config

	// Mapper maps kinds to resources. It is shared by all controllers and refreshed
	// by the runtime. It returns NoMatch only for what is not served; for a kind whose group
	// cannot be asked, as that of an aggregated API server that is down, another error.
	Mapper meta.RESTMapper

	// Served returns the preferred resources that the API server offered when the process
	// asked last; empty if it has not answered yet. It sends no request, so New may use it
	// to ask for the informers of kinds that are only known at run time. The descriptor of
	// such a controller says so, see Descriptor.ReadsServed.
	Served func() []*metav1.APIResourceList

	// Chosen is the first of Descriptor.Alternatives that is served; empty if there are none.
	Chosen schema.GroupVersionResource

	// Informers is the view of the shared caches that lives as long as the instance.
	Informers Scope

	// Events records events as Descriptor.EventSource.
	Events record.EventRecorder

	// FilesChanged receives when the content of a file may have changed that the value
	// follows, see FileFollower. Changes that nobody has received yet are one, and what
	// changes while New runs is not missed. It is never closed.
	FilesChanged <-chan struct{}

	// Metrics is exposed on /metrics while the instance runs.
	Metrics MetricsRegistry

	// Clock is the source of time; tests step it.
	Clock clock.WithTicker

	// Fenced is closed when the instance may no longer write: its lease was lost, or
	// it was told to stop and did not within the drain timeout.
	Fenced <-chan struct{}

	// Succession is what the instance gets from its predecessor and leaves to its successor,
	// see TakeOver.
	Succession *Succession

	// Pauses are the namespaces in which the controller is paused: its clients refuse to
	// write there. The work loop of the kit holds back the keys of these namespaces; what
	// has no keys of namespaces skips the objects in them.
	Pauses *Pauses

	// Deletions are asked by the clients before each deletion, if Descriptor.DeletesInBulk is
	// set. The work loop of the kit holds back the keys that are stopped. A controller asks
	// itself before it writes anything else for a deletion.
	Deletions *Deletions

	// Inspect makes a work loop visible in status, health and hang detection.
	Inspect func(Inspectable)
}

// MetricsRegistry holds the metrics of one instance. It is the part of a component-base
// KubeRegistry that controllers need; component-base keeps every KubeRegistry forever, so it
// does not suit instances, which come and go.
type MetricsRegistry interface {
	metrics.Gatherer
	MustRegister(...metrics.Registerable)
	CustomMustRegister(...metrics.StableCollector)
}

// Scope is a view of the shared informers that belongs to one instance. It is a
// client-go SharedInformerFactory, so published libraries take it as it is. Handlers
// added through it are removed when the instance ends; caches and indexes stay.
//
// AddIndexers of an informer obtained here is idempotent by index name.
type Scope interface {
	informers.SharedInformerFactory

	// Err returns the first error of adding a handler or an index to an informer obtained
	// through the scope, nil if there was none. Descriptor.New asks, so nobody else needs to.
	Err() error

	// Filtered returns a view of the part of the objects that the filter selects,
	// cached separately from the whole. The zero Filter is the scope itself.
	Filtered(Filter) informers.SharedInformerFactory

	// MetadataFor returns an informer of metav1.PartialObjectMetadata for any
	// resource, built-in or not.
	MetadataFor(schema.GroupVersionResource) informers.GenericInformer

	// AnyFor returns an informer of the whole objects of a resource if this process caches
	// the kind whole anyway, of their metadata otherwise. Its users read metadata only, so
	// that no kind is cached twice. The answer for a resource stays the same for the life
	// of the scope.
	AnyFor(schema.GroupVersionResource) (informers.GenericInformer, error)

	// Release gives back one informer obtained through the scope, with the handlers added
	// to it through the scope. It stops at once if nobody else holds it: that is for kinds
	// that are no longer served. Informers not released end with the instance.
	Release(cache.SharedIndexInformer)

	// Ready reports whether the instance may act on its caches: every informer requested through the
	// scope is complete, contains the last writes of the process that ran the controller before, and
	// has shown all it holds to every handler added through the scope.
	Ready() bool

	// WaitUntilReady waits for Ready without polling. It returns false if ctx ended first.
	WaitUntilReady(ctx context.Context) bool
}

// Filter selects a part of the objects of each kind. Zero fields select everything.
type Filter struct {
	Namespace     string
	FieldSelector string
	LabelSelector string
}

// Inspectable is a work loop that can be inspected while it runs.
type Inspectable interface {
	Inspect() LoopStatus
}

// LoopStatus is a snapshot of a work loop.
type LoopStatus struct {
	// Queue is the name of the work queue, as in its metrics.
	Queue string `json:"queue"`
	// Workers is the number of keys that can be worked on at once.
	Workers int `json:"workers"`
	// Depth is the number of keys waiting, Backlog those of them that were replayed
	// or resynced.
	Depth   int `json:"depth"`
	Backlog int `json:"backlog"`
	// Held is the number of keys that wait for the end of a pause.
	Held int `json:"held,omitempty"`
	// Stopped is the number of keys that wait until the breaker lets deletions go on.
	Stopped int `json:"stopped,omitempty"`
	// InFlight are the keys being worked on, longest first.
	InFlight []InFlight `json:"inFlight,omitempty"`
	// Reconciled counts finished reconciles, Failed those that returned an error,
	// Panicked those that panicked.
	Reconciled uint64 `json:"reconciled"`
	Failed     uint64 `json:"failed"`
	Panicked   uint64 `json:"panicked"`
	// Began is when the loop began to take keys; zero while it waits for the caches.
	Began time.Time `json:"began,omitzero"`
	// FirstReconcile is when the first key was taken; zero if none was.
	FirstReconcile time.Time `json:"firstReconcile,omitzero"`
	// Waiting describes what keeps the loop from working, empty if nothing does.
	Waiting string `json:"waiting,omitempty"`
	// LastError is the newest failure of a key, empty if there was none.
	LastError     string    `json:"lastError,omitempty"`
	LastErrorTime time.Time `json:"lastErrorTime,omitzero"`
}

// InFlight is a key that is being worked on.
type InFlight struct {
	Key   string    `json:"key"`
	Since time.Time `json:"since"`
}
