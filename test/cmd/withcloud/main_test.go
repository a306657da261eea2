package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"kcmd.dev/test/controlplane/binaries"
	"kcmd.dev/test/must"
)

// asProgram has the test binary be the program.
const asProgram = "KCMD_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
	}
	os.Exit(m.Run())
}

const configuration = `apiVersion: config.kcmd.dev/v1beta1
kind: KubeControllerManagerConfiguration
cloud: {provider: fake}
controllers: {service-lb-controller: {enabled: true}}
`

// A program with an import more accepts the provider that registers itself.
// Pins CLOUD-8.
func TestProviderIsLinkedInByAnImport(t *testing.T) {
	file := filepath.Join(t.TempDir(), "config.yaml")
	must.Succeed(t, os.WriteFile(file, []byte(configuration), 0o600))
	command := exec.CommandContext(t.Context(), must.Get(os.Executable())(t), "check-config", file)
	command.Env = append(os.Environ(), asProgram+"=yes")
	output, err := command.CombinedOutput()
	if err != nil || !strings.HasSuffix(string(output), " is valid\n") {
		t.Errorf("check-config: %v\n%s", err, output)
	}
}

// The program that the documentation shows is this one.
func TestDocumentationShowsTheProgram(t *testing.T) {
	root := must.Get(binaries.Root())(t)
	program := must.Get(os.ReadFile("main.go"))(t)
	document := must.Get(os.ReadFile(filepath.Join(root, "docs", "cloud.md")))(t)
	if shown := "```go\n" + string(program) + "```"; !strings.Contains(string(document), shown) {
		t.Errorf("docs/cloud.md does not contain\n%s", shown)
	}
}
