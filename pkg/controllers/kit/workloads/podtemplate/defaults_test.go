package podtemplate

import "testing"

func TestDefaultPullPolicy(t *testing.T) {
	for image, want := range map[string]string{
		"i": "Always", "i:latest": "Always", "i:v1": "IfNotPresent", "r:5000/i": "Always", "r:5000/i:v1": "IfNotPresent", "i@sha256:abc": "IfNotPresent",
	} {
		if got := defaultPullPolicy(image); string(got) != want {
			t.Errorf("%s: %s", image, got)
		}
	}
}
