package decode

import (
	"reflect"
	"slices"
	"testing"

	"kcmd.dev/pkg/config/diff"
	"kcmd.dev/pkg/config/fieldpath"
	"kcmd.dev/pkg/config/rules"
	"kcmd.dev/pkg/config/v1beta1"
)

func TestEveryRuleHasAFieldAndAdmitsItsDefault(t *testing.T) {
	cfg := v1beta1.NewDefault()
	defaults := map[string]any{}
	for _, change := range diff.Of(diff.Object{}, diff.ObjectOf(cfg)) {
		defaults[change.Path] = change.New
	}
	fields := fieldPaths(reflect.TypeFor[v1beta1.KubeControllerManagerConfiguration](), "")
	for _, rule := range rules.All() {
		if !slices.Contains(fields, rule.Path) {
			t.Errorf("the rule for %s has no field", rule.Path)
		}
		if message, good := rule.Admits(defaults[rule.Path], true); !good {
			t.Errorf("the default of %s is against its rule: %s", rule.Path, message)
		}
	}
}

// fieldPaths lists the paths of all fields, with [] for the index of a list.
func fieldPaths(t reflect.Type, path string) []string {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	out := []string{path}
	switch {
	case t == durationType, t == logDurationType, t == quantityType:
	case t.Kind() == reflect.Slice:
		out = append(out, fieldPaths(t.Elem(), path+"[]")...)
	case t.Kind() == reflect.Struct:
		known := jsonFields(t)
		for _, name := range known.names {
			out = append(out, fieldPaths(known.types[name], fieldpath.Join(path, name))...)
		}
	}
	return out
}
