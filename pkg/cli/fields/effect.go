package fields

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/config/diff"
	"kcmd.dev/pkg/config/gates"
	"kcmd.dev/pkg/config/plan"
	"kcmd.dev/pkg/config/v1beta1"
)

// Nothing is the effect of a field that no part of this build reads.
const Nothing = "does nothing: no part of this build reads it"

// Effect describes what a change of the field alone does to a running process with these
// controllers, by the Plan of such a change; for a block, what all of its fields have in
// common. It is empty for what cannot be changed, and for blocks whose fields differ.
func (f *Field) Effect(subjects []plan.Subject) (string, error) {
	path, _, _ := strings.Cut(f.Path, "[]")
	switch {
	case f.Fixed || path == "":
		return "", nil
	case f.IsBlock():
		return f.common(subjects)
	case path != f.Path: // an element is changed with its list
		root, err := Tree()
		if err != nil {
			return "", err
		}
		list, err := root.Find(path)
		if err != nil {
			return "", err
		}
		return list.Effect(subjects)
	}
	return f.alone(subjects)
}

func (f *Field) common(subjects []plan.Subject) (string, error) {
	found := ""
	for i, child := range f.Fields {
		effect, err := child.Effect(subjects)
		if err != nil {
			return "", err
		}
		if effect == "" || (i > 0 && effect != found) {
			return "", nil
		}
		found = effect
	}
	return found, nil
}

// alone changes the field, starting from several configurations and to several values, until
// the Plan shows an effect. What everything is turned on in comes first, so that no controller
// that the field concerns is left out. Gates start from the default, in which others follow them.
func (f *Field) alone(subjects []plan.Subject) (string, error) {
	path, all := strings.Split(f.Path, "."), bases()
	if path[0] != "featureGates" {
		all = append(all[1:], all[0])
	}
	for _, base := range all {
		for _, value := range f.schema.values() {
			changed, err := with(base, path, value)
			if err != nil {
				return "", fmt.Errorf("changing %s: %w", f.Path, err)
			}
			if p := plan.New(base, changed, subjects); !p.Empty() {
				return describe(p, path), nil
			}
		}
	}
	return Nothing, nil
}

// someController stands for any where a field holds the name of one.
const (
	someController = "deployment-controller"
	someOther      = "replicaset-controller"
)

// bases are the default with the key without which a controller is idle, and configurations
// that turn everything on, with each of the log formats.
func bases() []*v1beta1.KubeControllerManagerConfiguration {
	usual, all := v1beta1.NewDefault(), v1beta1.NewDefault()
	usual.ServiceAccounts.PrivateKeyFile, all.ServiceAccounts.PrivateKeyFile = "sa.key", "sa.key"
	all.FeatureGates = map[string]bool{}
	for _, gate := range gates.All() {
		if !gate.Locked {
			all.FeatureGates[gate.Name] = true
		}
	}
	for _, c := range all.Controllers.All() {
		c.Settings.Enabled = ptr.To(true)
	}
	all.LeaderMigration.Enabled = ptr.To(true)
	all.LeaderMigration.ControllerLeaders = []v1beta1.ControllerLeader{{
		Name:      someController,
		Component: all.LeaderMigration.Component,
	}}
	all.LeaderElection.Groups = []v1beta1.LeaseGroup{{Name: "group", Controllers: []string{someOther}}}
	all.Controllers.CSRSigning.AllSigners = v1beta1.SigningCA{CertFile: "ca.crt", PrivateKeyFile: "ca.key"}
	all.Controllers.NodeIPAM.AllocateNodeCIDRs = ptr.To(true)
	all.Networking.ClusterCIDRs = []string{"10.244.0.0/16", "fd00::/48"}
	all.Cloud.Provider = "linked"
	all.Serving.Authentication.RequestHeader.ClientCAFile = "ca.crt"
	all.Logging.Options.Text.SplitStream = true
	all.DeletionBreaker.Mode = v1beta1.DeletionsStop
	json := all.DeepCopy()
	json.Logging.Format, json.Logging.Options.JSON.SplitStream = "json", true
	return []*v1beta1.KubeControllerManagerConfiguration{usual, all, json}
}

