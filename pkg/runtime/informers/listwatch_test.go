package informers

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"testing"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"kcmd.dev/test/await"
)

// An API server that does not stream what there is, is asked for it in pages. A watch ends after 5 to 10 minutes.
// Pins MGR-61.
func TestWhatCannotBeStreamedIsListed(t *testing.T) {
	var mu sync.Mutex
	var asked []string
	watching := make(chan struct{}, 10)
	item := `{"metadata":{"namespace":"default","name":%q,"resourceVersion":"5"}}`
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		w.Header().Set("Content-Type", "application/json")
		note := func(what string) {
			mu.Lock()
			defer mu.Unlock()
			asked = append(asked, what)
		}
		switch seconds, _ := strconv.Atoi(q.Get("timeoutSeconds")); {
		case q.Get("watch") != "" && (seconds < 300 || seconds > 600):
			t.Errorf("a watch is to end after %d s", seconds)
		case q.Get("sendInitialEvents") == "true":
			note("stream")
			w.WriteHeader(http.StatusUnprocessableEntity)
			_, _ = fmt.Fprint(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Invalid","code":422}`)
		case q.Get("watch") != "":
			note("watch from " + q.Get("resourceVersion"))
			w.WriteHeader(http.StatusOK)
			w.(http.Flusher).Flush()
			watching <- struct{}{}
			<-r.Context().Done()
		case q.Get("continue") == "":
			note("list " + q.Get("limit"))
			_, _ = fmt.Fprintf(w, `{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"7","continue":"more"},"items":[`+item+`]}`, "a")
		default:
			note("list " + q.Get("limit") + " " + q.Get("continue"))
			_, _ = fmt.Fprintf(w, `{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"7"},"items":[`+item+`]}`, "b")
		}
	}))
	defer server.Close()
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	client, err := kubernetes.NewForConfig(&rest.Config{Host: server.URL, Transport: transport})
	if err != nil {
		t.Fatal(err)
	}
	shared := New(Options{Client: client})
	shared.Start(t.Context())
	defer shared.Shutdown()
	s := shared.NewScope(ScopeOptions{Name: "listed"})
	defer s.Close()
	seen := newRecorder()
	addHandler(t, s.Core().V1().Pods().Informer(), seen)
	startAndSync(t, s)
	await.True(t, "they are watched", func() bool { return len(watching) > 0 })
	if adds, _ := seen.count(); adds != 2 {
		t.Errorf("%d pods are seen, want 2", adds)
	}
	mu.Lock()
	defer mu.Unlock()
	if got := fmt.Sprint(asked); got != "[stream list 500 list 500 more watch from 7]" {
		t.Errorf("asked for %s", got)
	}
}
