package controllers

import (
	"regexp"
	"testing"

	"kcmd.dev/pkg/config/v1beta1"
)

func TestRegistryAndConfigurationNameTheSameControllers(t *testing.T) {
	blocks := map[string]bool{}
	for _, c := range new(v1beta1.Controllers).All() {
		blocks[c.Name] = true
	}
	for _, d := range All() {
		if !blocks[d.Name] {
			t.Errorf("%s has no block in the configuration", d.Name)
		}
		delete(blocks, d.Name)
	}
	for name := range blocks {
		t.Errorf("the block %s has no controller", name)
	}
}

func TestDescriptorsAreCompleteAndUnique(t *testing.T) {
	canonical := regexp.MustCompile(`^[a-z]([-a-z]*[a-z])?-controller$`)
	names := map[string]string{}
	for _, d := range All() {
		if !canonical.MatchString(d.Name) {
			t.Errorf("%q is no canonical name", d.Name)
		}
		for _, name := range append([]string{d.Name}, d.Aliases...) {
			if other, taken := names[name]; taken {
				t.Errorf("%s and %s are both called %s", d.Name, other, name)
			}
			names[name] = d.Name
		}
		if d.Doc == "" || len(d.Requires) == 0 {
			t.Errorf("%s lacks Doc or Requires: %+v", d.Name, d)
		}
		if (d.ServiceAccount == "") == (d.ClientName == "") {
			t.Errorf("%s must have either a service account or a client name", d.Name)
		}
	}
}
