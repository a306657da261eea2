package promises

import (
	"bytes"
	"context"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/config"
	"kcmd.dev/pkg/runtime"
	"kcmd.dev/pkg/runtime/source"
	"kcmd.dev/pkg/runtime/telemetry"
	"kcmd.dev/test/await"
	"kcmd.dev/test/integration/harness"
	"kcmd.dev/test/manager"
)

const (
	successes = `kcmd_config_automatic_reloads_total{status="success"}`
	failures  = `kcmd_config_automatic_reloads_total{status="failure"}`
)

// bad is one way in which a file can be bad.
type bad struct {
	name string
	// spoil puts something bad in the place of the file, in one step. good is what it holds.
	spoil func(t *testing.T, path string, good []byte)
	// says is part of the reason that is shown.
	says string
}

// bads are all of them, in groups: events about one object are rate limited in the client,
// so each group has a manager, and with it a lease, of its own.
func bads() [][]bad {
	return [][]bad{
		{
			{"syntax error", content("controllers: [\n"), "not valid YAML"},
			{"unknown field", replaced("reload:", "relod:"), "relod"},
			{"wrong type", replaced("leaderElect: true", "leaderElect: [yes]"), "leaderElection.leaderElect"},
			{"duplicate key", added("resync: {minPeriod: 1h}\n"), "resync"},
			{"half-written", half, "not valid YAML"},
			{"empty", content(""), "an empty file is not a configuration"},
			{"only white space", content("\n\n \n"), "an empty file is not a configuration"},
		},
		{
			{"deleted", deleted, "no such file or directory"},
			{"directory in its place", directory, "is a directory"},
			{"link to itself", link("config.yaml"), "too many levels of symbolic links"},
			{"dangling link", link("nowhere/config.yaml"), "no such file or directory"},
			{"named pipe", pipe, "not a regular file"},
			{"ten megabytes", content("#" + strings.Repeat("x", 10<<20) + "\n"), "larger than the limit"},
			{"binary", content("\x7fELF\x00\x01\xff\xfe"), "NUL byte"},
		},
		{
			{"deep nesting", added("controllers2: " + strings.Repeat("[", 10_000) + strings.Repeat("]", 10_000) + "\n"), ""},
			{"deep mapping", added("deep: " + strings.Repeat("{a: ", 500) + "1" + strings.Repeat("}", 500) + "\n"), "nested deeper than"},
			{"anchors that multiply", added(bomb()), "aliases expand to more than"},
			{"anchor that contains itself", added("loop: &a [*a]\n"), "the anchor &a contains itself"},
			{"another kind", replaced("kind: KubeControllerManagerConfiguration", "kind: KubeSchedulerConfiguration"), "kind"},
			{"another version", replaced("config.kcmd.dev/v1beta1", "config.kcmd.dev/v9"), "apiVersion"},
			{"two documents", added("---\napiVersion: v1\n"), "a second document starts here"},
		},
		{
			{"unknown controller", replaced("  deployment-controller:", "  deploymint-controller:"), "deployment-controller"},
			{"alias of a controller", replaced("  deployment-controller:", "  deployment:"), "deployment-controller"},
			{"no workers", edited(workers(0)), "controllers.deployment-controller.concurrentSyncs"},
			{"impossible lease timings", edited(func(c *manager.Config) {
				c.LeaderElection.RenewDeadline = &metav1.Duration{Duration: time.Minute}
			}), "leaderElection"},
			{"missing key file", edited(func(c *manager.Config) {
				c.ServiceAccounts.PrivateKeyFile = filepath.Join(plane.Dir(), "missing.key")
			}), "serviceAccounts.privateKeyFile"},
			{"certificate in place of a key", edited(func(c *manager.Config) {
				c.ServiceAccounts.PrivateKeyFile = plane.RootCAFile()
			}), "contains no private key"},
			{"many problems in other letters", added(unknownFields(60)), "größe"},
		},
		{
			{"missing kubeconfig", edited(func(c *manager.Config) {
				c.ClientConnection.Kubeconfig = filepath.Join(plane.Dir(), "missing.conf")
			}), "clientConnection.kubeconfig"},
			{"kubeconfig that does not load", edited(func(c *manager.Config) {
				c.ClientConnection.Kubeconfig = plane.RootCAFile()
			}), "is not a valid kubeconfig"},
			{"controller's file is a directory", edited(func(c *manager.Config) {
				c.ServiceAccounts.RootCAFile = plane.Dir()
			}), "is not a file"},
			{"serving port taken", edited(func(c *manager.Config) {
				c.Serving.Port = ptr.To(apiServerPort())
			}), "address already in use"},
			{"two problems at once", edited(func(c *manager.Config) {
				workers(0)(c)
				c.ServiceAccounts.PrivateKeyFile = "/nowhere"
				c.LeaderElection.ResourceName = "Not A Name"
			}), "leaderElection.resourceName"},
		},
	}
}