// with returns the configuration with one field changed.
func with(
	base *v1beta1.KubeControllerManagerConfiguration, path []string, value any,
) (*v1beta1.KubeControllerManagerConfiguration, error) {
	return diff.ObjectOf(base).With(path, value).Config()
}

// describe describes what a Plan does because of a change of one field.
func describe(p plan.Plan, path []string) string {
	if len(p.ProcessWide) > 0 {
		return p.ProcessWide[0].Effect + " and restarts every controller"
	}
	named := map[plan.Action][]string{}
	for _, c := range p.Controllers {
		name := c.Name
		if len(path) == 3 && path[1] == name {
			name = "that controller"
		}
		named[c.Action] = append(named[c.Action], name)
	}
	restarted, changed := named[plan.Restart], slices.Concat(named[plan.Start], named[plan.Stop])
	inGeneral := dependsOnValue(path)
	switch {
	case inGeneral != "":
		return inGeneral
	case len(named[plan.Pause])+len(named[plan.Resume]) > 0:
		return "pauses or resumes " + strings.Join(slices.Concat(named[plan.Pause], named[plan.Resume]), ", ")
	case len(restarted)+len(changed) == 0:
		return "applies in place"
	case len(restarted) > 1 && len(restarted) == len(p.Controllers):
		return "restarts every controller"
	case len(restarted) > 0 && len(changed) > 0:
		return "restarts " + strings.Join(restarted, ", ") + "; starts or stops " + strings.Join(changed, ", ")
	case len(restarted) > 0:
		return "restarts " + strings.Join(restarted, ", ")
	case len(named[plan.Keep]) == 0:
		return "starts or stops the controllers that inherit it"
	}
	return "starts or stops " + strings.Join(changed, ", ")
}

// dependsOnValue describes the fields for which one Plan is not enough, since the controllers
// that a change concerns depend on the value; it is empty for all others.
func dependsOnValue(path []string) string {
	switch {
	case path[0] == "emulatedVersion":
		return "starts, stops or restarts the controllers for which a gate changes; with the gate " +
			gates.CoordinatedLeaderElection + ", restarts every controller under the main lease"
	case strings.Join(path, ".") == "featureGates."+gates.CoordinatedLeaderElection:
		return "restarts every controller under the main lease"
	case path[0] == "leaderMigration":
		return "restarts the controllers whose lease changes, starts or stops those that change the component"
	case strings.Join(path, ".") == "leaderElection.groups":
		return "restarts the controllers whose lease changes"
	}
	return ""
}

// values are some that the field may have; one of them at least is not its default.
func (n *node) values() []any {
	if typeOf(n) == "duration" {
		return []any{"7m"}
	}
	switch t := n.Type.(type) {
	case []any:
		return []any{"7Mi"}
	case string:
		return n.valuesOf(t)
	}
	return nil
}

func (n *node) valuesOf(kind string) []any {
	switch kind {
	case "boolean":
		return []any{true, false}
	case "integer", "number":
		return []any{int64(7)}
	case "string":
		values := []any{}
		for _, word := range n.Enum {
			values = append(values, word)
		}
		return append(values, "other", someController)
	case "array":
		values := []any{}
		for _, element := range n.Items.values() {
			values = append(values, []any{element})
		}
		return values
	}
	if len(n.Properties) == 0 {
		return []any{map[string]any{"other": "other"}, map[string]any{"other": true}}
	}
	return []any{n.object(0), n.object(1)}
}

// object is one whose fields have the values of a number, or their last ones.
func (n *node) object(number int) map[string]any {
	object := map[string]any{}
	for name, field := range n.Properties {
		values := field.values()
		object[name] = values[min(number, len(values)-1)]
	}
	return object
}
