package config

import (
	"math"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

const (
	// maxDepth is the deepest nesting of a configuration.
	maxDepth = 64
	// maxValues is the number of values a file may have, many times what a configuration needs.
	maxValues = 20_000
	// maxAliased is the number of nodes that aliases may stand for in total.
	maxAliased = 10_000
)

// tree is a YAML value with aliases and merge keys resolved: what JSON could
// say, plus positions.
type tree struct {
	at     Position
	value  any     // nil, bool, int64, uint64, float64 or string; unset for the other kinds
	text   string  // the scalar as written
	plain  bool    // the scalar is written without quotes
	fields []field // of a mapping
	items  []*tree // of a list
	kind   kind
}

type kind int

const (
	nullKind kind = iota
	scalarKind
	mapKind
	listKind
)

type field struct {
	name  string
	at    Position // of the key
	value *tree
}

func (t *tree) get(name string) *tree {
	for _, f := range t.fields {
		if f.name == name {
			return f.value
		}
	}
	return nil
}

// describe names the value in a message.
func (t *tree) describe() string {
	switch t.kind {
	case mapKind:
		return "a mapping"
	case listKind:
		return "a list"
	case nullKind:
		return "nothing"
	}
	switch t.value.(type) {
	case bool:
		return "the boolean " + shortenPlain(t.text)
	case string:
		return "the string " + shorten(t.text)
	}
	return "the number " + shortenPlain(t.text)
}

func shortenPlain(text string) string {
	if len(text) > 64 {
		return text[:64] + "…"
	}
	return text
}

// builder makes a tree from parsed YAML within the limits.
type builder struct {
	report  *report
	values  int
	aliased int
	open    map[*yaml.Node]bool // anchors whose value is being built
	stopped bool
}

// build returns nil for a value that is too large or not allowed; that has been
// reported. inAlias says that the node is reached through an alias.
func (b *builder) build(node *yaml.Node, path string, depth int, inAlias bool) *tree {
	if b.stopped {
		return nil
	}
	at := Position{node.Line, node.Column}
	if depth > maxDepth {
		b.report.errorf(at, trimPath(path), "nested deeper than %d levels", maxDepth)
		b.stopped = true
		return nil
	}
	if b.values++; b.values > maxValues {
		b.report.errorf(at, trimPath(path), "the file has more than %d values", maxValues)
		b.stopped = true
		return nil
	}
	if inAlias {
		b.aliased++
		if b.aliased > maxAliased {
			b.report.errorf(at, trimPath(path), "aliases stand for more than %d values", maxAliased)
			b.stopped = true
			return nil
		}
	}
	if !b.enter(node) {
		b.report.errorf(at, trimPath(path), "the anchor &%s contains itself", node.Anchor)
		b.stopped = true
		return nil
	}
	defer delete(b.open, node)
	switch node.Kind {
	case yaml.AliasNode:
		return b.buildAlias(node, path, depth)
	case yaml.MappingNode:
		return b.buildMap(node, path, depth, inAlias)
	case yaml.SequenceNode:
		t := &tree{kind: listKind, at: at}
		for i, item := range node.Content {
			child := b.build(item, elementPath(path, i), depth+1, inAlias)
			if child == nil {
				child = &tree{kind: nullKind, at: Position{item.Line, item.Column}} // reported
			}
			t.items = append(t.items, child)
		}
		return t
	}
	return b.buildScalar(node, path)
}

// buildAlias builds what the alias stands for, at the position of the alias.
func (b *builder) buildAlias(node *yaml.Node, path string, depth int) *tree {
	at := Position{node.Line, node.Column}
	t := b.build(node.Alias, path, depth+1, true)
	if t == nil {
		return nil
	}
	here := *t
	here.at = at
	return &here
}

// enter marks an anchored node as being built; it is false for a node that is
// part of its own value.
func (b *builder) enter(node *yaml.Node) bool {
	if node.Anchor == "" {
		return true
	}
	if b.open[node] {
		return false
	}
	if b.open == nil {
		b.open = map[*yaml.Node]bool{}
	}
	b.open[node] = true
	return true
}

func (b *builder) buildMap(node *yaml.Node, path string, depth int, inAlias bool) *tree {
	t := &tree{kind: mapKind, at: Position{node.Line, node.Column}}
	first := map[string]int{}
	var merges []*yaml.Node
	for i := 0; i+1 < len(node.Content); i += 2 {
		key, value := node.Content[i], node.Content[i+1]
		at := Position{key.Line, key.Column}
		if key.Kind == yaml.ScalarNode && key.ShortTag() == "!!merge" {
			merges = append(merges, value)
			continue
		}
		if key.Kind == yaml.AliasNode {
			key = key.Alias
		}
		if key.Kind != yaml.ScalarNode {
			b.report.errorf(at, path, "a key must be a plain word")
			continue
		}
		name := key.Value
		if line, ok := first[name]; ok {
			b.report.errorf(at, join(path, name), "duplicate key, first set in line %d", line)
			continue
		}
		first[name] = at.Line
		if child := b.build(value, join(path, name), depth+1, inAlias); child != nil {
			t.fields = append(t.fields, field{name: name, at: at, value: child})
		}
	}
	for _, source := range merges {
		b.merge(t, first, source, path, depth)
	}
	return t
}

// merge adds the fields of `<<: source` that the mapping does not have itself.
// Of several sources the first one wins.
func (b *builder) merge(into *tree, have map[string]int, source *yaml.Node, path string, depth int) {
	t := b.build(source, path, depth+1, true)
	if t == nil {
		return
	}
	sources := []*tree{t}
	if t.kind == listKind {
		sources = t.items
	}
	for _, s := range sources {
		if s.kind != mapKind {
			b.report.errorf(s.at, path, "<< merges mappings only, not %s", s.describe())
			continue
		}
		for _, f := range s.fields {
			if _, ok := have[f.name]; ok {
				continue
			}
			have[f.name] = f.at.Line
			into.fields = append(into.fields, f)
		}
	}
}

// yaml11Booleans are words that YAML 1.1, and so sigs.k8s.io/yaml, reads as
// booleans. YAML 1.2 reads them as strings.
var yaml11Booleans = map[string]bool{
	"y": true, "Y": true, "yes": true, "Yes": true, "YES": true, "on": true, "On": true, "ON": true,
	"n": false, "N": false, "no": false, "No": false, "NO": false, "off": false, "Off": false, "OFF": false,
}

// buildScalar resolves a scalar to the same value as sigs.k8s.io/yaml does.
func (b *builder) buildScalar(node *yaml.Node, path string) *tree {
	t := &tree{
		kind: scalarKind, at: Position{node.Line, node.Column}, text: node.Value,
		plain: node.Style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle|yaml.LiteralStyle|yaml.FoldedStyle|yaml.TaggedStyle) == 0,
	}
	if value, ok := yaml11Booleans[node.Value]; ok && t.plain {
		t.value = value
		return t
	}
	tag := node.ShortTag()
	ok := true
	switch tag {
	case "!!null":
		t.kind = nullKind
	case "!!str", "!!timestamp":
		t.value = node.Value
	case "!!bool":
		t.value, ok = strings.EqualFold(node.Value, "true"), isBoolean(node.Value)
	case "!!int":
		t.value, ok = parseInteger(node.Value)
	case "!!float":
		t.value, ok = parseFloat(node.Value)
	default:
		b.report.errorf(t.at, path, "the tag %s is not allowed", shortenPlain(tag))
		return nil
	}
	if !ok {
		b.report.errorf(t.at, path, "%s does not fit its tag %s", shorten(node.Value), tag)
		return nil
	}
	return t
}

