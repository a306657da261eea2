package app

import (
	"bytes"
	"errors"
	"os"
	"regexp"
	"runtime/debug"
	"strings"
	"testing"

	apiversion "k8s.io/apimachinery/pkg/version"
	"sigs.k8s.io/yaml"
)

func TestPrintVersion(t *testing.T) {
	tree := strings.TrimSpace(versionFile)
	info := func(gitVersion string) apiversion.Info {
		return apiversion.Info{GitVersion: gitVersion, GoVersion: "go1.26.0", Platform: "linux/amd64"}
	}
	settings := func(pairs ...string) *debug.BuildInfo {
		build := &debug.BuildInfo{}
		for i := 0; i < len(pairs); i += 2 {
			build.Settings = append(build.Settings, debug.BuildSetting{Key: pairs[i], Value: pairs[i+1]})
		}
		return build
	}
	const commit = "0123456789abcdef0123456789abcdef01234567"
	tests := []struct {
		name  string
		info  apiversion.Info
		build *debug.BuildInfo
		want  string
	}{
		{"linked", info("v1.36.3-kcmd.9"), nil, "v1.36.3-kcmd.9 (go1.26.0, linux/amd64)"},
		{"plain go build", info("v0.0.0-master+$Format:%H$"), settings(), tree + " (go1.26.0, linux/amd64)"},
		{"no version at all", info(""), nil, tree + " (go1.26.0, linux/amd64)"},
		{"in a checkout", info("v1.36.3-kcmd.9"), settings("vcs.revision", commit, "vcs.modified", "false"), "v1.36.3-kcmd.9 (commit 0123456789ab, go1.26.0, linux/amd64)"},
		{"in an edited checkout", info(""), settings("vcs.modified", "true", "vcs.revision", commit), tree + " (commit 0123456789ab with changes, go1.26.0, linux/amd64)"},
		{"a short revision", info(""), settings("vcs.revision", "7"), tree + " (commit 7, go1.26.0, linux/amd64)"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var out bytes.Buffer
			if err := printVersion(&out, versionInfo(test.info, test.build)); err != nil {
				t.Fatal(err)
			}
			if got, want := out.String(), "kube-controller-manager "+test.want+"\n"; got != want {
				t.Errorf("got %q, want %q", got, want)
			}
		})
	}
}

func TestVersionCommand(t *testing.T) {
	got := command("version")
	if want := "kube-controller-manager " + strings.TrimSpace(versionFile) + " ("; got.code != exitGood || !strings.HasPrefix(got.stdout, want) {
		t.Errorf("exit code %d, stdout %q, want 0 and a line that begins with %q", got.code, got.stdout, want)
	}
}

func TestVersionInJSON(t *testing.T) {
	want := "v" + strings.TrimPrefix(strings.TrimSpace(versionFile), "v")
	for _, args := range [][]string{{"version", "-o", "json"}, {"version", "--output=yaml"}} {
		got := command(args...)
		var info apiversion.Info
		if err := yaml.UnmarshalStrict([]byte(got.stdout), &info); err != nil || got.code != exitGood {
			t.Fatalf("%v: %v, %+v", args, err, got)
		}
		if info.GitVersion != want || info.Major != "1" || info.GoVersion == "" || info.Platform == "" || !strings.HasPrefix(want, "v1."+info.Minor+".") {
			t.Errorf("%v: the version is %+v, want %s", args, info, want)
		}
	}
	command("--version").check(t, command("version"))
	if got := command("--version=false"); got.code != exitMisuse {
		t.Errorf("%+v, want that --config is missing", got)
	}
}

// What the go command records is in the fields of /version.
func TestVersionInfo(t *testing.T) {
	build := &debug.BuildInfo{Settings: []debug.BuildSetting{
		{Key: "vcs.revision", Value: "0123456789abcdef"}, {Key: "vcs.time", Value: "2026-11-21T15:19:00Z"}, {Key: "vcs.modified", Value: "true"},
	}}
	got := versionInfo(apiversion.Info{GitVersion: "v1.36.3-kcmd.9", GitTreeState: "archive", BuildDate: "1970-01-01T00:00:00Z"}, build)
	want := apiversion.Info{
		Major: "1", Minor: "36", GitVersion: "v1.36.3-kcmd.9", GitCommit: "0123456789abcdef", GitTreeState: "dirty", BuildDate: "2026-11-21T15:19:00Z",
	}
	if got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// brokenPipe is an output nobody reads.
type brokenPipe struct{}

func (brokenPipe) Write([]byte) (int, error) { return 0, errors.New("broken pipe") }

func TestFailureToWriteIsAFailure(t *testing.T) {
	var stderr bytes.Buffer
	if code := execute([]string{"version"}, brokenPipe{}, &stderr); code != exitFailed || stderr.String() != "Error: broken pipe\n" {
		t.Errorf("exit code %d, stderr %q, want %d and the error", code, stderr.String(), exitFailed)
	}
}

// The version before the hyphen is that of the libraries the process is built from: a
// process that calls itself older or newer than it is misleads the API server's metrics.
func TestVersionIsThatOfTheLibraries(t *testing.T) {
	gomod, err := os.ReadFile("../../../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	required := regexp.MustCompile(`(?m)^\s+k8s\.io/component-base v0\.(\S+)`).FindSubmatch(gomod)
	if required == nil {
		t.Fatal("go.mod does not require k8s.io/component-base")
	}
	want := regexp.MustCompile(`^v1\.` + regexp.QuoteMeta(string(required[1])) + `-kcmd\.[0-9]+\n$`)
	if !want.MatchString(versionFile) {
		t.Errorf("VERSION is %q, want %s: k8s.io/component-base v0.%s is required", versionFile, want, required[1])
	}
}
