package validation

import (
	"maps"
	"slices"
	"strings"

	"kcmd.dev/pkg/config/fieldpath"
	"kcmd.dev/pkg/config/problem"
	"kcmd.dev/pkg/config/rules"
	"kcmd.dev/pkg/config/tree"
)

// validateRules applies the rules to what the file sets; a test proves that defaults satisfy
// them.
func (v *validator) validateRules() {
	required := map[string][]string{} // by the path of the elements
	for _, rule := range rules.All() {
		if rule.Required {
			element, name, _ := strings.Cut(rule.Path, "[].")
			required[element+"[]"] = append(required[element+"[]"], name)
		}
	}
	byPath := rules.ByPath()
	for _, path := range slices.Sorted(maps.Keys(v.places.Values)) {
		at := fieldpath.General(path)
		if rule, ok := byPath[at]; ok && v.decoded(path) {
			v.applyRule(rule, path, v.places.Values[path])
		}
		for _, name := range required[at] {
			v.require(path, name)
		}
	}
}

// require reports an element of a list that lacks a field.
func (v *validator) require(element, name string) {
	path := element + "." + name
	if _, ok := v.places.Values[path]; ok || !v.decoded(path) || v.places.Values[element].Kind != tree.Map {
		return
	}
	v.report.Errorf(v.places.Values[element].At, path, "is missing")
	v.undecoded[path] = true
}

// applyRule reports a value that a rule does not admit; checks across fields then ignore it.
func (v *validator) applyRule(rule rules.Rule, path string, value *tree.Node) {
	switch {
	case rule.Keys != nil:
		v.applyKeys(rule.Keys, path, value)
		return
	case rule.List != nil:
		v.applyListSize(rule.List, path, value)
		return
	case value.Kind != tree.Scalar:
		return
	}
	if message, ok := rule.Admits(value.Value, !v.report.Terse()); !ok {
		v.errorf(path, "%s", message)
		v.undecoded[path] = true
	}
}

func (v *validator) applyKeys(keys *rules.Pattern, path string, value *tree.Node) {
	for _, f := range value.Fields {
		if !keys.Admits(f.Name) {
			at := fieldpath.Join(path, f.Name)
			v.report.Errorf(f.At, at, "the key %s", keys.Refuse(f.Name, !v.report.Terse()))
		}
	}
}

func (v *validator) applyListSize(size *rules.ListSize, path string, value *tree.Node) {
	n := len(value.Items)
	if n < size.Min || (size.Max > 0 && n > size.Max) {
		v.errorf(path, "must be %s, not %d", size.Describe(), n)
		v.undecoded[path] = true
		return
	}
	if !size.Unique {
		return
	}
	seen := map[string]bool{}
	for i, item := range value.Items {
		if item.Kind != tree.Scalar {
			continue
		}
		if seen[item.Text] {
			v.report.Errorf(item.At, fieldpath.Element(path, i), "%s is already in the list", problem.Quote(item.Text))
		}
		seen[item.Text] = true
	}
}
