package statuspage

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"html"
	"reflect"
	"strings"
	"testing"
)

// everything is a view in which each part of the page appears, in each of its forms.
func everything() View {
	return View{
		Refresh: 5,
		Title:   "▲ kube-controller-manager: trouble", Version: "v1.36.3-kcmd.1", Host: "node-1", Uptime: "26h", Now: "2026-11-21T16:00:00Z",
		Verdict: Verdict{Bad, "1 controller is not healthy: job-controller"},
		Cards:   []Card{{"Leases held", "1 of 2", "term 2"}, {"Work", "31 queued", "7 in flight"}},
		Span:    "the last 10 minutes", Plots: []Plot{{Label: "Keys waiting", Now: "31", Most: "at most 40", Points: []Point{{X: 0, Y: 0.5}, {X: 1, Y: 1}}}},
		Configuration: Configuration{
			File: "/etc/kcmd/config.yaml", Hash: "5d41402abc4b", Generation: 7, Rejected: "config.yaml:14:22: must be 1 to 1000, not 0",
			LastGood: "kept in /lib/last-good.yaml", NotKept: "no space left on device",
		},
		Connection: Connection{Server: "https://10.0.0.1:6443", Generation: 3, Renewed: 2, Error: "the token is empty"},
		Leases: []Lease{
			{Lock: "main", State: "leads", Tone: Good, Holder: "node-1_3f", Term: 2, Renewed: "1s ago", Transitions: 4, Controllers: []string{"deployment-controller", "job-controller"}},
			{Lock: "group/nodes", State: "standby", Tone: Calm, Holder: "node-2_9c", Error: "no answer in time", Renewed: "2s ago", Blocked: []string{"node-ipam-controller waits"}},
		},
		Running: 1,
		Controllers: []Controller{
			{Name: "job-controller", State: "BackingOff", Tone: Bad, Problem: "failed", LastError: "panic: x", LastErrorAge: "8s ago", Restarts: []string{"4× panic"}},
			{Name: "deployment-controller", State: "Running", Tone: Good, Generation: 3, Up: "41m", Loops: 1, Queued: 31, Workers: 20, Done: 120441, Failed: 17,
				QueuedPast: []Point{{X: 0.5, Y: 1}, {X: 1, Y: 0}}, DonePast: []Point{{X: 0.25, Y: 0.5}, {X: 1, Y: 1}},
				InFlight: []Key{{"shop/checkout", "2s"}, {"shop/cart", "0s"}}, More: 5},
			{Name: "replicaset-controller", State: "Stopping", Tone: Warn, Generation: 1, Loops: 1},
			{Name: "cronjob-controller", State: "Disabled", Tone: Calm, Reason: "the configuration turns it off"},
		},
		Reloads: []Reload{
			{Time: "2026-11-21T15:59:00Z", Age: "60s ago", Took: "took 0.031 s", Status: "rejected", Tone: Bad, Generation: 7, Error: "must be 1 to 1000", Open: true},
			{Time: "2026-11-21T15:19:00Z", Age: "41m ago", Took: "took 0.012 s", Status: "applied", Tone: Good, Generation: 6, Rest: "2 controllers keep running.",
				Steps: []Step{{What: "restart", Subject: "deployment-controller", Detail: "concurrentSyncs: 5 → 20", Tone: Warn}, {What: "in place", Detail: "verbosity: 0 → 2", Tone: Good}}},
		},
		Objects: 4232,
		Informers: []Informer{
			{Name: "pods", State: "filling", Tone: Warn, Form: "Typed", Error: "pods is forbidden", Handlers: 9, Readers: []string{"job-controller"}},
			{Name: "configmaps", Filter: "fields metadata.name=x", State: "synced", Tone: Good, Form: "Metadata", Objects: 112, Idle: "for 60s"},
		},
	}
}

