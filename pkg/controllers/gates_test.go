package controllers

import (
	"maps"
	"slices"
	"testing"

	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/config/gates"
	"kcmd.dev/pkg/config/v1beta1"
)

// ofTheProcess are the gates that are read, but not by a controller.
var ofTheProcess = []string{
	gates.AllAlpha,
	gates.AllBeta,
	gates.CoordinatedLeaderElection,
	gates.LoggingAlphaOptions,
	gates.LoggingBetaOptions,
	gates.RemoteRequestHeaderUID,
}

// A gate that is said to be read changes what a controller depends on, or whether it runs, in
// every version in which it can be switched.
func TestGatesThatAreReadHaveAnEffectInEveryVersion(t *testing.T) {
	for _, gate := range gates.All() {
		if !gate.Read || slices.Contains(ofTheProcess, gate.Name) {
			continue
		}
		switchable := false
		for _, version := range gates.Versions() {
			on, off := emulating(version, gate, true), emulating(version, gate, false)
			if gates.Enabled(on, gate.Name) == gates.Enabled(off, gate.Name) {
				continue // locked, or not there
			}
			switchable = true
			if !concernsAny(on, off) {
				t.Errorf("%s, which can be switched in %s, makes no difference to any controller", gate.Name, version)
			}
		}
		if !switchable {
			t.Errorf("%s cannot be switched in any version", gate.Name)
		}
	}
}

// emulating is a configuration with a gate on or off, and with the gates that it needs and all
// controllers on.
func emulating(version string, gate gates.Gate, on bool) *v1beta1.KubeControllerManagerConfiguration {
	set := map[string]bool{gates.AllAlpha: true}
	for _, need := range gate.Needs {
		set[need] = true
	}
	maps.Copy(set, map[string]bool{gate.Name: on})
	cfg := v1beta1.NewDefault()
	cfg.EmulatedVersion, cfg.FeatureGates = version, set
	cfg.Cloud.Provider, cfg.Networking.ClusterCIDRs = "linked", []string{"10.244.0.0/16"} // the controllers of a cloud read nothing else
	for _, c := range cfg.Controllers.All() {
		c.Settings.Enabled = ptr.To(true)
	}
	return cfg
}

func concernsAny(a, b *v1beta1.KubeControllerManagerConfiguration) bool {
	for _, d := range All() {
		ranA, _ := d.Enabled(a)
		ranB, _ := d.Enabled(b)
		if ranA != ranB || d.Value(a) != d.Value(b) {
			return true
		}
	}
	return false
}
