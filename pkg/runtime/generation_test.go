package runtime

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/go-logr/logr/funcr"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/config"
	"kcmd.dev/pkg/config/v1beta1"
	"kcmd.dev/pkg/controller"
	"kcmd.dev/pkg/runtime/clients"
	"kcmd.dev/pkg/runtime/journal"
	"kcmd.dev/pkg/runtime/source"
	"kcmd.dev/test/must"
)

// writing is a controller that records a write as soon as it runs.
type writing struct{ journal *journal.Journal }

// Run implements controller.Controller.
func (w *writing) Run(ctx context.Context) error {
	w.journal.Of("deployment-controller", 0).Observe(ctx, clients.Write{Verb: "create", Code: 201})
	<-ctx.Done()
	return nil
}

// What an edit starts may write before the reload has ended. Pins MGR-240.
func TestWhatAnEditStartsWritesInItsGeneration(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(server.Close)
	folder := t.TempDir()
	file, kubeconfig := filepath.Join(folder, "config.yaml"), filepath.Join(folder, "kubeconfig")
	must.Succeed(t, os.WriteFile(kubeconfig, []byte("apiVersion: v1\nkind: Config\ncurrent-context: x\n"+
		"clusters: [{name: c, cluster: {server: '"+server.URL+"'}}]\n"+
		"users: [{name: u, user: {token: t}}]\n"+
		"contexts: [{name: x, context: {cluster: c, user: u}}]\n"), 0o600))
	text := func(workers int32) []byte {
		c := v1beta1.NewDefault()
		c.ClientConnection.Kubeconfig, c.LeaderElection.LeaderElect, c.Serving.Port = kubeconfig, ptr.To(false), ptr.To[int32](0)
		c.Controllers.Deployment.ConcurrentSyncs = &workers
		c.Serving.BindAddress = "127.0.0.1" // of which there is a warning, with that port
		return must.Get(config.Marshal(c))(t)
	}
	var r *Runtime
	described := controller.Describe(controller.Descriptor{Name: "deployment-controller", RunsWithoutLease: true},
		func(c *controller.Config) int32 { return *c.Controllers.Deployment.ConcurrentSyncs },
		func(controller.Env, int32) (*writing, error) { return &writing{r.journal}, nil })
	must.Succeed(t, os.WriteFile(file, text(5), 0o600))
	r = must.Get(New(Options{ConfigFile: file, Descriptors: []controller.Descriptor{described}}))(t)
	must.Succeed(t, r.start(t.Context()))
	t.Cleanup(func() { must.Succeed(t, r.stop(context.WithoutCancel(t.Context()))) })
	recorded := func(n int) (generations []uint64) {
		waitFor(t, func() bool {
			generations = nil
			r.journal.Each(func(w journal.Record) { generations = append(generations, w.Generation) })
			return len(generations) == n
		})
		return generations
	}
	recorded(1)
	edited, warned := text(6), false
	ctx := klog.NewContext(t.Context(), funcr.New(func(_, line string) {
		if strings.Contains(line, "Configuration warning") {
			warned = true
			recorded(2) // before the reload has ended
		}
	}, funcr.Options{}))
	r.configChanged(ctx, source.Change{Path: file, Content: edited, Hash: source.Hash(edited)})
	if !warned || r.rejected != "" || r.generation != 2 {
		t.Fatalf("warned: %t, rejected: %q, generation %d", warned, r.rejected, r.generation)
	}
	if got := recorded(2); !slices.Equal(got, []uint64{1, 2}) {
		t.Errorf("the writes are of generations %d, want those of the configurations that they were made for", got)
	}
}
