package controllertest

import "testing"

func TestEnvHasNoNilField(t *testing.T) {
	if missing := NilFields(New(t).Env); len(missing) != 0 {
		t.Errorf("nil: %q", missing)
	}
}
