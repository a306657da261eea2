package controllers

import (
	"testing"

	"kcmd.dev/pkg/config"
	"kcmd.dev/pkg/config/v1beta1"
)

// The configuration has a block for every controller of Kubernetes, and knows which of them
// this build has: those of the registry.
func TestRegistryAndConfigurationNameTheSameControllers(t *testing.T) {
	registered := map[string]bool{}
	for _, d := range All() {
		registered[d.Name] = true
	}
	blocks := new(v1beta1.Controllers).All()
	for _, block := range blocks {
		if config.Built(block.Name) != registered[block.Name] {
			t.Errorf("%s: in the registry %t, in the table of pkg/config/built.go %t: they must agree",
				block.Name, registered[block.Name], config.Built(block.Name))
		}
		delete(registered, block.Name)
	}
	for name := range registered {
		t.Errorf("%s has no block in the configuration", name)
	}
	if len(blocks) != 53 {
		t.Errorf("there are %d blocks, want 53: the 49 controllers of Kubernetes 1.36 and 4 cloud loops", len(blocks))
	}
}

// A gate that a controller needs is one that the configuration knows to be read.
func TestGatesOfControllersAreRead(t *testing.T) {
	read := map[string]bool{}
	for _, gate := range config.FeatureGates() {
		read[gate.Name] = gate.Read
	}
	for _, d := range All() {
		if d.Gate != "" && !read[d.Gate] {
			t.Errorf("%s needs the gate %s, which is not in gatesRead of pkg/config/gates.go", d.Name, d.Gate)
		}
	}
}
