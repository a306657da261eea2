package config

import (
	"fmt"
	"reflect"
	"strings"

	"kcmd.dev/pkg/config/v1beta1"
)

// Document is a configuration together with where each of its fields was written.
type Document struct {
	// Name is the name given to Load, usually the path of the file.
	Name string
	// Config is the configuration, defaulted and valid. It must not be modified.
	Config *v1beta1.KubeControllerManagerConfiguration
	// Warnings are settings that are useless, deprecated or unsafe.
	Warnings Errors

	places places
}

// Position is where the value of the field was written; if the file does not set
// the field, the nearest block around it that the file has.
func (d *Document) Position(path string) Position { return d.places.nearest(path) }

// Load reads a configuration, in YAML or JSON, from data. It is one of v1beta1, or of
// upstream's version, which is converted (see LoadUpstream). The name stands for the
// file in messages. The error, if any, is of type Errors and holds every problem
// of the file, warnings included; without an error warnings are in the Document.
func Load(name string, data []byte) (*Document, error) {
	r := &report{file: name}
	doc := load(data, r)
	problems := r.finish()
	if problems.HasErrors() {
		return nil, problems
	}
	doc.Name = name
	doc.Warnings = problems
	return doc, nil
}

// load returns nil only after having reported an error.
func load(data []byte, r *report) *Document {
	root := inForce(readTree(data, r))
	switch {
	case root == nil:
		return nil
	case isUpstream(root):
		doc := loadUpstream(root, r)
		if doc == nil {
			return nil
		}
		return doc.Document
	case !checkVersion(root, r):
		return nil
	}
	return loadHub(root, r, nil)
}

// readTree parses the file; it returns nil only after having reported an error.
func readTree(data []byte, r *report) *tree {
	data, ok := guard(data, r)
	if !ok {
		return nil
	}
	node := parse(data, r)
	if node == nil {
		return nil
	}
	b := &builder{report: r}
	root := b.build(node, "", 1, false)
	if root == nil || b.stopped {
		return nil
	}
	if root.kind != mapKind {
		r.errorf(root.at, "", "the file must be a mapping, not %s: %s", root.describe(), needed)
		return nil
	}
	return root
}

// loadHub reads a configuration of v1beta1; it returns nil only after having reported
// an error. Fields that are known to be lost already are not compared with others.
func loadHub(root *tree, r *report, lost []string) *Document {
	rules := Rules()
	cfg := &v1beta1.KubeControllerManagerConfiguration{}
	s := &shaper{report: r, rules: byPath(rules), values: map[string]*tree{}, keys: map[string]Position{}}
	shaped, _ := s.shape(root, reflect.TypeOf(*cfg), "")
	if err := decode(shaped, cfg); err != nil {
		r.errorf(root.at, "", "%v", err)
		return nil
	}
	v1beta1.SetDefaults(cfg)
	v := &validator{cfg: cfg, report: r, rules: rules, places: places{values: s.values, keys: s.keys}, undecoded: undecoded(r)}
	for _, path := range lost {
		v.undecoded[path] = true
	}
	v.validate()
	return &Document{Config: cfg, places: v.places}
}

// checkVersion reports a missing or wrong apiVersion or kind. It is false when the
// file is something else altogether, of which the fields need no report.
func checkVersion(root *tree, r *report) bool {
	version := checkWord(root, "apiVersion", v1beta1.APIVersion, r)
	kind := checkWord(root, "kind", v1beta1.Kind, r)
	group, _, _ := strings.Cut(version, "/")
	foreign := version != "" && group != v1beta1.GroupName && nearest(version, []string{v1beta1.APIVersion}) == ""
	otherKind := kind != "" && nearest(kind, []string{v1beta1.Kind}) == ""
	return !foreign && !otherKind
}

// checkWord reports a top-level string that is not what it must be, and returns it.
func checkWord(root *tree, name, want string, r *report) string {
	value := root.get(name)
	if value == nil || value.kind == nullKind {
		at := root.at
		if value != nil {
			at = value.at
		}
		r.errorf(at, name, "is missing: must be %q", want)
		return ""
	}
	text, ok := value.value.(string)
	if !ok {
		return "" // reported with the types of all fields
	}
	if text == "" {
		r.errorf(value.at, name, "is empty: must be %q", want)
		return ""
	}
	if text == want {
		return text
	}
	message := fmt.Sprintf("must be %q, not %s", want, shorten(text))
	if nearest(text, []string{want}) != "" {
		message = fmt.Sprintf("unknown value %s, did you mean %q?", shorten(text), want)
	}
	r.errorf(value.at, name, "%s", message)
	return text
}

// undecoded are the paths of what was left out because it could not be decoded.
func undecoded(r *report) map[string]bool {
	out := map[string]bool{}
	for _, p := range r.problems {
		if p.Severity == SeverityError {
			out[p.Path] = true
		}
	}
	return out
}

// places finds the position of a field by its path.
type places struct {
	values map[string]*tree
	keys   map[string]Position
}

func (p places) nearest(path string) Position {
	if value, ok := p.values[path]; ok {
		return value.at
	}
	for path != "" {
		if at, ok := p.keys[path]; ok {
			return at
		}
		path = parentPath(path)
	}
	if root, ok := p.values[""]; ok {
		return root.at
	}
	return Position{}
}

// parentPath drops the last field or index of a path.
func parentPath(path string) string {
	cut := strings.LastIndexAny(path, ".[")
	if cut < 0 {
		return ""
	}
	return path[:cut]
}
