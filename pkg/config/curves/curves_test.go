package curves

import "testing"

func TestCurvesAreFoundByTheirNames(t *testing.T) {
	for _, name := range Names() {
		if id, ok := ID(name); !ok || id.String() != name {
			t.Errorf("ID(%s) = %v, %t", name, id, ok)
		}
	}
	if _, ok := ID("P256"); ok {
		t.Error("ID knows a name that is none")
	}
}
