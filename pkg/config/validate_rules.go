package config

import "strings"

// general is a path with [] for every index, as rules have it.
func general(path string) string {
	if !strings.Contains(path, "[") {
		return path
	}
	out := make([]byte, 0, len(path))
	for i := 0; i < len(path); i++ {
		out = append(out, path[i])
		if path[i] != '[' {
			continue
		}
		end := i + 1
		for end < len(path) && '0' <= path[end] && path[end] <= '9' {
			end++
		}
		if end < len(path) && path[end] == ']' {
			i = end - 1
		}
	}
	return string(out)
}

// validateRules applies the rules to what the file sets; defaults satisfy them, which a
// test proves.
func (v *validator) validateRules() {
	required := map[string][]string{} // by the path of the elements
	for _, rule := range v.rules {
		if rule.Required {
			element, name, _ := strings.Cut(rule.Path, "[].")
			required[element+"[]"] = append(required[element+"[]"], name)
		}
	}
	rules := byPath(v.rules)
	for _, path := range sortedKeys(v.places.values) {
		at := general(path)
		if rule, ok := rules[at]; ok && v.decoded(path) {
			v.applyRule(rule, path, v.places.values[path])
		}
		for _, name := range required[at] {
			v.require(path, name)
		}
	}
}

// require reports an element of a list that lacks a field.
func (v *validator) require(element, name string) {
	path := element + "." + name
	if _, ok := v.places.values[path]; ok || !v.decoded(path) || v.places.values[element].kind != mapKind {
		return
	}
	v.report.errorf(v.places.values[element].at, path, "is missing")
	v.undecoded[path] = true
}

// applyRule reports a value that a rule does not admit; checks across fields then leave it
// alone.
func (v *validator) applyRule(rule Rule, path string, value *tree) {
	switch {
	case rule.Keys != nil:
		v.applyKeys(rule.Keys, path, value)
		return
	case rule.List != nil:
		v.applyListSize(rule.List, path, value)
		return
	case value.kind != scalarKind:
		return
	}
	if message, ok := rule.admits(value.value, !v.report.terse()); !ok {
		v.errorf(path, "%s", message)
		v.undecoded[path] = true
	}
}

func (v *validator) applyKeys(keys *Pattern, path string, value *tree) {
	for _, f := range value.fields {
		if !keys.admits(f.name) {
			at := join(path, f.name)
			v.report.errorf(f.at, at, "the key must be %s", keys.words())
		}
	}
}

func (v *validator) applyListSize(size *ListSize, path string, value *tree) {
	n := len(value.items)
	if n < size.Min || (size.Max > 0 && n > size.Max) {
		v.errorf(path, "must be %s, not of %d", size.words(), n)
		v.undecoded[path] = true
		return
	}
	if !size.Unique {
		return
	}
	seen := map[string]bool{}
	for i, item := range value.items {
		if item.kind != scalarKind {
			continue
		}
		if seen[item.text] {
			v.report.errorf(item.at, elementPath(path, i), "%s is in the list already", shorten(item.text))
		}
		seen[item.text] = true
	}
}
