package main

import (
	_ "embed"
	"fmt"
	"io"
	"runtime/debug"
	"strings"

	apiversion "k8s.io/apimachinery/pkg/version"
	"k8s.io/component-base/version"

	"github.com/spf13/cobra"
)

// versionFile is the version of this tree: that of Kubernetes whose libraries it is
// built from, and after the hyphen our own. User agents carry what is before the
// hyphen, so to the API server the process is a Kubernetes client of that version.
//
// `make build` and the sandbox hand it to the linker for k8s.io/component-base, which
// is what metrics, user agents and the status read.
//
//go:embed VERSION
var versionFile string

// unlinked is how component-base's version begins if the linker did not set it.
const unlinked = "v0.0.0-"

func newVersion() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Prints the version",
		Args:  noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			build, _ := debug.ReadBuildInfo()
			return printVersion(cmd.OutOrStdout(), version.Get(), build)
		},
	}
}

// printVersion writes one line. build is nil if the binary does not know how it was
// built.
func printVersion(out io.Writer, v apiversion.Info, build *debug.BuildInfo) error {
	details := []string{v.GoVersion, v.Platform}
	if commit := commitOf(build); commit != "" {
		details = append([]string{"commit " + commit}, details...)
	}
	_, err := fmt.Fprintf(out, "kube-controller-manager %s (%s)\n", versionOf(v), strings.Join(details, ", "))
	return err
}

// versionOf is the version the linker was given, else that of the tree.
func versionOf(v apiversion.Info) string {
	if v.GitVersion == "" || strings.HasPrefix(v.GitVersion, unlinked) {
		return strings.TrimSpace(versionFile)
	}
	return v.GitVersion
}

// commitOf is the commit the go command recorded, empty if it recorded none.
func commitOf(build *debug.BuildInfo) string {
	if build == nil {
		return ""
	}
	var commit, modified string
	for _, setting := range build.Settings {
		switch {
		case setting.Key == "vcs.revision":
			commit = setting.Value[:min(len(setting.Value), 12)]
		case setting.Key == "vcs.modified" && setting.Value == "true":
			modified = " with changes"
		}
	}
	if commit == "" {
		return ""
	}
	return commit + modified
}