func render(t *testing.T, v View) string {
	t.Helper()
	page, err := Render(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(page)
}

func TestThePageShowsEverything(t *testing.T) {
	page := render(t, everything())
	if !strings.HasPrefix(page, "<!DOCTYPE html>\n") {
		t.Error("browsers take the page for one of the last century")
	}
	for _, part := range []string{
		`<html lang="en"><head><meta charset="utf-8">`, `<meta http-equiv="refresh" content="5"><title>▲ kube-controller-manager: trouble</title><link rel="icon" href="data:,">`,
		`<p class="sub">v1.36.3-kcmd.1 on node-1 · up 26h · as of <time datetime="2026-11-21T16:00:00Z">2026-11-21T16:00:00Z</time></p>`,
		`<div class="banner bad" id="verdict" role="status">1 controller is not healthy: job-controller</div>`,
		`<div class="card"><dt>Leases held</dt><dd>1 of 2<small>term 2</small></dd></div>`,

		`<section id="work"><h2>Work <small>the last 10 minutes</small></h2><div class="cards"><div class="card" data-plot="Keys waiting"><dl><dt>Keys waiting</dt><dd>31<small>at most 40</small></dd></dl>` +
			`<svg class="plot" role="img" aria-label="Keys waiting, at most 40" viewBox="0 0 300 60" preserveAspectRatio="none">` +
			`<polygon points="0.0,60.0 0.0,30.0 300.0,1.0 300.0,60.0"></polygon><polyline points="0.0,30.0 300.0,1.0"></polyline></svg></div></div></section>`,
		`31<svg class="spark" role="img" aria-label="keys queued, the last 10 minutes" viewBox="0 0 80 16" preserveAspectRatio="none">`,
		`120441<svg class="spark" role="img" aria-label="keys done per second, the last 10 minutes"`,

		`<section id="configuration"><h2>Configuration</h2><div class="panel pad"><dl class="facts"><dt>File</dt><dd class="mono">/etc/kcmd/config.yaml</dd>`,
		`<dd>generation 7, <span class="mono">sha256:5d41402abc4b</span></dd>`, `<span class="chip bad">rejected</span> generation 7 stays in force`,
		`<dt>Instead of the file</dt><dd><span class="chip bad">last good configuration</span> kept in /lib/last-good.yaml</dd>`,
		`<dt>Kept as the last good</dt><dd><span class="problem">no space left on device</span></dd>`,
		`<pre id="rejected">config.yaml:14:22: must be 1 to 1000, not 0</pre>`,

		`<section id="leases"><h2>Leases <small>and the API server</small></h2>`, `<dd class="mono">https://10.0.0.1:6443</dd>`,
		`<span class="problem">the token is empty</span>, renewed 2 times<span class="quiet"> (connection 3)</span>`,
		`<th>Holder</th><th class="number">Term</th>`, `<tr data-lock="main"><td data-label="Lock" class="name">main</td><td data-label="This process"><span class="chip good">leads</span></td>`,
		`<details class="plain"><summary>2</summary>deployment-controller<br>job-controller<br></details>`,
		`<span class="mono">node-2_9c</span><div class="problem below">no answer in time</div>`, `<div>–<div class="problem">node-ipam-controller waits</div></div>`,

		`<h2>Controllers <small>1 of 4 run</small></h2>`, `<tr data-controller="job-controller" data-state="BackingOff">`,
		`<div class="problem below">failed</div><details class="plain below"><summary>last error, 8s ago</summary><div class="problem">panic: x</div></details>`,
		`<div>–<div class="quiet below">4× panic</div></div>`, `<div>#3 <span class="quiet">up 41m</span></div>`, `<div>#1</div>`,
		`<td data-label="Queued" class="number none"></td><td data-label="In flight" class="none"></td>`,
		`<td data-label="Queued" class="number">31<svg `, `<td data-label="Queued" class="number">0</td>`, `<td data-label="Done" class="number">120441<svg `, `</td><td data-label="Failed" class="number">17</td>`,
		`<li><span class="mono">shop/cart</span> <span class="quiet">0s</span></li><li class="quiet">and 5 more</li>`, `<div class="quiet below">the configuration turns it off</div>`,

		`<h2>Reloads <small>newest first</small></h2><div class="panel"><details open data-generation="7"><summary><span class="chip bad">rejected</span> 2026-11-21T15:59:00Z `,
		`<span class="quiet">60s ago · generation 7 in force · took 0.031 s</span></summary><pre>must be 1 to 1000</pre></details><details data-generation="6">`,
		`<span class="what"><span class="chip warn">restart</span></span> <strong>deployment-controller</strong> <span class="mono">concurrentSyncs: 5 → 20</span></li>`,
		`<span class="chip good">in place</span></span> <span class="mono">verbosity: 0 → 2</span></li></ul><p class="quiet below">2 controllers keep running.</p>`,

		`<h2>Caches <small>2 informers, 4232 objects</small></h2>`, `<tr data-informer="pods">`, `pods<div class="problem below">pods is forbidden</div>`,
		`configmaps<div class="quiet below mono">fields metadata.name=x</div>`, `<td data-label="Form">Metadata</td><td data-label="Objects" class="number">112</td>`, `<span class="quiet">nobody, for 60s</span>`,

		`<a href="?refresh=5">every 5 seconds</a> <a href="?">not again</a> <a href="/statusz?format=json">JSON</a> <a href="/configz">configuration</a>`,
	} {
		if !strings.Contains(page, part) {
			t.Errorf("the page does not contain %s", part)
		}
	}
}

func TestAnEmptyViewMakesAPage(t *testing.T) {
	page := render(t, View{})
	for _, part := range []string{
		`<span class="chip good">in force</span>`, `<dd>in use<span class="quiet"> (connection 0)</span></dd>`, "0 of 0 run", "0 informers, 0 objects",
		`<details><summary class="quiet">The file has not changed since the process started.</summary></details>`,
	} {
		if !strings.Contains(page, part) {
			t.Errorf("the page does not contain %s", part)
		}
	}
	for _, part := range []string{"http-equiv", "<pre", "renewed", "<td", " open", "ast good"} {
		if strings.Contains(strings.ReplaceAll(page, style, ""), part) {
			t.Errorf("the page contains %s", part)
		}
	}
}

// The policy allows exactly the style that is in the page.
func TestThePolicyFitsThePage(t *testing.T) {
	_, rest, found := strings.Cut(render(t, View{}), "<style>")
	style, _, closed := strings.Cut(rest, "</style>")
	if !found || !closed {
		t.Fatal("there is no style")
	}
	hash := sha256.Sum256([]byte(style))
	if want := "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(hash[:]) + "'; "; !strings.HasPrefix(Policy(), want) {
		t.Errorf("the policy is %q, want it to begin with %q", Policy(), want)
	}
}