// Promise 4: an invalid, half-written, vanished or reverted file never stops or changes a
// running controller.
func TestBadFileChangesNothing(t *testing.T) {
	for n, group := range bads() {
		t.Run(fmt.Sprintf("group%d", n), func(t *testing.T) {
			lease := harness.LeaseOf(t)
			m := start(t, func(c *manager.Config) { harness.Settle(20 * time.Millisecond)(c) })
			for _, b := range group {
				t.Run(b.name, func(t *testing.T) { tryBadFile(t, m, lease, b) })
			}
		})
	}
}

func tryBadFile(t *testing.T, m *manager.Manager, lease string, b bad) {
	good, err := os.ReadFile(m.ConfigFile())
	if err != nil {
		t.Fatal(err)
	}
	before, counted := harness.Status(t, m), series(t, m)
	keepsRunning := func(when string, generation uint64) {
		t.Helper()
		s := harness.Status(t, m)
		if s.Configuration.Generation != generation {
			t.Errorf("%s generation %d is in force, want %d", when, s.Configuration.Generation, generation)
		}
		harness.SameInstances(t, harness.Instances(before), harness.Instances(s))
	}
	generation := before.Configuration.Generation

	reason := reject(t, m, b, good)
	keepsRunning("with the bad file", generation)
	now := series(t, m)
	if now[failures] != counted[failures]+1 || now[successes] != counted[successes] {
		t.Errorf("failures went from %v to %v, successes from %v to %v", counted[failures], now[failures], counted[successes], now[successes])
	}
	wantRejectedEvent(t, lease, generation, reason)

	// What was there before: the same content is no reload, and no longer rejected.
	put(t, m.ConfigFile(), good)
	harness.Wait(t, m, "the file is no longer rejected", notRejected)
	keepsRunning("with the previous content", generation)

	// Something else that is good.
	reject(t, m, b, good)
	put(t, m.ConfigFile(), append(bytes.Clone(good), "# "+b.name+"\n"...))
	harness.Wait(t, m, "the good file is in force", func(s *runtime.Status) error {
		if newest(s).Status != telemetry.Success || s.Configuration.Generation != generation+1 {
			return fmt.Errorf("generation %d is in force", s.Configuration.Generation)
		}
		return notRejected(s)
	})
	keepsRunning("with the next good file", generation+1)
	now = series(t, m)
	if now[failures] != counted[failures]+2 || now[successes] != counted[successes]+1 {
		t.Errorf("in the end failures went from %v to %v, successes from %v to %v", counted[failures], now[failures], counted[successes], now[successes])
	}
}

// reject makes the file bad, waits until it is rejected, and returns the reason shown,
// which has to be exactly what is wrong with the file.
func reject(t *testing.T, m *manager.Manager, b bad, good []byte) string {
	t.Helper()
	last := newest(new(harness.Status(t, m)))
	b.spoil(t, m.ConfigFile(), good)
	var shown string
	harness.Wait(t, m, "the bad file is rejected", func(s *runtime.Status) error {
		r := newest(s)
		if !r.Time.After(last.Time) || r.Status != telemetry.Failure {
			return fmt.Errorf("the newest reload is %q of %v", r.Status, r.Time)
		}
		shown = s.Configuration.Rejected
		return nil
	})
	if want := problem(m.ConfigFile()); want != "" && shown != want {
		t.Errorf("the status shows\n%s\nwant\n%s", shown, want)
	}
	if !strings.Contains(shown, b.says) || shown == "" {
		t.Errorf("the status shows\n%s\nwithout %q", shown, b.says)
	}
	return shown
}

// problem is what is wrong with a file, in the words of the code that reads it; empty if
// the file is good as far as can be told without trying it.
func problem(path string) string {
	data, _, err := source.Read(path, config.MaxFileBytes+1)
	if err != nil {
		return err.Error()
	}
	document, err := config.Load(path, data)
	if err != nil {
		return err.Error()
	}
	if err := document.CheckFiles().AsError(); err != nil {
		return err.Error()
	}
	return ""
}

func notRejected(s *runtime.Status) error {
	if s.Configuration.Rejected != "" {
		return fmt.Errorf("the status shows: %s", s.Configuration.Rejected)
	}
	return nil
}

