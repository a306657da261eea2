package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/config"
	"kcmd.dev/pkg/config/plan"
	"kcmd.dev/pkg/config/v1beta1"
	"kcmd.dev/pkg/controllers"
	"kcmd.dev/pkg/runtime"
	"kcmd.dev/test/controlplane/binaries"
)

// The README says that every controller of Kubernetes is included: those of
// kube-controller-manager, as docs/specs/controllers.md lists them, and cloud-node-controller,
// which only cloud controller managers have.
func TestEveryControllerOfKubernetesIsIncluded(t *testing.T) {
	root, err := binaries.Root()
	if err != nil {
		t.Fatal(err)
	}
	index, err := os.ReadFile(filepath.Join(root, "docs", "specs", "controllers.md"))
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"cloud-node-controller"}
	for _, row := range regexp.MustCompile(`(?m)^\| ([a-z-]+-controller) \|`).FindAllSubmatch(index, -1) {
		want = append(want, string(row[1]))
	}
	var got []string
	for _, d := range controllers.All() {
		got = append(got, d.Name)
	}
	slices.Sort(want)
	slices.Sort(got)
	if diff := cmp.Diff(slices.Compact(want), got); diff != "" {
		t.Errorf("the controllers of Kubernetes and those of the registry differ (-Kubernetes +registry):\n%s", diff)
	}
}

// The pages quote what check-config prints of edits of configs/sandbox.yaml. With -update the
// counts of controllers in them are written.
func TestQuotedPlansAreUpToDate(t *testing.T) {
	root, err := binaries.Root()
	if err != nil {
		t.Fatal(err)
	}
	for _, quote := range []struct {
		page, indent string
		edit         func(*v1beta1.KubeControllerManagerConfiguration)
	}{
		{"README.md", "", func(c *v1beta1.KubeControllerManagerConfiguration) {
			c.Controllers.Deployment.ConcurrentSyncs, c.Logging.Verbosity = ptr.To[int32](20), 4
		}},
		{"docs/commands.md", "", func(c *v1beta1.KubeControllerManagerConfiguration) {
			c.Controllers.Deployment.ConcurrentSyncs = ptr.To[int32](7)
		}},
		{"docs/commands.md", "  ", func(c *v1beta1.KubeControllerManagerConfiguration) {
			c.Controllers.Deployment.ConcurrentSyncs = ptr.To[int32](7)
		}},
	} {
		const sandbox = "configs/sandbox.yaml"
		data, err := os.ReadFile(filepath.Join(root, sandbox))
		if err != nil {
			t.Fatal(err)
		}
		document, err := config.Load(sandbox, data)
		if err != nil {
			t.Fatal(err)
		}
		edited := document.Config.DeepCopy()
		quote.edit(edited)
		path := filepath.Join(root, filepath.FromSlash(quote.page))
		page, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		want := plan.New(document.Config, edited, runtime.Subjects(controllers.All())).String()
		want = quote.indent + strings.ReplaceAll(strings.TrimSuffix(want, "\n"), "\n", "\n"+quote.indent) + "\n"
		switch outdated := exceptCounts(want); {
		case strings.Contains(string(page), "\n"+want):
		case *update && outdated.Match(page):
			if err := os.WriteFile(path, outdated.ReplaceAllLiteral(page, []byte("\n"+want)), 0o644); err != nil {
				t.Fatal(err)
			}
		default:
			t.Errorf("%s does not quote\n%srun make generate if it does but for the number of controllers", quote.page, want)
		}
	}
}

// exceptCounts matches a Plan on lines of its own, with any numbers of controllers.
func exceptCounts(text string) *regexp.Regexp {
	pattern := regexp.MustCompile(`\d+ controllers`).ReplaceAllString(regexp.QuoteMeta(text), `\d+ controllers`)
	return regexp.MustCompile("\n" + pattern)
}

// The README quotes what check-config prints of a broken edit of configs/sandbox.yaml.
func TestQuotedErrorsAreUpToDate(t *testing.T) {
	root, err := binaries.Root()
	if err != nil {
		t.Fatal(err)
	}
	sandbox, err := os.ReadFile(filepath.Join(root, "configs", "sandbox.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	broken := strings.Replace(string(sandbox), "\n    concurrentSyncs: 5\n  replicaset-controller:\n", "\n    concurrentSyncs: 0\n  replicasets-controller:\n", 1)
	_, problems := config.Load("broken.yaml", []byte(broken))
	if problems == nil {
		t.Fatal("the edit is not broken")
	}
	page, err := os.ReadFile(filepath.Join(root, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	if want := "\n" + problems.Error() + "\n```\n"; !strings.Contains(string(page), want) {
		t.Errorf("README.md does not quote%s", want)
	}
}
