package controlplane

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/client-go/kubernetes"

	"kcmd.dev/test/await"
	"kcmd.dev/test/must"
)

func TestAuditShowsTheManagersRequests(t *testing.T) {
	config, err := plane.Config(ManagerUser)
	if err != nil {
		t.Fatal(err)
	}
	config.UserAgent = "deployment-controller/test"
	manager := newClient(t, config)
	list := func(client kubernetes.Interface) {
		t.Helper()
		if _, err := client.AppsV1().Deployments("").List(t.Context(), metav1.ListOptions{}); err != nil {
			t.Fatal(err)
		}
	}

	list(manager)
	mark, err := plane.Audit().Mark()
	if err != nil {
		t.Fatal(err)
	}
	const requests = 20
	for range requests {
		list(manager)
	}
	list(plane.AdminClient())
	if _, err := manager.CoreV1().Secrets("default").Get(t.Context(), "none", metav1.GetOptions{}); err == nil {
		t.Fatal("got a secret that does not exist")
	}

	events, err := plane.Audit().Since(mark, ByUserAgent("deployment-controller"), ByVerb("list"), ByResource("deployments"))
	if err != nil {
		t.Fatal(err)
	}
	if len(events) != requests {
		t.Errorf("got %d lists after the mark, want %d", len(events), requests)
	}
	for _, event := range events {
		if event.User.Username != ManagerUser || event.Stage != auditv1.StageResponseComplete || event.Level != auditv1.LevelMetadata {
			t.Fatalf("got %+v", event)
		}
	}
	all, err := plane.Audit().Since(mark)
	if err != nil {
		t.Fatal(err)
	}
	if len(all) != requests+1 {
		t.Errorf("got %d events, want the manager's %d and nobody else's", len(all), requests+1)
	}
}

func TestAuditShowsWatches(t *testing.T) {
	config, err := plane.Config("system:serviceaccount:kube-system:job-controller", managerGroup)
	if err != nil {
		t.Fatal(err)
	}
	controller := newClient(t, config)
	mark, err := plane.Audit().Mark()
	if err != nil {
		t.Fatal(err)
	}
	watch, err := controller.BatchV1().Jobs("").Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer watch.Stop()
	started, err := plane.Audit().Since(mark, ByVerb("watch"), ByResource("jobs"), ByStage(auditv1.StageResponseStarted))
	if err != nil || len(started) != 1 {
		t.Errorf("got %d opened watches, %v; want 1", len(started), err)
	}
}

func TestWrittenIgnoresAnIncompleteLine(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.log")
	first := `{"auditID":"1","verb":"list","user":{"username":"a"},"objectRef":{"resource":"pods","subresource":"status","namespace":"n"}}` + "\n"
	second := `{"auditID":"2","verb":"create","user":{"username":"b"},"userAgent":"x/1"}` + "\n"
	if err := os.WriteFile(path, []byte(first+second+`{"auditID":"3"`), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		mark    Mark
		filters []Filter
		want    string
	}{
		"all":            {want: "[1 2]"},
		"after mark":     {mark: Mark(len(first)), want: "[2]"},
		"user":           {filters: []Filter{ByUser("a", "c")}, want: "[1]"},
		"user agent":     {filters: []Filter{ByUserAgent("x")}, want: "[2]"},
		"writes":         {filters: []Filter{Writes()}, want: "[2]"},
		"resource":       {filters: []Filter{ByResource("pods")}, want: "[]"},
		"subresource":    {filters: []Filter{ByResource("pods/status")}, want: "[1]"},
		"namespace":      {filters: []Filter{ByNamespace("n")}, want: "[1]"},
		"all must agree": {filters: []Filter{ByNamespace("n"), Writes()}, want: "[]"},
	} {
		t.Run(name, func(t *testing.T) {
			events, err := (&Audit{path: path}).Written(tc.mark, tc.filters...)
			if err != nil {
				t.Fatal(err)
			}
			ids := []string{}
			for _, event := range events {
				ids = append(ids, string(event.AuditID))
			}
			if got := fmt.Sprint(ids); got != tc.want {
				t.Errorf("got %s, want %s", got, tc.want)
			}
		})
	}
}

// What is under way is waited for, and nothing that arrives later.
func TestSyncWaitsForWhatHasArrived(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.log")
	log := must.Get(os.Create(path))(t)
	t.Cleanup(func() { _ = log.Close() })
	write := func(id string, stage auditv1.Stage) {
		t.Helper()
		must.Get(fmt.Fprintf(log, "{\"auditID\":%q,\"stage\":%q}\n", id, stage))(t)
	}
	write("write", auditv1.StageRequestReceived)
	write("watch", auditv1.StageRequestReceived)
	write("watch", auditv1.StageResponseStarted)
	audit := &Audit{path: path}
	synced := make(chan error, 1)
	go func() { synced <- audit.Sync() }()
	await.True(t, "the log is read", func() bool {
		audit.mu.Lock()
		defer audit.mu.Unlock()
		return audit.followed > 0
	})
	select {
	case err := <-synced:
		t.Errorf("the write was not waited for: %v", err)
	default:
	}
	write("later", auditv1.StageRequestReceived)
	write("write", auditv1.StageResponseComplete)
	must.Succeed(t, <-synced)
	if events, err := audit.Written(0); err != nil || len(events) != 2 {
		t.Errorf("got %v, %v; want the watch and the write, once each", events, err)
	}
	must.Succeed(t, audit.forget()) // the server has ended
	must.Succeed(t, audit.Sync())
}

// A read that a watch of a write caused may be answered before the write is.
func TestWrittenIsInTheOrderOfArrival(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.log")
	log := `{"auditID":"read","requestReceivedTimestamp":"2026-01-01T00:00:00.000002Z","stageTimestamp":"2026-01-01T00:00:00.000003Z"}
{"auditID":"write","requestReceivedTimestamp":"2026-01-01T00:00:00.000001Z","stageTimestamp":"2026-01-01T00:00:00.000004Z"}
`
	if err := os.WriteFile(path, []byte(log), 0o600); err != nil {
		t.Fatal(err)
	}
	events, err := (&Audit{path: path}).Written(0)
	if err != nil || len(events) != 2 || events[0].AuditID != "write" {
		t.Errorf("got %v, %v; want the write first", events, err)
	}
}
