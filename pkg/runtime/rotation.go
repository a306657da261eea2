package runtime

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	"kcmd.dev/pkg/config"
	"kcmd.dev/pkg/config/v1beta1"
	"kcmd.dev/pkg/runtime/clients"
	"kcmd.dev/pkg/runtime/source"
	"kcmd.dev/pkg/runtime/supervisor"
	"kcmd.dev/pkg/runtime/telemetry"
)

// rotation is what the process knows of its credentials and of files it waits for. The
// rules:
//
//  1. The kubeconfig and every file it names are watched. When one of them changes, all are
//     read again and compared with what is in use.
//  2. Other credentials for the same user of the same API server take over in place: no
//     controller restarts, and caches are not filled again. Another server or another user
//     is another connection, as if the configuration had named another kubeconfig.
//  3. What cannot be used, a certificate without its key say, changes nothing and is shown.
//     Nor does what the API server refuses, or another server that does not prove itself.
//  4. A configuration that was rejected is tried again when one of the files it names
//     changes: it may have come before them. What was rejected because the API server could
//     not be relied on is tried again when it can.
type rotation struct {
	metrics telemetry.Outcomes

	// Guarded by Runtime.mu.
	renewed  uint64
	last     time.Time
	failure  string
	found    []string // files that were found when the last attempt failed
	rejected *rejected

	judged   *rejected         // the newest that was judged; owned by the loop
	edit     retry             // of the configuration that was rejected
	access   retry             // of credentials that lead elsewhere
	endpoint map[string]string // states of the files of the endpoint; owned by the loop
}

// rejected is a configuration that waits for its files.
type rejected struct {
	change source.Change
	states map[string]string // of the files it names, by path, when it was rejected
}

// ConnectionStatus is how the process reaches the API server.
type ConnectionStatus struct {
	// Server is its URL.
	Server string `json:"server"`
	// Generation counts the connections of this process: each has clients and caches of
	// its own.
	Generation uint64 `json:"generation"`
	// Files are those the credentials were read from, which are watched.
	Files []string `json:"files,omitempty"`
	// Renewed counts changes of credentials within connections, LastRenewal is the newest.
	Renewed     uint64    `json:"renewed"`
	LastRenewal time.Time `json:"lastRenewal,omitzero"`
	// Error is why the credentials as they are now in the files are not in use, empty if
	// they are.
	Error string `json:"error,omitempty"`
}

// watchFiles has everything watched that the process was made from or waits for.
func (r *Runtime) watchFiles() {
	paths := append([]string{r.options.ConfigFile}, files(r.document.Config, r.options.Descriptors)...)
	paths = append(paths, r.connection.files()...)
	paths = append(paths, r.rotation.found...)
	paths = append(paths, endpointFiles(r.document.Config)...)
	if r.rotation.rejected != nil {
		for path := range r.rotation.rejected.states {
			paths = append(paths, path)
		}
	}
	slices.Sort(paths[1:]) // the order of Set is that of reading: the configuration comes first
	r.watcher.Set(paths...)
}

// namedFileChanged handles a file that the process reads for itself, not for a controller.
func (r *Runtime) namedFileChanged(ctx context.Context, change source.Change) {
	if waiting := r.rotation.rejected; waiting != nil {
		if was, ok := waiting.states[change.Path]; ok && was != stateOf(change.Hash, change.Err) {
			klog.FromContext(ctx).Info("A file that the rejected configuration names has changed, trying it again", "file", change.Path)
			r.configChanged(ctx, waiting.change)
		}
	}
	if slices.Contains(r.connection.files(), change.Path) || slices.Contains(r.rotation.found, change.Path) {
		r.renewAccess(ctx)
	}
	if slices.Contains(endpointFiles(r.document.Config), change.Path) && r.rotation.news(change) {
		r.endpointFileChanged(ctx, change)
	}
}

// news reports that a file of the endpoint differs from what it was when it was first seen,
// or last.
func (s *rotation) news(change source.Change) bool {
	was, seen := s.endpoint[change.Path]
	if s.endpoint == nil {
		s.endpoint = map[string]string{}
	}
	s.endpoint[change.Path] = stateOf(change.Hash, change.Err)
	return seen && was != s.endpoint[change.Path]
}

func stateNow(path string) string {
	_, hash, err := source.Read(path, source.DefaultMaxSize)
	return stateOf(hash, err)
}

func stateOf(hash string, err error) string {
	if err != nil {
		return "error: " + err.Error()
	}
	return hash
}

// judge checks a changed configuration. It takes the states of the files that it names
// first: one that changes while they are judged is one that changed since. bad are the files
// that have turned bad since they came into force, which are no reason to reject anything.
func (r *Runtime) judge(change source.Change) (d *config.Document, bad []string, err error) {
	r.rotation.judged = nil
	document, err := config.Load(r.options.ConfigFile, change.Content)
	if err != nil {
		return nil, nil, err // no file can cure it
	}
	r.rotation.judged = &rejected{change: change, states: r.statesOf(document.Config)}
	problems, bad := document.CheckEdit(r.document.Config)
	if err := problems.AsError(); err != nil {
		return nil, nil, err
	}
	document.Warnings = append(document.Warnings, problems...)
	return document, bad, nil
}

