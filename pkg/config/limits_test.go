package config

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"
)

// The limits of package tree.
const (
	separators = 100_000
	values     = 20_000
)

// hostile are files that aim at the parser or at checks that compare values with each other,
// as large as the limits allow.
func hostile() map[string]string {
	const most = separators - 100
	numbered := func(count int, format string) string {
		var b strings.Builder
		for i := range count {
			fmt.Fprintf(&b, format, i)
		}
		return b.String()
	}
	ladder := func(levels int) string {
		var b strings.Builder
		for i := range levels {
			b.WriteString(strings.Repeat(" ", i) + "a:\n")
		}
		return b.String()
	}
	return map[string]string{
		"list of the parser":     "a: [" + strings.Repeat("1,", most) + "]\n",
		"list":                   "serving: {tls: {cipherSuites: [" + numbered(19_000, "a%d,") + "]}}\n",
		"list of alternatives":   "serving: {tls: {curvePreferences: [" + numbered(19_000, "X%d,") + "]}}\n",
		"host names":             "serving: {tls: {sniCertificates: [{certFile: a, privateKeyFile: b, names: [" + numbered(19_000, "a%d,") + "]}]}}\n",
		"flow lists in lists":    "a: " + strings.Repeat("[", most),
		"flow mappings in each":  "a: " + strings.Repeat("{a: ", 49_000),
		"10000 lists in lists":   "a: " + strings.Repeat("[", 10_000) + strings.Repeat("]", 10_000) + "\n",
		"lists in lists":         "a:\n" + strings.Repeat("- ", most) + "\n",
		"1400 levels":            ladder(1400),
		"keys":                   numbered(49_000, "k%d: 1\n"),
		"keys and indentation":   "a:\n" + numbered(11_000, "  k%d: 1\n") + " b: 1\n",
		"one key many times":     strings.Repeat("resync: {}\n", 30_000),
		"gates":                  "featureGates:\n" + numbered(19_000, "  GenericWorkloa%d: true\n"),
		"metric labels":          "metrics:\n  allowListMapping:\n" + numbered(19_000, "    m%d,l: v\n"),
		"disabled metrics":       "metrics: {disabledMetrics: [" + numbered(9_000, "m%d,") + "], allowListMapping: {" + numbered(9_000, "\"m%d,l\": v, ") + "}}\n",
		"groups":                 "leaderElection:\n  groups:\n" + numbered(4_900, "  - {name: g%d, controllers: [job-controller]}\n"),
		"controllers of a group": "leaderElection: {groups: [{name: a, controllers: [" + numbered(19_000, "job-controlle%d,") + "]}]}\n",
		"groups and migration":   "leaderMigration:\n  enabled: true\n  controllerLeaders:\n" + strings.Repeat("  - {name: job-controller, component: a}\n", 3_000) + "leaderElection:\n  groups:\n" + numbered(2_400, "  - {name: g%d, controllers: [job-controller]}\n"),
		"unknown controllers":    "controllers:\n" + numbered(19_000, "  deployment-controlle%d: {}\n"),
		"anchors":                numbered(24_000, "k%d: &a 1\n"),
		"aliases":                "resync: &r {minPeriod: 1h}\n" + numbered(24_000, "k%d: *r\n"),
		"merges":                 "resync: &r {minPeriod: 1h}\nreload: {" + strings.Repeat("<<: *r, ", 24_000) + "}\n",
		"billion laughs":         "a: &a [x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b]\nd: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c]\ne: [*d,*d,*d,*d,*d,*d,*d,*d,*d]\n",
		"tags":                   "a: [" + strings.Repeat("!!a b,", most) + "]\n",
		"questions":              strings.Repeat("? ", most),
		"empty documents":        strings.Repeat("---\n", 25_000),
		"documents":              strings.Repeat("--- 1\n", 20_000),
		"long text":              "clientConnection: {kubeconfig: \"" + strings.Repeat(`\n`, 500_000) + "\"}\n",
		"long key":               strings.Repeat("a", 1_000_000) + ": 1\n",
		"long words":             "emulatedVersion: " + strings.Repeat("1", 1_000_000) + "\n",
		"media types":            "clientConnection: {acceptContentTypes: '" + strings.Repeat("a/b,", most) + "'}\n",
		"ranges":                 "networking: {clusterCIDRs: [" + numbered(19_000, "10.%d.0.0/16,") + "]}\n",
		"comments":               strings.Repeat("#\n", 500_000),
		"log patterns":           "logging: {vmodule: [" + numbered(4_900, "{filePattern: a%d, verbosity: 1},") + "]}\n",
		"headers":                "serving: {authentication: {requestHeader: {clientCAFile: a, usernameHeaders: [" + numbered(19_000, "a%d,") + "]}}}\n",
	}
}

// What Load may take of any file: a second, with room for the instrumentation of fuzzing and for other tests on the
// same machine, and 200 MiB. Memory is what was allocated in total, which is more than was ever in use and does not
// depend on when it is collected.
const (
	slowest = 5 * time.Second
	mostMiB = 200
)

// loadBounded is Load, and fails if that takes more than it may. Under the race detector nothing is measured: it makes
// everything slower, and pools of memory forget what they hold.
func loadBounded(t *testing.T, data []byte) (*Document, error) {
	t.Helper()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	start := time.Now()
	doc, err := Load("f.yaml", data)
	took := time.Since(start)
	runtime.ReadMemStats(&after)
	allocated := (after.TotalAlloc - before.TotalAlloc) >> 20
	t.Logf("%d bytes took %s and %d MiB", len(data), took.Round(time.Millisecond), allocated)
	if !raceDetector && (took > slowest || allocated > mostMiB) {
		t.Errorf("took %s and %d MiB, want at most %s and %d MiB", took, allocated, slowest, mostMiB)
	}
	return doc, err
}

// Whatever is in a file, it is refused or read within the limits.
func TestHostileFilesTakeLittle(t *testing.T) {
	if raceDetector {
		t.Skip("make unit runs this by itself, without the race detector")
	}
	for name, text := range hostile() {
		t.Run(name, func(t *testing.T) {
			data := []byte(header + text)
			if len(data) > MaxFileBytes {
				t.Fatalf("the file has %d bytes, more than are read", len(data))
			}
			_, _ = loadBounded(t, data) // what it says of such files is tested elsewhere
		})
	}
}

func TestLimitsAreReported(t *testing.T) {
	tests := []struct{ name, text, want string }{
		{"separators", "a: [" + strings.Repeat("1,", separators) + "]\n", "f.yaml:1:1: the file has more than 100000 value separators: a configuration has at most 20000 values"},
		{"values", "serving: {tls: {cipherSuites: [" + strings.Repeat("a,", values) + "]}}\n", "f.yaml:3:40020: serving.tls.cipherSuites[19994]: the file has more than 20000 values"},
		{"depth", "a: " + strings.Repeat("[", 100) + strings.Repeat("]", 100) + "\n",
			"f.yaml:3:67: a" + strings.Repeat("[0]", 26) + "[…: nested deeper than 64 levels"},
		{"aliases", "a: &a [x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b]\nd: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c]\nresync: {<<: [*d, *d]}\n",
			"f.yaml:3:14: resync[0][0][8][0][3]: aliases expand to more than 10000 values"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if got := problemsOf(t, header+test.text); got != test.want {
				t.Errorf("problems = %.300s, want %s", got, test.want)
			}
		})
	}
	if problems := problemsOf(t, header+strings.Repeat("# a: b, c\n", 100_000)); problems != "" {
		t.Errorf("a file of comments has problems: %s", problems)
	}
}
