package validation

import (
	"maps"
	"slices"
	"strings"

	"kcmd.dev/pkg/config/fieldpath"
	"kcmd.dev/pkg/config/gates"
	"kcmd.dev/pkg/config/problem"
)

// validateGates checks the keys of featureGates, and what the gates need of each other.
func (v *validator) validateGates() {
	if !v.decoded("emulatedVersion") {
		return // every gate is checked at that version
	}
	known := gates.Of(v.cfg)
	for _, name := range slices.Sorted(maps.Keys(v.cfg.FeatureGates)) {
		path := fieldpath.Join("featureGates", name)
		gate, ok := known[name]
		if !ok {
			v.report.Errorf(v.places.Key(path), path, "%s", v.unknownGate(name))
			continue
		}
		v.validateGate(path, gate, v.cfg.FeatureGates[name])
	}
	v.validateGateDependencies(known)
}

// unknownGate explains a name that is no gate of the emulated version.
func (v *validator) unknownGate(name string) string {
	if since, ok := gates.Since(name); ok {
		return "Kubernetes " + v.cfg.EmulatedVersion + ", set by emulatedVersion, does not have the gate: " +
			"it exists in " + since + " and later"
	}
	if v.report.Terse() {
		return "unknown feature gate"
	}
	if best := problem.Nearest(name, append([]string{gates.AllAlpha, gates.AllBeta}, gates.Names()...)); best != "" {
		return "unknown feature gate, " + `did you mean "` + best + `"?`
	}
	return "unknown feature gate: Kubernetes 1.36 has no gate with this or a similar name"
}

// validateGate checks one gate that is set.
func (v *validator) validateGate(path string, gate gates.Gate, value bool) {
	at := v.places.Key(path)
	switch {
	case gate.Locked && value != gate.Default:
		v.report.Errorf(at, path, "the gate is %s and locked to %t: remove it", gate.Stage, gate.Default)
	case gate.Locked:
		v.report.Warnf(at, path, "the gate is %s and locked to %t; setting it has no effect: remove it",
			gate.Stage, gate.Default)
	case !gate.Read:
		v.report.Warnf(at, path, "has no effect: nothing in this build reads the gate")
	case gate.Stage == gates.GA || gate.Stage == gates.Deprecated:
		v.report.Warnf(at, path, "the gate is %s and will be removed", gate.Stage)
	}
}

// validateGateDependencies reports gates that are enabled while one that they need is not:
// at the gate that is set, which may be either of them, or the one that stands for its stage.
func (v *validator) validateGateDependencies(known map[string]gates.Gate) {
	set := v.cfg.FeatureGates
	if len(set) == 0 {
		return
	}
	enabled := func(name string) bool { return known[name].EnabledBy(set) }
	neededBy := map[string][]string{} // gate that is off → gates that need it
	for _, name := range slices.Sorted(maps.Keys(known)) {
		gate := known[name]
		if len(gate.Needs) == 0 || !enabled(name) {
			continue
		}
		missing := slices.DeleteFunc(slices.Clone(gate.Needs), enabled)
		if len(missing) == 0 {
			continue
		}
		if by, ok := v.setBy(gate); ok {
			v.reportMissing(by, name, missing)
			continue
		}
		for _, m := range missing {
			neededBy[m] = append(neededBy[m], name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(neededBy)) {
		// Otherwise both have their defaults in the emulated version, which a test checks.
		if by, ok := v.setBy(known[name]); ok {
			v.reportNeeded(by, name, neededBy[name])
		}
	}
}

// reportMissing reports that the key by enables a gate, but not the gates that it needs.
func (v *validator) reportMissing(by, gate string, missing []string) {
	subject := "depends"
	if by != gate {
		subject = "enables " + gate + ", which depends"
	}
	object := "the gate " + missing[0] + ", which is disabled: enable it too"
	if len(missing) > 1 {
		object = "the gates " + strings.Join(missing, ", ") + ", which are disabled: enable them too"
	}
	path := fieldpath.Join("featureGates", by)
	v.report.Errorf(v.places.Key(path), path, "%s on %s", subject, object)
}

// reportNeeded reports that the key by disables a gate, but not the gates that need it.
func (v *validator) reportNeeded(by, gate string, dependents []string) {
	subject := "cannot be disabled"
	if by != gate {
		subject = "cannot disable " + gate
	}
	path := fieldpath.Join("featureGates", by)
	v.report.Errorf(v.places.Key(path), path, "%s while the gates that need it are enabled: %s",
		subject, strings.Join(dependents, ", "))
}

// setBy returns the key of featureGates that decides about a gate.
func (v *validator) setBy(gate gates.Gate) (string, bool) {
	for _, name := range []string{gate.Name, gate.StageGate()} {
		if _, ok := v.cfg.FeatureGates[name]; ok && !gate.Locked {
			return name, true
		}
	}
	return "", false
}

// validateVersions checks emulatedVersion and minCompatibilityVersion.
func (v *validator) validateVersions() {
	minimum := v.cfg.MinCompatibilityVersion
	if minimum == "" || !v.decoded("emulatedVersion", "minCompatibilityVersion") {
		return
	}
	emulated, _ := gates.ParseVersion(v.cfg.EmulatedVersion)
	if minor, _ := gates.ParseVersion(minimum); minor > emulated {
		v.errorf("minCompatibilityVersion", "must not be after emulatedVersion (%s)", v.cfg.EmulatedVersion)
	}
}