// statesOf are the states of the files that a configuration names, by path.
func (r *Runtime) statesOf(c *v1beta1.KubeControllerManagerConfiguration) map[string]string {
	named := append(config.NamedFiles(c), files(c, r.options.Descriptors)...)
	// What cannot be loaded still tells the files it found.
	access, _ := clients.LoadAccess(sourceOf(c.ClientConnection), r.options.Clock.Now())
	named = append(named, access.Files...)
	states := make(map[string]string, len(named))
	for _, path := range named {
		states[path] = stateNow(path)
	}
	return states
}

// noteRejected keeps a configuration that was rejected together with the states of its files.
// A nil err means that it is in force, or not in the file any more.
func (r *Runtime) noteRejected(ctx context.Context, change source.Change, err error) {
	var waiting *rejected
	if err != nil && change.Err == nil {
		waiting = r.rotation.judged
	}
	r.mu.Lock()
	had := r.rotation.rejected != nil
	r.rotation.rejected = waiting
	r.mu.Unlock()
	if had || waiting != nil {
		r.watchFiles()
	}
	r.retryLater(ctx, &r.rotation.edit, err, "the rejected configuration", func(ctx context.Context) { r.configChanged(ctx, change) })
}

// renewAccess brings the credentials in use up to date with the files.
func (r *Runtime) renewAccess(ctx context.Context) {
	next, err := clients.LoadAccess(sourceOf(r.document.Config.ClientConnection), r.options.Clock.Now())
	if err != nil {
		r.noteAccess(ctx, next.Files, false, err)
		return
	}
	difference, err := r.connection.compare(next)
	if err != nil {
		r.noteAccess(ctx, next.Files, false, err)
		return
	}
	switch difference {
	case clients.Same:
		err = r.connection.renew(next) // the files may be others
	case clients.Renewed:
		if err = r.proveRenewed(ctx); err == nil {
			err = r.renewInPlace(ctx, next)
		}
	case clients.Elsewhere:
		err = r.reconnect(ctx)
	}
	r.noteAccess(ctx, next.Files, difference != clients.Same, err)
}

// renewInPlace goes on with other credentials on the same connection.
func (r *Runtime) renewInPlace(ctx context.Context, next *clients.Access) error {
	before := r.connection.clusterCA()
	if err := r.connection.renew(next); err != nil {
		return err
	}
	klog.FromContext(ctx).Info("Credentials renewed", "server", next.Config.Host)
	if string(before) != string(next.InlineCA) {
		r.synchronize(ctx, supervisor.CauseFile)
	}
	return nil
}

// reconnect makes a new connection with the configuration in force.
func (r *Runtime) reconnect(ctx context.Context) error {
	klog.FromContext(ctx).Info("The kubeconfig leads to another API server or user, connecting anew")
	tx := r.begin(supervisor.CauseClients)
	tx.reconnect = true
	if err := tx.run(ctx); err != nil {
		return fmt.Errorf("connecting anew: %w", err)
	}
	return nil
}

// noteAccess shows what became of a change of credentials. An error that stays the same is
// not told again, and neither is that nothing has changed.
func (r *Runtime) noteAccess(ctx context.Context, found []string, changed bool, err error) {
	now := r.options.Clock.Now()
	r.mu.Lock()
	s := &r.rotation
	was := s.failure
	s.failure, s.found = "", nil
	if err != nil {
		s.failure, s.found = err.Error(), found
	} else if changed {
		s.renewed++
		s.last = now
	}
	failure := s.failure
	r.mu.Unlock()
	r.watchFiles()
	r.retryLater(ctx, &s.access, err, "the changed kubeconfig", r.renewAccess)

	switch {
	case failure != "" && failure != was:
		klog.FromContext(ctx).Error(err, "Credentials have changed and cannot be used; the ones before stay in use")
		s.metrics.Record(telemetry.Failure, now)
		r.events.Event(eventTarget(r.document.Config.LeaderElection), corev1.EventTypeWarning, reasonCredentialsRejected,
			short("The credentials before stay in use. "+failure))
	case failure == "" && changed:
		s.metrics.Record(telemetry.Success, now)
	case failure == "" && was != "":
		klog.FromContext(ctx).Info("The files hold again the credentials in use")
	}
}

// connectionStatus is called with Runtime.mu held.
func (r *Runtime) connectionStatus() ConnectionStatus {
	if r.connection == nil {
		return ConnectionStatus{}
	}
	return ConnectionStatus{
		Server:      r.connection.server(),
		Generation:  r.connection.generation,
		Files:       r.connection.files(),
		Renewed:     r.rotation.renewed,
		LastRenewal: r.rotation.last,
		Error:       r.rotation.failure,
	}
}

func (c *connection) now() *clients.Access {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.access
}

func (c *connection) server() string    { return c.now().Config.Host }
func (c *connection) files() []string   { return slices.Clone(c.now().Files) }
func (c *connection) clusterCA() []byte { return c.now().InlineCA }

func (c *connection) compare(next *clients.Access) (clients.Difference, error) {
	return c.now().Compare(next)
}

// renew goes on with other credentials.
func (c *connection) renew(next *clients.Access) error {
	if err := c.clients.Renew(next); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.access = next
	return nil
}

// fingerprintOfCA stands for the CA data that controllers publish.
func fingerprintOfCA(ca []byte) string {
	sum := sha256.Sum256(ca)
	return hex.EncodeToString(sum[:])
}