// hostile fills every text below v with markup that names the field, and returns the texts.
func hostile(v reflect.Value, path string) []string {
	var texts []string
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			texts = append(texts, hostile(v.Field(i), path+"."+v.Type().Field(i).Name)...)
		}
	case reflect.Slice:
		for i := range v.Len() {
			texts = append(texts, hostile(v.Index(i), fmt.Sprintf("%s[%d]", path, i))...)
		}
	case reflect.String:
		if v.Len() > 0 {
			v.SetString(`"'></style></pre><img alt=x> &amp; ` + path + ".")
			texts = append(texts, v.String())
		}
	}
	return texts
}

// Each text of the view is on the page, in an attribute or not, and none is taken for markup.
func TestEveryTextIsShownAndEscaped(t *testing.T) {
	v := everything()
	texts := hostile(reflect.ValueOf(&v).Elem(), "View")
	page := render(t, v)
	for _, text := range texts {
		if !strings.Contains(page, html.EscapeString(text)) {
			t.Errorf("the page does not contain %s", text)
		}
	}
	if strings.Contains(page, "<img") || strings.Contains(page, "'></style") || strings.Count(page, "</style>") != 1 {
		t.Errorf("a text is taken for markup:\n%s", page)
	}
	for name, value := range map[string]string{
		"datetime": v.Now, "data-lock": v.Leases[0].Lock, "data-controller": v.Controllers[0].Name,
		"data-state": v.Controllers[0].State, "data-informer": v.Informers[0].Name,
		"class": "chip " + string(v.Leases[0].Tone),
	} {
		if attribute := " " + name + `="` + html.EscapeString(value) + `"`; !strings.Contains(page, attribute) {
			t.Errorf("the page does not contain%s", attribute)
		}
	}
}

// What the escaping test fills are the texts of the fixture, so each field has to be in it.
func TestTheFixtureHasEverything(t *testing.T) {
	seen := map[string]bool{}
	collect(reflect.ValueOf(everything()), "View", seen)
	for field, set := range seen {
		if !set {
			t.Errorf("nothing of the fixture has a %s", field)
		}
	}
}

// collect notes of each field below v whether it is set anywhere.
func collect(v reflect.Value, path string, seen map[string]bool) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			collect(v.Field(i), v.Type().Name()+"."+v.Type().Field(i).Name, seen)
		}
	case reflect.Slice:
		seen[path] = seen[path] || v.Len() > 0
		for i := range v.Len() {
			collect(v.Index(i), path, seen)
		}
	default:
		seen[path] = seen[path] || !v.IsZero()
	}
}
