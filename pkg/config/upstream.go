package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"k8s.io/kube-controller-manager/config/v1alpha1"

	"kcmd.dev/pkg/config/upstream/conversion"
	"kcmd.dev/pkg/config/v1beta1"
)

// UpstreamDocument is a configuration that was read from a file of upstream's version.
type UpstreamDocument struct {
	// Document is the converted configuration. Its positions point into the file, and
	// its warnings include the notes.
	*Document
	// Notes are what the conversion has to say.
	Notes []conversion.Note
	// Origins are, by the field of v1beta1, the field of the file that decided.
	Origins map[string]string
}

// ConversionBuild says to conversions what this build has.
func ConversionBuild() conversion.Build {
	canonical := func(name string) string {
		canonical, _ := CanonicalName(name)
		return canonical
	}
	return conversion.Build{Canonical: canonical, Has: Built}
}

// LoadUpstream is Load for a file of kubecontrollermanager.config.k8s.io/v1alpha1, or
// what /configz of a kube-controller-manager answers. It refuses any other version.
func LoadUpstream(name string, data []byte) (*UpstreamDocument, error) {
	r := &report{file: name}
	var doc *UpstreamDocument
	root := readTree(data, r)
	switch {
	case root == nil:
	case !isUpstream(root):
		r.errorf(root.at, "apiVersion", "must be %q: this is no configuration of upstream", conversion.APIVersion)
	default:
		doc = loadUpstream(root, r)
	}
	problems := r.finish()
	if problems.HasErrors() {
		return nil, problems
	}
	doc.Name = name
	doc.Warnings = problems
	return doc, nil
}

// isUpstream says whether the file is in upstream's version, or what /configz answers.
func isUpstream(root *tree) bool {
	if wrapped(root) != nil {
		return true
	}
	version := root.get("apiVersion")
	if version == nil {
		return false
	}
	text, _ := version.value.(string)
	group, _, _ := strings.Cut(text, "/")
	return group == conversion.Group
}

// inForce returns, of what our own /configz answers, the part in our version. Anything
// else is returned as it is.
func inForce(root *tree) *tree {
	if root == nil || len(root.fields) != 2 || root.get(conversion.Group) == nil {
		return root
	}
	if ours := root.get(v1beta1.GroupName); ours != nil && ours.kind == mapKind {
		return ours
	}
	return root
}

// wrapped is the configuration that /configz answers under the name of its group.
func wrapped(root *tree) *tree {
	if len(root.fields) == 1 && root.fields[0].name == conversion.Group && root.fields[0].value.kind == mapKind {
		return root.fields[0].value
	}
	return nil
}

// loadUpstream reads, converts and checks a configuration. Problems are reported in the
// terms of the file. It returns nil only after having reported an error.
func loadUpstream(root *tree, r *report) *UpstreamDocument {
	inner := wrapped(root)
	if inner != nil {
		root = inner
	}
	checkUpstreamVersion(root, inner != nil, r)
	s := &shaper{report: r, values: map[string]*tree{}, keys: map[string]Position{}}
	in := readUpstream(root, s)
	if in == nil {
		return nil
	}
	return convertUpstream(in, places{values: s.values, keys: s.keys}, lostFields(r), r)
}

// convertUpstream converts what was read from the source, except for the fields that are
// lost already, and checks the result.
func convertUpstream(in *v1alpha1.KubeControllerManagerConfiguration, source places, lost []string, r *report) *UpstreamDocument {
	result, err := conversion.ToHub(in, ConversionBuild())
	if err != nil {
		reportConversion(err, source, r)
		return nil
	}
	for _, note := range result.Notes {
		r.warnf(source.nearest(note.Field), note.Field, "%s", note.Message)
	}
	doc := checkConverted(result, source, lost, r)
	if doc == nil {
		return nil
	}
	return &UpstreamDocument{Document: doc, Notes: result.Notes, Origins: result.Origins}
}

// lostFields are the v1beta1 fields of those that could not be decoded.
func lostFields(r *report) []string {
	var out []string
	for path := range undecoded(r) {
		if row, ok := conversion.ByUpstream(path); ok {
			out = append(out, row.Fields()...)
		}
	}
	return out
}

// checkUpstreamVersion reports a wrong apiVersion or kind. Under the name of the group,
// as /configz answers, they need not be there.
func checkUpstreamVersion(root *tree, answered bool, r *report) {
	for _, word := range []struct{ name, want string }{{"apiVersion", conversion.APIVersion}, {"kind", conversion.Kind}} {
		if !answered || root.get(word.name) != nil {
			checkWord(root, word.name, word.want, r)
		}
	}
}

