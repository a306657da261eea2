package tree

import (
	"math"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"kcmd.dev/pkg/config/fieldpath"
	"kcmd.dev/pkg/config/problem"
)

const (
	// maxDepth is the deepest nesting of a configuration.
	maxDepth = 64
	// maxValues is the number of values a file may have, many times what a configuration needs.
	maxValues = 20_000
	// maxAliased is the number of nodes that aliases may expand to in total.
	maxAliased = 10_000
)

// builder makes a tree from parsed YAML within the limits.
type builder struct {
	report  *problem.Report
	values  int
	aliased int
	open    map[*yaml.Node]bool // anchors whose value is being built
	stopped bool
}

// build returns nil for a value that is too large or not allowed; that has been reported.
// inAlias is set if the node is reached through an alias.
func (b *builder) build(node *yaml.Node, path string, depth int, inAlias bool) *Node {
	if b.stopped {
		return nil
	}
	at := problem.Position{Line: node.Line, Column: node.Column}
	if depth > maxDepth {
		b.report.Errorf(at, trimPath(path), "nested deeper than %d levels", maxDepth)
		b.stopped = true
		return nil
	}
	if b.values++; b.values > maxValues {
		b.report.Errorf(at, trimPath(path), "the file has more than %d values", maxValues)
		b.stopped = true
		return nil
	}
	if inAlias {
		b.aliased++
		if b.aliased > maxAliased {
			b.report.Errorf(at, trimPath(path), "aliases expand to more than %d values", maxAliased)
			b.stopped = true
			return nil
		}
	}
	if !b.enter(node) {
		b.report.Errorf(at, trimPath(path), "the anchor &%s contains itself", node.Anchor)
		b.stopped = true
		return nil
	}
	defer delete(b.open, node)
	tag := node.ShortTag()
	if node.Kind == yaml.MappingNode && tag != "!!map" || node.Kind == yaml.SequenceNode && tag != "!!seq" {
		b.reportTag(tag, at, path)
		return nil
	}
	switch node.Kind {
	case yaml.AliasNode:
		return b.buildAlias(node, path, depth)
	case yaml.MappingNode:
		return b.buildMap(node, path, depth, inAlias)
	case yaml.SequenceNode:
		t := &Node{Kind: List, At: at}
		for i, item := range node.Content {
			child := b.build(item, fieldpath.Element(path, i), depth+1, inAlias)
			if child == nil {
				child = &Node{Kind: Refused, At: problem.Position{Line: item.Line, Column: item.Column}}
			}
			t.Items = append(t.Items, child)
		}
		return t
	}
	return b.buildScalar(node, path)
}

// buildAlias builds what the alias stands for, at the position of the alias.
func (b *builder) buildAlias(node *yaml.Node, path string, depth int) *Node {
	at := problem.Position{Line: node.Line, Column: node.Column}
	t := b.build(node.Alias, path, depth+1, true)
	if t == nil {
		return nil
	}
	here := *t
	here.At, here.Anchor = at, t.At
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

func (b *builder) buildMap(node *yaml.Node, path string, depth int, inAlias bool) *Node {
	t := &Node{Kind: Map, At: problem.Position{Line: node.Line, Column: node.Column}}
	if isTemplate(node) {
		b.report.Errorf(t.At, path, NotRendered, "{{ … }}")
		return nil
	}
	first := map[string]int{}
	var merges []*yaml.Node
	for i := 0; i+1 < len(node.Content); i += 2 {
		key, value := node.Content[i], node.Content[i+1]
		at := problem.Position{Line: key.Line, Column: key.Column}
		if key.Kind == yaml.ScalarNode && key.ShortTag() == "!!merge" {
			merges = append(merges, value)
			continue
		}
		if key.Kind == yaml.AliasNode {
			key = key.Alias
		}
		if key.Kind != yaml.ScalarNode {
			b.report.Errorf(at, path, "a key must be a plain word")
			continue
		}
		name := key.Value
		if line, ok := first[name]; ok {
			b.report.Errorf(at, fieldpath.Join(path, name), "duplicate key, first set on line %d", line)
			continue
		}
		first[name] = at.Line
		if child := b.build(value, fieldpath.Join(path, name), depth+1, inAlias); child != nil {
			t.Fields = append(t.Fields, Field{Name: name, At: at, Value: child})
		}
	}
	for _, source := range merges {
		b.merge(t, first, source, path, depth)
	}
	return t
}

// isTemplate reports whether a mapping is what YAML reads in the braces of a template: one whose
// only key is a mapping.
func isTemplate(node *yaml.Node) bool {
	return node.Style&yaml.FlowStyle != 0 && len(node.Content) == 2 &&
		node.Content[0].Kind == yaml.MappingNode && node.Content[0].Style&yaml.FlowStyle != 0
}

// merge adds the fields of `<<: source` that the mapping does not have itself.
// Of several sources the first one wins.
func (b *builder) merge(into *Node, have map[string]int, source *yaml.Node, path string, depth int) {
	t := b.build(source, path, depth+1, true)
	if t == nil || b.stopped {
		return
	}
	sources := []*Node{t}
	if t.Kind == List {
		sources = t.Items
	}
	for _, s := range sources {
		if s.Kind == Refused {
			continue
		}
		if s.Kind != Map {
			b.report.Errorf(s.At, path, "<< merges mappings only, not %s", s.Describe())
			continue
		}
		for _, f := range s.Fields {
			if _, ok := have[f.Name]; ok {
				continue
			}
			have[f.Name] = f.At.Line
			into.Fields = append(into.Fields, f)
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
func (b *builder) buildScalar(node *yaml.Node, path string) *Node {
	t := &Node{Kind: Scalar, At: problem.Position{Line: node.Line, Column: node.Column}, Text: node.Value}
	const quoted = yaml.SingleQuotedStyle | yaml.DoubleQuotedStyle | yaml.LiteralStyle | yaml.FoldedStyle
	plain := node.Style&(quoted|yaml.TaggedStyle) == 0
	if value, ok := yaml11Booleans[node.Value]; ok && plain {
		t.Value = value
		return t
	}
	tag := node.ShortTag()
	ok := true
	switch tag {
	case "!!null":
		t.Kind = Null
	case "!!str", "!!timestamp":
		t.Value = node.Value
	case "!!bool":
		t.Value, ok = strings.EqualFold(node.Value, "true"), IsBoolean(node.Value)
	case "!!int":
		t.Value, ok = parseInteger(node.Value)
	case "!!float":
		t.Value, ok = parseFloat(node.Value)
	default:
		b.reportTag(tag, t.At, path)
		return nil
	}
	if !ok {
		b.report.Errorf(t.At, path, "%s does not match its tag %s", problem.Quote(node.Value), tag)
		return nil
	}
	return t
}

func (b *builder) reportTag(tag string, at problem.Position, path string) {
	b.report.Errorf(at, path, "the tag %s is not allowed", problem.Shorten(tag))
}

// IsBoolean reports whether a text is a boolean in YAML 1.2, apart from its letter case.
func IsBoolean(text string) bool {
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

// trimPath keeps the path of a very deep value readable.
func trimPath(path string) string {
	if len(path) <= 80 {
		return path
	}
	return strings.ToValidUTF8(path[:80], "") + "…"
}
