package serving

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/runtime"
	"kcmd.dev/pkg/runtime/supervisor"
	"kcmd.dev/test/await"
	"kcmd.dev/test/integration/harness"
	"kcmd.dev/test/manager"
)

// hostile is an edit whose mistakes would be markup, if a browser took them for it. It has
// to be seen as text.
const hostile = `apiVersion: config.kcmd.dev/v1beta1
kind: KubeControllerManagerConfiguration
controllers:
  "<script>document.title='owned'</script>": {}
  "<img src=http://192.0.2.1/x onerror=\"document.title='owned'\">": {}
leaderElection:
  resourceName: "</pre><h1 id=owned>x</h1>"
`

// rows returns the state of each controller on the page.
const rows = `Object.fromEntries(Array.from(document.querySelectorAll('tr[data-controller]'),
	r => [r.dataset.controller, r.dataset.state + ' ' + r.querySelector('.chip').innerText]))`

// pageInBrowser looks at the status page as a person with the right to monitor does.
func pageInBrowser(t *testing.T, m *manager.Process, monitor string) {
	b := openBrowser(t)
	b.resize(t, 1280, 1)
	header := map[string]string{"Authorization": "Bearer " + monitor}
	url := m.URL() + "/statusz"

	if err := m.Edit(t.Context(), func(c *manager.Config) { c.Controllers.CronJob.Enabled = ptr.To(false) }); err != nil {
		t.Fatal(err)
	}
	stopped := harness.Wait(t, m, "cronjob-controller is off and the others run", cronJobIs(supervisor.Disabled))
	b.open(t, url, header)
	showsControllers(t, b, stopped)
	if got := b.text(t, "#verdict"); got != "Everything runs as configured" {
		t.Errorf("the verdict is %q", got)
	}
	if got := b.text(t, "#reloads details[open]"); !strings.Contains(got, "controllers.cronjob-controller.enabled: (not set) → false") {
		t.Errorf("the newest reload is shown as %q", got)
	}
	if got := b.text(t, `tr[data-lock="main"]`); !strings.Contains(got, "leads") || !strings.Contains(got, stopped.Leadership.Lease.Holder) {
		t.Errorf("the lease is shown as %q", got)
	}
	if got := b.text(t, `tr[data-informer="deployments.apps"]`); !strings.Contains(got, "synced") {
		t.Errorf("a cache is shown as %q", got)
	}
	drawsPlots(t, b, url, header)
	b.screenshot(t, "good")
	harmless(t, b)

	if err := m.Write([]byte(hostile)); err != nil {
		t.Fatal(err)
	}
	rejected := harness.Wait(t, m, "the hostile edit is rejected", func(s *runtime.Status) error {
		if s.Configuration.Rejected == "" {
			return errors.New("it is not")
		}
		return nil
	})
	b.open(t, url+"?refresh=60", header)
	showsControllers(t, b, rejected)
	if got := b.text(t, "#rejected"); got != strings.TrimSpace(rejected.Configuration.Rejected) || !strings.Contains(got, "<script>") {
		t.Errorf("the rejected edit is shown as\n%s\nwant\n%s", got, rejected.Configuration.Rejected)
	}
	if got := b.text(t, "#verdict"); !strings.HasPrefix(got, "The configuration file was rejected") {
		t.Errorf("the verdict is %q", got)
	}
	b.screenshot(t, "rejected")
	harmless(t, b)
	onAPhone(t, b)

	if err := m.Edit(t.Context(), func(c *manager.Config) { c.Controllers.CronJob.Enabled = nil }); err != nil {
		t.Fatal(err)
	}
	harness.Wait(t, m, "cronjob-controller runs again", cronJobIs(supervisor.Running))
	asked(t, b, m)
}

// cronJobIs checks that the controller is in a state, and that no other is about to change.
func cronJobIs(state supervisor.State) func(*runtime.Status) error {
	return func(s *runtime.Status) error {
		for _, c := range s.Controllers {
			if c.Pending || (c.Name == cronJob && c.State != state) {
				return fmt.Errorf("%s is %s", c.Name, c.State)
			}
		}
		return nil
	}
}

func showsControllers(t *testing.T, b *browser, s runtime.Status) {
	t.Helper()
	var shown map[string]string
	b.evaluate(t, rows, &shown)
	if len(shown) != len(s.Controllers) || len(shown) < 20 {
		t.Errorf("%d controllers are shown, there are %d", len(shown), len(s.Controllers))
	}
	for _, c := range s.Controllers {
		if want := fmt.Sprintf("%s %s", c.State, c.State); shown[c.Name] != want {
			t.Errorf("%s is shown as %q, want %q", c.Name, shown[c.Name], want)
		}
	}
}

