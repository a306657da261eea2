package config

import (
	"fmt"
	"reflect"
	"strings"

	"kcmd.dev/pkg/config/decode"
	"kcmd.dev/pkg/config/problem"
	"kcmd.dev/pkg/config/rules"
	"kcmd.dev/pkg/config/tree"
	"kcmd.dev/pkg/config/v1beta1"
	"kcmd.dev/pkg/config/validation"
)

// MaxFileBytes is the largest file that Load parses.
const MaxFileBytes = tree.MaxFileBytes

// Load reads a configuration, in YAML or JSON, from data. It is one of v1beta1, or of
// upstream's version, which is converted (see LoadV1alpha1). The name stands for the
// file in messages. The error, if any, is of type problem.Errors and holds every problem
// of the file, warnings included; without an error warnings are in the Document.
func Load(name string, data []byte) (*Document, error) {
	r := &problem.Report{File: name}
	doc := load(data, r)
	problems := r.Errors()
	if problems.HasErrors() {
		return nil, problems
	}
	doc.Name = name
	doc.Warnings = problems
	return doc, nil
}

// load returns nil only after having reported an error.
func load(data []byte, r *problem.Report) *Document {
	root := inForce(tree.Read(data, r))
	if root == nil {
		return nil
	}
	return loadTree(root, r)
}

// loadTree returns nil only after having reported an error.
func loadTree(root *tree.Node, r *problem.Report) *Document {
	switch {
	case isV1alpha1(root):
		doc := loadV1alpha1(root, r)
		if doc == nil {
			return nil
		}
		return doc.Document
	case !checkVersion(root, r):
		return nil
	}
	return loadHub(root, r, nil)
}

// loadHub reads a configuration of v1beta1; it returns nil only after having reported
// an error. Fields that are known to be lost already are not compared with others.
func loadHub(root *tree.Node, r *problem.Report, lost []string) *Document {
	cfg := &v1beta1.KubeControllerManagerConfiguration{}
	shaped := decode.Shape(root, reflect.TypeOf(*cfg), rules.ByPath(), r)
	if err := shaped.Into(cfg); err != nil {
		r.Errorf(root.At, "", "%v", err)
		return nil
	}
	v1beta1.SetDefaults(cfg)
	failed := r.Failed()
	for _, path := range lost {
		failed[path] = true
	}
	validation.Validate(cfg, shaped.Places, failed, r)
	return &Document{Config: cfg, places: shaped.Places}
}

// checkVersion reports a missing or wrong apiVersion or kind. It is false when the
// file is something else altogether, of which the fields need no report.
func checkVersion(root *tree.Node, r *problem.Report) bool {
	version := checkWord(root, "apiVersion", v1beta1.APIVersion, r)
	kind := checkWord(root, "kind", v1beta1.Kind, r)
	group, _, _ := strings.Cut(version, "/")
	foreign := version != "" && group != v1beta1.GroupName && problem.Nearest(version, []string{v1beta1.APIVersion}) == ""
	otherKind := kind != "" && problem.Nearest(kind, []string{v1beta1.Kind}) == ""
	return !foreign && !otherKind
}

// checkWord reports a top-level string that is not what it must be, and returns it.
func checkWord(root *tree.Node, name, want string, r *problem.Report) string {
	value := root.Get(name)
	if value == nil || value.Kind == tree.Null {
		at := root.At
		if value != nil {
			at = value.At
		}
		r.Errorf(at, name, "is missing: must be %q", want)
		return ""
	}
	text, ok := value.Value.(string)
	if !ok {
		return "" // reported with the types of all fields
	}
	if text == "" {
		r.Errorf(value.At, name, "is empty: must be %q", want)
		return ""
	}
	if text == want {
		return text
	}
	message := fmt.Sprintf("must be %q, not %s", want, problem.Quote(text))
	if problem.Nearest(text, []string{want}) != "" {
		message = fmt.Sprintf("unknown value %s, did you mean %q?", problem.Quote(text), want)
	}
	r.Errorf(value.At, name, "%s", message)
	return text
}
