package tree

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"kcmd.dev/pkg/config/fieldpath"
	"kcmd.dev/pkg/config/problem"
)

// Of makes a tree of a value that encoding/json decoded. at returns the position of each path.
func Of(value any, path string, at func(path string) problem.Position) *Node {
	t := &Node{At: at(path)}
	switch v := value.(type) {
	case map[string]any:
		t.Kind = Map
		for _, name := range slices.Sorted(maps.Keys(v)) {
			inner := fieldpath.Join(path, name)
			t.Fields = append(t.Fields, Field{Name: name, At: at(inner), Value: Of(v[name], inner, at)})
		}
	case []any:
		t.Kind = List
		for i, item := range v {
			t.Items = append(t.Items, Of(item, fieldpath.Element(path, i), at))
		}
	default:
		t.Kind, t.Value, t.Text = Scalar, wholeNumber(v), fmt.Sprint(v)
	}
	return t
}

// wholeNumber turns a whole number, which encoding/json decodes as float64, back into an
// integer.
func wholeNumber(value any) any {
	f, ok := value.(float64)
	if !ok {
		return value
	}
	if n, err := json.Number(fmt.Sprintf("%.0f", f)).Int64(); err == nil && float64(n) == f {
		return n
	}
	return value
}