// wantRejectedEvent fails unless the lease carries an event with the reason.
func wantRejectedEvent(t *testing.T, lease string, generation uint64, reason string) {
	t.Helper()
	const longest = 1024
	want := fmt.Sprintf("Generation %d stays in force. %s", generation, reason)
	selector := fields.Set{"involvedObject.kind": "Lease", "involvedObject.name": lease, "reason": "ConfigurationRejected"}.String()
	await.That(t, "the event is recorded", func(context.Context) error {
		events, err := plane.AdminClient().CoreV1().Events(metav1.NamespaceSystem).List(t.Context(), metav1.ListOptions{FieldSelector: selector})
		if err != nil {
			return err
		}
		for _, e := range events.Items {
			cut, isCut := strings.CutSuffix(e.Message, "…")
			fits := e.Message == want || isCut && strings.HasPrefix(want, cut) && len(e.Message) > longest-utf8.UTFMax
			if fits && e.Type == corev1.EventTypeWarning && utf8.ValidString(e.Message) {
				return nil
			}
		}
		return fmt.Errorf("%d events, none of them %q", len(events.Items), want)
	})
}

// put replaces whatever is at the path by a file, in one step.
func put(t *testing.T, path string, data []byte) {
	t.Helper()
	temporary := path + ".next"
	if err := os.WriteFile(temporary, data, 0o600); err != nil {
		t.Fatal(err)
	}
	swap(t, path, temporary)
}

// swap puts what is at temporary in the place of what is at the path, also if one of them
// is a directory, and removes the latter.
func swap(t *testing.T, path, temporary string) {
	t.Helper()
	err := unix.Renameat2(unix.AT_FDCWD, temporary, unix.AT_FDCWD, path, unix.RENAME_EXCHANGE)
	if os.IsNotExist(err) {
		err = os.Rename(temporary, path)
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(temporary); err != nil {
		t.Fatal(err)
	}
}

func content(text string) func(*testing.T, string, []byte) {
	return func(t *testing.T, path string, _ []byte) { put(t, path, []byte(text)) }
}

func added(text string) func(*testing.T, string, []byte) {
	return func(t *testing.T, path string, good []byte) { put(t, path, append(bytes.Clone(good), text...)) }
}

func replaced(old, new string) func(*testing.T, string, []byte) {
	return func(t *testing.T, path string, good []byte) {
		next := bytes.Replace(good, []byte(old), []byte(new), 1)
		if bytes.Equal(next, good) {
			t.Fatalf("the file does not contain %q:\n%s", old, good)
		}
		put(t, path, next)
	}
}

func edited(change func(*manager.Config)) func(*testing.T, string, []byte) {
	return func(t *testing.T, path string, good []byte) {
		document, err := config.Load(path, good)
		if err != nil {
			t.Fatal(err)
		}
		c := document.Config.DeepCopy()
		change(c)
		data, err := config.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		put(t, path, data)
	}
}

// half cuts the file in the middle of a key: a writer that was interrupted.
func half(t *testing.T, path string, good []byte) {
	key := []byte("renewDeadline")
	at := bytes.Index(good, key)
	if at < 0 {
		t.Fatalf("the file does not contain %q", key)
	}
	put(t, path, good[:at+len(key)/2])
}

func deleted(t *testing.T, path string, _ []byte) {
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
}

func directory(t *testing.T, path string, _ []byte) {
	if err := os.Mkdir(path+".next", 0o700); err != nil {
		t.Fatal(err)
	}
	swap(t, path, path+".next")
}

func link(target string) func(*testing.T, string, []byte) {
	return func(t *testing.T, path string, _ []byte) {
		if err := os.Symlink(target, path+".next"); err != nil {
			t.Fatal(err)
		}
		swap(t, path, path+".next")
	}
}

func pipe(t *testing.T, path string, _ []byte) {
	if err := unix.Mkfifo(path+".next", 0o600); err != nil {
		t.Fatal(err)
	}
	swap(t, path, path+".next")
}

// bomb is a few lines that stand for a billion values.
func bomb() string {
	var b strings.Builder
	b.WriteString("bomb:\n  a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n")
	for i := 1; i < 9; i++ {
		fmt.Fprintf(&b, "  a%d: &a%d [%s]\n", i, i, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*a%d, ", i-1), 10), ", "))
	}
	return b.String()
}

func unknownFields(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "größe%s%d: 1\n", strings.Repeat("ß", i), i)
	}
	return b.String()
}

// apiServerPort is a port of the loopback address that is taken.
func apiServerPort() int32 {
	address, _ := url.Parse(plane.URL())
	port, _ := strconv.ParseInt(address.Port(), 10, 32)
	return int32(port)
}
