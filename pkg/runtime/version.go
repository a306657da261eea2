package runtime

import (
	"context"
	"maps"
	"strings"

	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/apiserver/pkg/util/compatibility"
	basecompatibility "k8s.io/component-base/compatibility"
	"k8s.io/component-base/metrics/prometheus/compatversion"
	"k8s.io/component-base/metrics/prometheus/feature"

	"kcmd.dev/pkg/config/gates"
	"kcmd.dev/pkg/config/v1beta1"
)

// versionOf returns the version of this build with those that a configuration has it emulate and be compatible with.
func versionOf(c *v1beta1.KubeControllerManagerConfiguration) basecompatibility.EffectiveVersion {
	v := compatibility.DefaultBuildEffectiveVersion()
	if emulated, err := version.ParseMajorMinor(c.EmulatedVersion); err == nil {
		v.SetEmulationVersion(emulated)
	}
	if oldest, err := version.ParseMajorMinor(c.MinCompatibilityVersion); err == nil {
		v.SetMinCompatibilityVersion(oldest)
	}
	return v
}

// showGates has the metrics show which feature gates are on, and the versions, unless an edit does not concern them.
func (t *transaction) showGates(context.Context) (step, error) {
	c := t.next.document.Config
	if !t.starts() {
		is := t.was.document.Config
		if is.EmulatedVersion == c.EmulatedVersion && is.MinCompatibilityVersion == c.MinCompatibilityVersion && maps.Equal(is.FeatureGates, c.FeatureGates) {
			return step{}, nil
		}
	}
	return step{commit: func(ctx context.Context) {
		feature.ResetFeatureInfoMetric()
		for name, gate := range gates.Of(c) {
			feature.RecordFeatureInfo(ctx, name, shownStage(gate.Stage), gate.EnabledBy(c.FeatureGates))
		}
		v := versionOf(c)
		compatversion.ResetCompatVersionInfoMetric()
		compatversion.RecordCompatVersionInfo(ctx, "kube", v.BinaryVersion().String(), v.EmulationVersion().String(), v.MinCompatibilityVersion().String())
	}}, nil
}

// shownStage is a stage as component-base writes it.
func shownStage(s gates.Stage) string {
	if s == gates.GA {
		return ""
	}
	return strings.ToUpper(string(s))
}