// readUpstream decodes the configuration onto upstream's defaults; what the file does
// not set is as if upstream ran without the flag. Limits of clients are the exception:
// those that nobody set are none.
func readUpstream(root *tree, s *shaper) *v1alpha1.KubeControllerManagerConfiguration {
	const client = "Generic.ClientConnection."
	in := conversion.NewDefault()
	shaped, _ := s.shape(spell(root, reflect.TypeOf(*in), "", s.report), reflect.TypeOf(*in), "")
	if s.values[client+"qps"] == nil && s.values[client+"burst"] == nil {
		in.Generic.ClientConnection.QPS, in.Generic.ClientConnection.Burst = conversion.Unlimited, 0
	}
	// A list is replaced: decoding would fill the elements of the default.
	if s.values["Generic.Controllers"] != nil {
		in.Generic.Controllers = nil
	}
	if s.values["GarbageCollectorController.GCIgnoredResources"] != nil {
		in.GarbageCollectorController.GCIgnoredResources = nil
	}
	if err := decode(shaped, in); err != nil {
		s.report.errorf(root.at, "", "%v", err)
		return nil
	}
	return in
}

// spell returns the tree with the names that /configz prints, and without what is null,
// which /configz prints for what is not set.
func spell(t *tree, goType reflect.Type, path string, r *report) *tree {
	for goType.Kind() == reflect.Pointer {
		goType = goType.Elem()
	}
	out := *t
	switch {
	case t.kind == listKind && goType.Kind() == reflect.Slice:
		out.items = nil
		for i, item := range t.items {
			out.items = append(out.items, spell(item, goType.Elem(), elementPath(path, i), r))
		}
	case t.kind == mapKind && goType.Kind() == reflect.Struct:
		out.fields = spellFields(t, goType, path, r)
	}
	return &out
}

func spellFields(t *tree, goType reflect.Type, path string, r *report) []field {
	var out []field
	for _, f := range t.fields {
		canonical, fieldType, ok := conversion.FieldNamed(goType, f.name)
		if !ok {
			out = append(out, f) // reported with the types of all fields
			continue
		}
		if f.value.kind == nullKind {
			continue
		}
		at := join(path, canonical)
		if i := slices.IndexFunc(out, func(other field) bool { return other.name == canonical }); i >= 0 {
			r.errorf(f.at, at, "duplicate key, first set in line %d", out[i].at.Line)
			continue
		}
		out = append(out, field{name: canonical, at: f.at, value: spell(f.value, fieldType, at, r)})
	}
	return out
}

func reportConversion(err error, source places, r *report) {
	var problems conversion.Errors
	if !errors.As(err, &problems) {
		r.errorf(source.nearest(""), "", "%v", err)
		return
	}
	for _, problem := range problems {
		r.errorf(source.nearest(problem.Field), problem.Field, "%s", problem.Message)
	}
}

// checkConverted validates the result like a file that says only what differs from the
// defaults, at the positions of the fields it came from.
func checkConverted(result *conversion.Result, source places, lost []string, r *report) *Document {
	said := object{"apiVersion": v1beta1.APIVersion, "kind": v1beta1.Kind}
	for _, change := range changedLeaves(toObject(v1beta1.NewDefault()), toObject(result.Config)) {
		said = said.with(change.keys, change.New)
	}
	at := func(path string) Position {
		from, ok := originOf(path, result.Origins)
		if !ok {
			return source.nearest("")
		}
		return source.nearest(from)
	}
	converted := &report{file: r.file}
	doc := loadHub(treeOf(map[string]any(said), "", at), converted, lost)
	for _, problem := range converted.finish() {
		path, message := problem.Path, problem.Message
		if from, ok := originOf(path, result.Origins); ok {
			path = from
			if row, ok := conversion.ByUpstream(from); ok && row.Refused != "" && problem.Severity == SeverityError {
				message += " (" + row.Refused + ")"
			}
		}
		r.add(problem.Severity, problem.Position, path, "%s", []any{message})
	}
	return doc
}

// originOf is the upstream field of a v1beta1 field, or of the field that it is part of.
func originOf(path string, origins map[string]string) (string, bool) {
	for ; path != ""; path = parentPath(path) {
		if from, ok := origins[path]; ok {
			return from, true
		}
	}
	return "", false
}

// treeOf makes a tree of values as encoding/json decodes them.
func treeOf(value any, path string, at func(path string) Position) *tree {
	t := &tree{at: at(path)}
	switch v := value.(type) {
	case map[string]any:
		t.kind = mapKind
		for _, name := range sortedKeys(v) {
			inner := join(path, name)
			t.fields = append(t.fields, field{name: name, at: at(inner), value: treeOf(v[name], inner, at)})
		}
	case []any:
		t.kind = listKind
		for i, item := range v {
			t.items = append(t.items, treeOf(item, elementPath(path, i), at))
		}
	default:
		t.kind, t.value, t.text = scalarKind, wholeNumber(v), fmt.Sprint(v)
	}
	return t
}

// wholeNumber undoes that encoding/json decodes every number as float64.
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
