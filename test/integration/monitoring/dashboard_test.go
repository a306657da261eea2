package monitoring

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"regexp"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/runtime"
	"kcmd.dev/test/await"
	"kcmd.dev/test/integration/harness"
	"kcmd.dev/test/manager"
	"kcmd.dev/test/must"
)

// dashboard is what the test evaluates of dashboard.json.
type dashboard struct {
	Templating struct {
		List []struct{ Name, Type, Definition string }
	}
	Annotations struct {
		List []struct{ Name, Expr string }
	}
	Panels []struct {
		Type, Title string
		Targets     []struct{ RefID, Expr string }
	}
}

// Two replicas have had something to do, so every query of the dashboard has a result, and so has
// every recording rule. Every rule can be evaluated.
func TestEveryPanelHasData(t *testing.T) {
	leader := manager.StartProcess(t, plane, quick)
	standby := manager.JoinProcess(t, plane, quick)
	harness.Wait(t, standby, "it stands by with filled caches", harness.StandsBy)
	groups := readRules(t)
	p := startPrometheus(t, groups, leader.URL(), standby.URL())
	p.holds(t, "count(up == 1) == 2")
	provoke(t, p, leader, standby)

	var d dashboard
	must.Succeed(t, json.Unmarshal(must.Get(os.ReadFile(sample(t, "dashboard.json")))(t), &d))
	queries := 0
	check := func(what, expression string) {
		t.Helper()
		queries++
		await.That(t, what+" has data", func(ctx context.Context) error { return hasData(ctx, p, interpolate(expression)) })
	}
	for _, panel := range d.Panels {
		for _, target := range panel.Targets {
			check(fmt.Sprintf("query %s of panel %q", target.RefID, panel.Title), target.Expr)
		}
	}
	for _, a := range d.Annotations.List {
		check(fmt.Sprintf("annotation %q", a.Name), a.Expr)
	}
	for _, v := range d.Templating.List {
		if v.Type == "query" {
			offersValues(t, p, v.Definition)
		}
	}
	for _, g := range groups {
		for _, r := range g.Rules {
			if r.Record != "" {
				check("recording rule "+r.Record, r.Record)
			}
		}
	}
	if queries < 50 {
		t.Errorf("only %d queries were evaluated", queries)
	}
	for name, r := range must.Get(p.rules(t.Context()))(t) {
		if r.Health != "ok" {
			t.Errorf("%s cannot be evaluated: %s", name, r.LastError)
		}
	}
}

// offersValues waits until Grafana has values to offer for a variable.
func offersValues(t *testing.T, p *prometheus, definition string) {
	t.Helper()
	found := labelValues.FindStringSubmatch(definition)
	if found == nil {
		t.Fatalf("a variable is defined as %s", definition)
	}
	path := fmt.Sprintf("/api/v1/label/%s/values?match[]=%s", found[2], url.QueryEscape(interpolate(found[1])))
	await.That(t, definition+" has values", func(ctx context.Context) error {
		var values []string
		data, err := p.get(ctx, path)
		if err == nil {
			err = json.Unmarshal(data, &values)
		}
		if err == nil && len(values) == 0 {
			err = errors.New("it has none")
		}
		return err
	})
}

var labelValues = regexp.MustCompile(`^label_values\((.+), (\w+)\)$`)

// quick has a manager notice edits at once.
func quick(c *manager.Config) { harness.Settle(0)(c) }

// interpolate does what Grafana does with variables when all is selected.
func interpolate(expression string) string {
	return strings.NewReplacer("$job", job, "$instance", ".*", "$controller", ".*", "$queue", ".*", "$__rate_interval", "1m").Replace(expression)
}

// hasData is nil if a query has a result that can be drawn.
func hasData(ctx context.Context, p *prometheus, expression string) error {
	all, err := p.query(ctx, expression)
	if err != nil {
		return err
	}
	for _, s := range all {
		if value, _ := s.Value[1].(string); value != "NaN" {
			return nil
		}
	}
	return fmt.Errorf("%s has %d results, none of them a number", expression, len(all))
}

// provoke has everything happen that a panel shows only when it happens.
func provoke(t *testing.T, p *prometheus, leader, standby *manager.Process) {
	t.Helper()
	both := func(change func(*manager.Config)) {
		t.Helper()
		harness.Edit(t, leader, change)
		harness.Edit(t, standby, change)
	}
	// A rate needs a series that was there before: the first of each is seen before the second.
	both(func(c *manager.Config) { c.Controllers.Deployment.ConcurrentSyncs = ptr.To(int32(6)) })
	p.holds(t, `kcmd_controller_restarts_total{name="deployment-controller"} == 1`)
	p.holds(t, `max(kcmd_controller_drain_duration_seconds_count{name="deployment-controller"}) == 1`)
	both(func(c *manager.Config) {
		c.Controllers.Deployment.ConcurrentSyncs = ptr.To(int32(7))
		c.Controllers.CronJob.Paused = ptr.To(true)
		c.PausedNamespaces = []string{"nothing-is-in-it"}
	})
	rejectedPods(t)
	must.Succeed(t, leader.Write([]byte("controllers: [\n")))
	harness.Wait(t, leader, "the file is rejected", func(s *runtime.Status) error {
		if s.Configuration.Rejected == "" {
			return errors.New("it is not")
		}
		return nil
	})
}

// rejectedPods has the controller of a ReplicaSet make pods until a quota does not permit more.
func rejectedPods(t *testing.T) {
	t.Helper()
	namespace := harness.NamespaceForPods(t, plane)
	admin := plane.AdminClient()
	quota := &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Name: "one"},
		Spec:       corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{corev1.ResourcePods: resource.MustParse("1")}},
	}
	must.Get(admin.CoreV1().ResourceQuotas(namespace).Create(t.Context(), quota, metav1.CreateOptions{}))(t)
	await.That(t, "the quota is in force", func(ctx context.Context) error {
		now, err := admin.CoreV1().ResourceQuotas(namespace).Get(ctx, quota.Name, metav1.GetOptions{})
		if err == nil && len(now.Status.Hard) == 0 {
			err = errors.New("it is not")
		}
		return err
	})
	must.Get(admin.AppsV1().Deployments(namespace).Create(t.Context(), harness.NewDeployment(3, nil), metav1.CreateOptions{}))(t)
}