func isBoolean(text string) bool {
	return strings.EqualFold(text, "true") || strings.EqualFold(text, "false")
}

// parseInteger reads the spellings of YAML: 10, 0x1f, 0o17, 017, 0b11, 1_000.
func parseInteger(text string) (any, bool) {
	text = strings.ReplaceAll(text, "_", "")
	if n, err := strconv.ParseInt(text, 0, 64); err == nil {
		return n, true
	}
	if n, err := strconv.ParseUint(text, 0, 64); err == nil {
		return n, true
	}
	return nil, false
}

func parseFloat(text string) (any, bool) {
	switch strings.ToLower(strings.TrimLeft(text, "+-")) {
	case ".inf":
		if strings.HasPrefix(text, "-") {
			return math.Inf(-1), true
		}
		return math.Inf(1), true
	case ".nan":
		return math.NaN(), true
	}
	f, err := strconv.ParseFloat(strings.ReplaceAll(text, "_", ""), 64)
	return f, err == nil || math.IsInf(f, 0)
}

// isPlainKey says whether a key can stand in a path as it is.
func isPlainKey(name string) bool {
	for _, c := range []byte(name) {
		letter, digit := 'a' <= c|0x20 && c|0x20 <= 'z', '0' <= c && c <= '9'
		if !letter && !digit && c != '_' && c != '-' {
			return false
		}
	}
	return 0 < len(name) && len(name) <= 64
}

// join makes the path of a field of the mapping at path.
func join(path, name string) string {
	if !isPlainKey(name) {
		return path + "[" + shorten(name) + "]"
	}
	if path == "" {
		return name
	}
	return path + "." + name
}

// elementPath is the path of an element of the list at path.
func elementPath(path string, index int) string { return path + "[" + strconv.Itoa(index) + "]" }

// trimPath keeps the path of a very deep value readable.
func trimPath(path string) string {
	if len(path) <= 80 {
		return path
	}
	return strings.ToValidUTF8(path[:80], "") + "…"
}
