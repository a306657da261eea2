package effective

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/cli/fields"
	"kcmd.dev/pkg/config/fieldpath"
	"kcmd.dev/pkg/config/gates"
	"kcmd.dev/pkg/config/plan"
	"kcmd.dev/pkg/config/v1beta1"
)

// collect records the origin of every value in a configuration as JSON.
func (v *View) collect(l Loaded, value any, path string) {
	switch value := value.(type) {
	case map[string]any:
		for name, inner := range value {
			v.collect(l, inner, fieldpath.Join(path, name))
		}
		return
	case []any:
		if isListOfBlocks(value) {
			for i, inner := range value {
				v.collect(l, inner, fieldpath.Element(path, i))
			}
			return
		}
	}
	v.Origins[path] = l.Origin(path)
}

// isListOfBlocks reports whether each element of a list has fields of its own; any other list is
// one value.
func isListOfBlocks(list []any) bool {
	return len(list) > 0 && !slices.ContainsFunc(list, func(element any) bool {
		_, block := element.(map[string]any)
		return !block
	})
}

// inherited lists what fields stand for that are not set and follow others.
func inherited(cfg *v1beta1.KubeControllerManagerConfiguration, tree *fields.Field) []Inherited {
	out := []Inherited{}
	if c := cfg.ClientConnection; ptr.Deref(c.QPS, 0) > 0 && ptr.Deref(c.Burst, 0) == 0 {
		out = append(out, Inherited{"clientConnection.burst", c.EffectiveBurst(), "twice clientConnection.qps"})
	}
	out = append(out, inheritedGates(cfg)...)
	for _, c := range cfg.Controllers.All() {
		block := "controllers." + c.Name
		if c.Settings.Enabled == nil {
			from := "controllerDefaults.enabled"
			if c.OffByDefault {
				from = "off by default"
			}
			out = append(out, Inherited{block + ".enabled", cfg.ControllerEnabled(c.Name), from})
		}
		if c.ResyncPeriod == nil && has(tree, block+".resyncPeriod") {
			period, _ := cfg.ResyncPeriod(nil)
			out = append(out, Inherited{block + ".resyncPeriod", v1beta1.FormatDuration(period), "resync.minPeriod"})
		}
	}
	return out
}

// has reports whether there is a field.
func has(tree *fields.Field, path string) bool {
	_, err := tree.Find(path)
	return err == nil
}

// inheritedGates are the gates that something in this build reads and that are not set.
func inheritedGates(cfg *v1beta1.KubeControllerManagerConfiguration) []Inherited {
	var out []Inherited
	known := gates.Of(cfg)
	for _, gate := range gates.All() {
		of, ok := known[gate.Name]
		_, set := cfg.FeatureGates[gate.Name]
		if !ok || set || !of.Read || gate.Name == gates.AllAlpha || gate.Name == gates.AllBeta {
			continue
		}
		from := fmt.Sprintf("default in %s, %s", cfg.EmulatedVersion, of.Stage)
		stage := of.StageGate()
		if _, all := cfg.FeatureGates[stage]; stage != "" && all && !of.Locked {
			from = fieldpath.Join("featureGates", stage)
		}
		out = append(out, Inherited{fieldpath.Join("featureGates", gate.Name), of.EnabledBy(cfg.FeatureGates), from})
	}
	return out
}

// notRunning are the controllers that a configuration does not run, with the reason.
func notRunning(cfg *v1beta1.KubeControllerManagerConfiguration, subjects []plan.Subject) map[string]string {
	out := map[string]string{}
	for _, c := range cfg.Controllers.All() {
		out[c.Name] = "not part of this build"
	}
	for _, s := range subjects {
		if spec := plan.SpecOf(cfg, s); spec.Runs() {
			delete(out, s.Name)
		} else {
			out[s.Name] = strings.TrimSuffix(spec.Off, ".")
		}
	}
	return out
}