// drawsPlots has the controllers do something, loads the page until there is another sample, and
// looks at what is drawn of it.
func drawsPlots(t *testing.T, b *browser, url string, header map[string]string) {
	t.Helper()
	const (
		total = `[data-plot="Keys done per second"] svg.plot polyline`
		one   = `tr[data-controller="root-ca-certificate-publisher-controller"] td[data-label="Done"] svg.spark polyline`
	)
	plane.Namespace(t)
	await.That(t, "the page shows how many keys were done", func(context.Context) error {
		b.open(t, url, header)
		var drawn bool
		b.evaluate(t, fmt.Sprintf("!!document.querySelector(%q) && !!document.querySelector(%q)", total, one), &drawn)
		if !drawn {
			return errors.New("it does not")
		}
		return nil
	})
	var shown struct {
		Points, Width, Height int
		Stroke, Fill          string
		Plots                 int
	}
	b.evaluate(t, fmt.Sprintf(`(line => ({Points: line.points.numberOfItems, Width: Math.round(line.getBoundingClientRect().width),
		Height: Math.round(line.ownerSVGElement.getBoundingClientRect().height), Stroke: getComputedStyle(line).stroke,
		Fill: getComputedStyle(line).fill, Plots: document.querySelectorAll('[data-plot]').length}))(document.querySelector(%q))`, total), &shown)
	if shown.Points < 2 || shown.Width < 1 || shown.Height != 60 || shown.Stroke == "none" || shown.Fill != "none" || shown.Plots != 2 {
		t.Errorf("the plot is drawn as %+v", shown)
	}
}

// harmless checks that nothing of what the page shows was taken for markup, and that the
// page asked for nothing but itself and complained about nothing.
func harmless(t *testing.T, b *browser) {
	t.Helper()
	var found struct {
		Title             string
		Scripts, Pictures int
		Owned, Styled     bool
	}
	b.evaluate(t, `({Title: document.title, Scripts: document.scripts.length, Pictures: document.images.length,
		Owned: !!document.getElementById('owned'), Styled: getComputedStyle(document.querySelector('.card')).borderTopWidth === '1px'})`, &found)
	if found.Scripts+found.Pictures > 0 || found.Owned || strings.Contains(found.Title, "owned") {
		t.Errorf("markup got through: %+v", found)
	}
	if !found.Styled {
		t.Error("the policy keeps the page from its own style")
	}
	if problems := b.events("Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded"); len(problems) > 0 {
		t.Errorf("the console says %s", problems)
	}
	var urls []string
	for _, request := range b.events("Network.requestWillBeSent") {
		var sent struct{ Request struct{ URL string } }
		if err := json.Unmarshal([]byte(request), &sent); err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(sent.Request.URL, "data:") {
			urls = append(urls, sent.Request.URL)
		}
	}
	if len(urls) != 1 || !strings.Contains(urls[0], "/statusz") {
		t.Errorf("the page asked for %s", urls)
	}
}

// onAPhone checks that nothing is wider than a small screen.
func onAPhone(t *testing.T, b *browser) {
	t.Helper()
	const width = 360
	b.resize(t, width, 2)
	var wide int
	b.evaluate(t, "document.documentElement.scrollWidth", &wide)
	if wide > width {
		t.Errorf("the page is %d pixels wide on a screen of %d", wide, width)
	}
	b.screenshot(t, "phone")
}

// asked checks that the page is for whom it is for: without the token there is none.
func asked(t *testing.T, b *browser, m *manager.Process) {
	t.Helper()
	b.open(t, m.URL()+"/statusz", map[string]string{})
	if got := b.text(t, "body"); !strings.Contains(got, "forbidden") || strings.Contains(got, deployment) {
		t.Errorf("without a token the page shows %q", got)
	}
	page, err := ask(t, m.Client(), http.MethodGet, m.URL()+"/statusz", "", http.Header{"Accept": {"text/html"}})
	if err != nil {
		t.Fatal(err)
	}
	policy := page.header.Get("Content-Security-Policy")
	for _, part := range []string{"default-src 'none'", "base-uri 'none'", "form-action 'none'", "frame-ancestors 'none'"} {
		if !slices.Contains(strings.Split(policy, "; "), part) {
			t.Errorf("the policy is %q, without %s", policy, part)
		}
	}
}
