package controllers

import (
	"maps"
	"slices"
	"testing"

	"kcmd.dev/pkg/config"
	"kcmd.dev/pkg/config/v1beta1"
)

// ofTheProcess are the gates that are read, but not by a controller.
var ofTheProcess = []string{
	config.AllAlpha,
	config.AllBeta,
	config.CoordinatedLeaderElection,
	config.LoggingAlphaOptions,
	config.LoggingBetaOptions,
	config.RemoteRequestHeaderUID,
}

// A gate that is said to be read changes what a controller depends on, or whether it runs, in
// every version in which it can be switched.
func TestGatesThatAreReadHaveAnEffectInEveryVersion(t *testing.T) {
	for _, gate := range config.FeatureGates() {
		if !gate.Read || slices.Contains(ofTheProcess, gate.Name) {
			continue
		}
		switchable := false
		for _, version := range config.Versions() {
			on, off := emulating(version, gate, true), emulating(version, gate, false)
			if config.Enabled(on, gate.Name) == config.Enabled(off, gate.Name) {
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

// emulating is a configuration with a gate on or off, and with the gates that it needs on.
func emulating(version string, gate config.Gate, on bool) *v1beta1.KubeControllerManagerConfiguration {
	set := map[string]bool{config.AllAlpha: true}
	for _, need := range gate.Needs {
		set[need] = true
	}
	maps.Copy(set, map[string]bool{gate.Name: on})
	cfg := v1beta1.NewDefault()
	cfg.EmulatedVersion, cfg.FeatureGates = version, set
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
