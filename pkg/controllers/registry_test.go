package controllers

import (
	"regexp"
	"testing"
)

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
		if len(d.Requires)+len(d.Alternatives) == 0 {
			t.Errorf("%s lacks Requires and Alternatives: %+v", d.Name, d)
		}
		if (d.ServiceAccount == "") == (d.ClientName == "") {
			t.Errorf("%s must have either a service account or a client name", d.Name)
		}
	}
}
