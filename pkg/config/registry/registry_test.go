package registry

import (
	"slices"
	"testing"
)

func TestReadBy(t *testing.T) {
	tests := []struct {
		path string
		want []string
	}{
		{"controllers.job-controller.concurrentSyncs", []string{"job-controller"}},
		{"controllers.node-ipam-controller", []string{"node-ipam-controller"}},
		{"networking.serviceCIDRs", []string{"node-ipam-controller"}},
		{"serviceAccounts.rootCAFile", nil},
		{"logging.verbosity", nil},
	}
	for _, test := range tests {
		if got, ok := ReadBy(test.path); !slices.Equal(got, test.want) || ok != (test.want != nil) {
			t.Errorf("ReadBy(%s) = %v, %t, want %v", test.path, got, ok, test.want)
		}
	}
	for path, names := range readers() {
		for _, name := range names {
			if !slices.Contains(blocks(), name) {
				t.Errorf("%s is said to be read by %s, which is no controller", path, name)
			}
		}
	}
}

func TestUnknownControllersAreExplained(t *testing.T) {
	for name, want := range map[string]string{
		"hpa": `unknown, did you mean "horizontal-pod-autoscaler-controller"?`, "gc-controller": `unknown, did you mean "garbage-collector-controller"?`,
		"deploy": `unknown, did you mean "deployment-controller"?`, "Deployments": `unknown, did you mean "deployment-controller"?`,
		"node":                             "unknown, did you mean one of node-ipam-controller, node-lifecycle-controller, cloud-node-controller, cloud-node-lifecycle-controller, node-route-controller?",
		"pdb":                              `unknown, did you mean "disruption-controller"?`,
		"jobs":                             `unknown, did you mean "job-controller"?`,
		"deploymentController":             `unknown, did you mean "deployment-controller"?`,
		"persistentVolumeBinderController": `unknown, did you mean "persistentvolume-binder-controller"?`,
		"attachDetachController":           `unknown, did you mean "persistentvolume-attach-detach-controller"?`,
		"hpaController":                    `unknown, did you mean "horizontal-pod-autoscaler-controller"?`,
		"x":                                "unknown: none has this or a similar name",
		"controller":                       "unknown: none has this or a similar name",
		"daemonset":                        `"daemonset" is a former name: write "daemonset-controller"`,
	} {
		if got := Unknown("unknown", name); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
}

// Each short name leads to a controller.
func TestShortNamesOfControllers(t *testing.T) {
	for short := range shortNames {
		if len(Similar(short)) == 0 {
			t.Errorf("%s leads nowhere", short)
		}
	}
}

// Every controller is known by its canonical name and by its former ones.
func TestNamesOfControllers(t *testing.T) {
	var known []string
	for _, c := range Controllers() {
		known = append(known, c.Name)
		for _, former := range c.FormerNames {
			if got, ok := Canonical(former); got != c.Name || !ok {
				t.Errorf("Canonical(%s) = %s, %t, want %s", former, got, ok, c.Name)
			}
		}
		if got, ok := Canonical(c.Name); got != c.Name || !ok {
			t.Errorf("Canonical(%s) = %s, %t", c.Name, got, ok)
		}
	}
	names := slices.Sorted(slices.Values(blocks()))
	if !slices.Equal(known, names) {
		t.Errorf("known controllers and blocks differ:\n%v\n%v", known, names)
	}
	if _, ok := Canonical("no-such-controller"); ok {
		t.Error("Canonical knows a controller that is none")
	}
}
