package fromflags

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"kcmd.dev/test/pki"
)

const migrated = "leaderMigration:\n  enabled: true\n  leaderName: m\n  controllerLeaders:\n    - name: job-controller\n      component: '*'"

// Files of leader migration are read in every version, strictly. Pins MGR-88.
func TestFilesOfLeaderMigration(t *testing.T) {
	file := filepath.Join(t.TempDir(), "migration.yaml")
	flags := []string{"--enable-leader-migration", "--leader-migration-config=" + file}
	kind := func(version string) string {
		return "apiVersion: controllermanager.config.k8s.io/" + version + "\nkind: LeaderMigrationConfiguration\n"
	}
	const lock, content = "resourceLock: leases\n", "leaderName: m\ncontrollerLeaders:\n- name: job-controller\n  component: \"*\"\n"
	for name, text := range map[string]string{
		"v1alpha1": kind("v1alpha1") + lock + content,
		"v1beta1":  kind("v1beta1") + lock + content,
		"v1":       kind("v1") + content,
		"JSON": `{"apiVersion": "controllermanager.config.k8s.io/v1", "kind": "LeaderMigrationConfiguration",
			"leaderName": "m", "controllerLeaders": [{"name": "job-controller", "component": "*"}]}`,
	} {
		t.Run(name, func(t *testing.T) {
			pki.WriteFile(t, file, []byte(text))
			got, result := body(t, flags...)
			var lines []string
			for line := range strings.Lines(got) {
				if !strings.HasPrefix(strings.TrimSpace(line), "#") {
					lines = append(lines, line)
				}
			}
			if got := strings.Join(lines, ""); got != migrated {
				t.Errorf("got\n%s, want\n%s", got, migrated)
			}
			if slices.ContainsFunc(result.Notes, func(n Note) bool { return n.Important }) {
				t.Errorf("notes: %+v", result.Notes)
			}
		})
	}
	const parsing = "failed to parse leader migration configuration: "
	for name, test := range map[string]struct{ text, says string }{
		"an unknown field":              {kind("v1") + content + "nobody: knows\n", parsing + `strict decoding error: unknown field "nobody"`},
		"a field twice":                 {kind("v1") + content + "leaderName: other\n", `"leaderName" already set`},
		"a resourceLock in v1":          {kind("v1") + lock + content, parsing + `strict decoding error: unknown field "resourceLock"`},
		"another kind":                  {"apiVersion: v1\nkind: Pod\n", parsing + `no kind "Pod" is registered for version "v1"`},
		"a version that does not exist": {kind("v2") + content, parsing + `no kind "LeaderMigrationConfiguration" is registered for version "controllermanager.config.k8s.io/v2"`},
		"no name":                       {kind("v1") + strings.TrimPrefix(content, "leaderName: m\n"), "leaderName: Required value"},
		"no name of a controller":       {kind("v1") + "leaderName: m\ncontrollerLeaders:\n- component: x\n", "controllerLeaders[0].name: Required value"},
		"no component":                  {kind("v1") + "leaderName: m\ncontrollerLeaders:\n- name: x\n", "controllerLeaders[0].component: Required value"},
		"another lock":                  {kind("v1beta1") + "resourceLock: configmaps\n" + content, "resourceLock: Invalid value"},
		"a lock that nobody can create": {kind("v1beta1") + "resourceLock: endpoints\n" + content, `must be leases, not "endpoints"`},
	} {
		t.Run(name, func(t *testing.T) {
			pki.WriteFile(t, file, []byte(test.text))
			if _, err := Convert(flags); err == nil || !strings.Contains(err.Error(), test.says) {
				t.Errorf("got %v, want %q", err, test.says)
			}
		})
	}
}
