package serving

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"kcmd.dev/pkg/runtime"
	"kcmd.dev/test/await"
	"kcmd.dev/test/manager"
)

// standbyIsHealthy checks what a kubelet and a load balancer see of a process that waits
// for the lease: it is alive, ready and healthy, and its page says why it runs nothing.
func standbyIsHealthy(t *testing.T) {
	standby := manager.Join(t, plane, runtime.Options{}, nil)
	client := from(t, 500)
	for _, path := range []string{"/livez", "/readyz", "/healthz"} {
		await.That(t, "a standby answers 200 on "+path, func(context.Context) error {
			got, err := ask(t, client, http.MethodGet, standby.URL()+path, "", nil)
			if err == nil && (got.code != http.StatusOK || got.body != "ok") {
				err = fmt.Errorf("%d %s", got.code, got.body)
			}
			return err
		})
	}
	status, err := standby.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if status.Leadership.Leading {
		t.Error("it leads")
	}
	await.That(t, "the page says that it stands by", func(context.Context) error {
		page, err := ask(t, standby.Client(), http.MethodGet, standby.URL()+"/statusz", "", http.Header{"Accept": {"text/html"}})
		if err == nil && !strings.Contains(page.body, "Standing by, ready to take over") {
			err = errors.New("it does not")
		}
		return err
	})
	verbose, err := ask(t, client, http.MethodGet, standby.URL()+"/healthz?verbose", "", nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, check := range []string{"leaderElection", "informer-sync", "config-reload", "config-watch", deployment} {
		if !strings.Contains(verbose.body, "[+]"+check+" ok\n") {
			t.Errorf("the check %s is missing:\n%s", check, verbose.body)
		}
	}
}
