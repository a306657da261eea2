package app

import (
	"testing"

	"kcmd.dev/pkg/cli/fields"
	"kcmd.dev/pkg/config/gates"
	"kcmd.dev/pkg/controllers"
	"kcmd.dev/pkg/runtime"
)

// A field or gate that nothing reads promises what is not there. Every field changes what a
// controller reads, is applied in place or restarts everything. The exceptions are known as
// such, and have no effect indeed: the gates that are listed as not read, those that only an
// earlier emulated version lets anybody set, and the one setting that is only accepted.
func TestEveryFieldHasAnEffect(t *testing.T) {
	notRead := map[string]bool{}
	for _, gate := range gates.All() {
		notRead["featureGates."+gate.Name] = !gate.Read || gate.Locked
	}
	checked := 0
	var check func(f *fields.Field)
	check = func(f *fields.Field) {
		switch {
		case f.IsBlock():
			for _, child := range f.Fields {
				check(child)
			}
			return
		case f.Fixed:
			return
		}
		checked++
		what, err := f.Effect(runtime.Subjects(controllers.All()))
		if err != nil {
			t.Fatal(err)
		}
		without := notRead[f.Path] || f.Path == "serving.authentication.tolerateLookupFailure"
		if got := what == fields.Nothing; got != without {
			t.Errorf("a change of %s %s, want it to be without effect: %t", f.Path, what, without)
		}
	}
	root, err := fields.Tree()
	if err != nil {
		t.Fatal(err)
	}
	check(root)
	if checked < 200 {
		t.Errorf("checked %d fields, want at least 200: the test looks in the wrong place", checked)
	}
}
