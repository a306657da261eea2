package app

import (
	_ "embed"
	"fmt"
	"io"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"
	apiversion "k8s.io/apimachinery/pkg/version"
	"k8s.io/component-base/version"

	"kcmd.dev/pkg/cli/report"
)

// versionFile is the version of this tree: that of Kubernetes whose libraries it is
// built from, and after the hyphen that of kcmd. User agents contain the part before the
// hyphen, so to the API server the process is a Kubernetes client of that version.
//
// `make build` and the sandbox pass it to the linker for k8s.io/component-base, from
// which metrics, user agents and the status read it.
//
//go:embed VERSION
var versionFile string

// unlinked is how component-base's version begins if the linker did not set it.
const unlinked = "v0.0.0-"

func newVersion() *cobra.Command {
	var output outputFlag
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Long: `Print the version of this program, which begins with that of the Kubernetes that it is built
from. In JSON and YAML, the fields are those of /version of the API server.`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := output.check(); err != nil {
				return err
			}
			switch output.format {
			case "json":
				return report.JSON(cmd.OutOrStdout(), thisVersion())
			case "yaml":
				return report.YAML(cmd.OutOrStdout(), thisVersion())
			}
			return printVersion(cmd.OutOrStdout(), thisVersion())
		},
	}
	output.add(cmd, "text", "json", "yaml")
	return cmd
}

// thisVersion describes the version of the program.
func thisVersion() apiversion.Info {
	build, _ := debug.ReadBuildInfo()
	return versionInfo(version.Get(), build)
}

// versionInfo completes what was passed to the linker by what the go command recorded. build is
// nil if the binary contains no build information.
func versionInfo(v apiversion.Info, build *debug.BuildInfo) apiversion.Info {
	v.GitVersion = versionOf(v)
	numbers := strings.SplitN(strings.TrimPrefix(v.GitVersion, "v"), ".", 3)
	if len(numbers) == 3 {
		v.Major, v.Minor = numbers[0], numbers[1]
	}
	commit, modified, date := commitOf(build)
	v.GitCommit, v.GitTreeState, v.BuildDate = commit, "", date
	switch {
	case commit != "" && modified:
		v.GitTreeState = "dirty"
	case commit != "":
		v.GitTreeState = "clean"
	}
	return v
}

// shownCommit is how many letters of a commit people see.
const shownCommit = 12

// printVersion writes one line.
func printVersion(out io.Writer, v apiversion.Info) error {
	details := []string{v.GoVersion, v.Platform}
	if v.GitCommit != "" {
		commit := "commit " + v.GitCommit[:min(len(v.GitCommit), shownCommit)]
		if v.GitTreeState == "dirty" {
			commit += " with changes"
		}
		details = append([]string{commit}, details...)
	}
	_, err := fmt.Fprintf(out, "kube-controller-manager %s (%s)\n", v.GitVersion, strings.Join(details, ", "))
	return err
}

// versionOf returns the version that was passed to the linker, else that of the tree.
func versionOf(v apiversion.Info) string {
	if v.GitVersion == "" || strings.HasPrefix(v.GitVersion, unlinked) {
		return strings.TrimSpace(versionFile)
	}
	return v.GitVersion
}

// commitOf is the commit that the go command recorded with its time, empty if it recorded none,
// and whether files were modified since.
func commitOf(build *debug.BuildInfo) (commit string, modified bool, date string) {
	if build == nil {
		return "", false, ""
	}
	for _, setting := range build.Settings {
		switch setting.Key {
		case "vcs.revision":
			commit = setting.Value
		case "vcs.modified":
			modified = setting.Value == "true"
		case "vcs.time":
			date = setting.Value
		}
	}
	return commit, modified, date
}
