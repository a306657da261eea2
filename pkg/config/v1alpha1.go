package config

import (
	"errors"
	"reflect"
	"slices"
	"strings"

	"k8s.io/kube-controller-manager/config/v1alpha1"

	"kcmd.dev/pkg/config/decode"
	"kcmd.dev/pkg/config/diff"
	"kcmd.dev/pkg/config/fieldpath"
	"kcmd.dev/pkg/config/problem"
	"kcmd.dev/pkg/config/tree"
	"kcmd.dev/pkg/config/upstream/conversion"
	"kcmd.dev/pkg/config/v1beta1"
)

// V1alpha1Document is a configuration that was read from a file of upstream's version.
type V1alpha1Document struct {
	// Document is the converted configuration. Its positions point into the file, and
	// its warnings include the notes.
	*Document
	// Notes are about settings that the conversion does not copy unchanged.
	Notes []conversion.Note
	// Origins are, by the field of v1beta1, the field of the file that decided.
	Origins map[string]string
}

// LoadV1alpha1 is Load for a file of kubecontrollermanager.config.k8s.io/v1alpha1, or
// what /configz of a kube-controller-manager answers. It refuses any other version.
func LoadV1alpha1(name string, data []byte) (*V1alpha1Document, error) {
	r := &problem.Report{File: name}
	var doc *V1alpha1Document
	root := tree.Read(data, r)
	switch {
	case root == nil:
	case !isV1alpha1(root):
		r.Errorf(root.At, "apiVersion", "must be %q: this is not a configuration of upstream", conversion.APIVersion)
	default:
		doc = loadV1alpha1(root, r)
	}
	problems := r.Errors()
	if problems.HasErrors() {
		return nil, problems
	}
	doc.Name = name
	doc.Warnings = problems
	return doc, nil
}

// isV1alpha1 reports whether the file is in upstream's version, or what /configz answers.
func isV1alpha1(root *tree.Node) bool {
	if wrapped(root) != nil {
		return true
	}
	version := root.Get("apiVersion")
	if version == nil {
		return false
	}
	text, _ := version.Value.(string)
	group, _, _ := strings.Cut(text, "/")
	return group == conversion.Group
}

// inForce returns the part in our version of what our own /configz responds with, and
// anything else unchanged.
func inForce(root *tree.Node) *tree.Node {
	if root == nil || len(root.Fields) != 2 || root.Get(conversion.Group) == nil {
		return root
	}
	if ours := root.Get(v1beta1.GroupName); ours != nil && ours.Kind == tree.Map {
		return ours
	}
	return root
}

// IsOwnConfigz reports whether a file is what our own /configz responds with.
func IsOwnConfigz(data []byte) bool {
	root := tree.Read(data, &problem.Report{})
	return inForce(root) != root
}

// wrapped returns the configuration that /configz shows under the name of its group, or nil.
func wrapped(root *tree.Node) *tree.Node {
	if len(root.Fields) == 1 && root.Fields[0].Name == conversion.Group && root.Fields[0].Value.Kind == tree.Map {
		return root.Fields[0].Value
	}
	return nil
}

// loadV1alpha1 reads, converts and checks a configuration. Problems are reported in the
// terms of the file. It returns nil only after having reported an error.
func loadV1alpha1(root *tree.Node, r *problem.Report) *V1alpha1Document {
	inner := wrapped(root)
	if inner != nil {
		root = inner
	}
	checkV1alpha1(root, inner != nil, r)
	in, places := readV1alpha1(root, r)
	if in == nil {
		return nil
	}
	return convertV1alpha1(in, places, lostFields(r), r)
}

// convertV1alpha1 converts what was read from the source, except for the fields that are
// lost already, and checks the result.
func convertV1alpha1(
	in *v1alpha1.KubeControllerManagerConfiguration, source tree.Places, lost []string, r *problem.Report,
) *V1alpha1Document {
	result, err := conversion.ToHub(in)
	if err != nil {
		lost = append(lost, reportConversion(err, source, r)...)
	}
	for _, note := range result.Notes {
		r.Warnf(source.Position(note.Field), note.Field, "%s", note.Message)
	}
	doc := checkConverted(result, source, lost, r)
	if doc == nil || err != nil {
		return nil
	}
	doc.upstream = &upstreamOrigins{fields: result.Origins, places: source}
	return &V1alpha1Document{Document: doc, Notes: result.Notes, Origins: result.Origins}
}

// lostFields are the v1beta1 fields of those that could not be decoded.
func lostFields(r *problem.Report) []string {
	var out []string
	for path := range r.Failed() {
		out = append(out, fieldsOf(path)...)
	}
	return out
}

// fieldsOf are the v1beta1 fields of a field of v1alpha1, or of the block or list around it.
func fieldsOf(path string) []string {
	for ; path != ""; path = fieldpath.Parent(path) {
		if row, ok := conversion.ByUpstream(path); ok {
			return row.Fields()
		}
	}
	return nil
}

// checkV1alpha1 reports a wrong apiVersion or kind. Under the name of the group,
// as /configz answers, they need not be there.
func checkV1alpha1(root *tree.Node, answered bool, r *problem.Report) {
	for _, word := range []struct{ name, want string }{{"apiVersion", conversion.APIVersion}, {"kind", conversion.Kind}} {
		if !answered || root.Get(word.name) != nil {
			checkWord(root, word.name, word.want, r)
		}
	}
}

// readV1alpha1 decodes the configuration onto upstream's defaults; what the file does not set
// is as if upstream ran without the flag. Limits of clients are the exception: limits that
// are not set do not exist.
func readV1alpha1(root *tree.Node, r *problem.Report) (*v1alpha1.KubeControllerManagerConfiguration, tree.Places) {
	const client = "Generic.ClientConnection."
	in := conversion.NewDefault()
	shaped := decode.Shape(spell(root, reflect.TypeOf(*in), "", r), reflect.TypeOf(*in), nil, r)
	set := shaped.Places.Values
	if set[client+"qps"] == nil && set[client+"burst"] == nil {
		in.Generic.ClientConnection.QPS, in.Generic.ClientConnection.Burst = conversion.Unlimited, 0
	}
	// A list is replaced: decoding would fill the elements of the default.
	if set["Generic.Controllers"] != nil {
		in.Generic.Controllers = nil
	}
	if set["GarbageCollectorController.GCIgnoredResources"] != nil {
		in.GarbageCollectorController.GCIgnoredResources = nil
	}
	if err := shaped.Into(in); err != nil {
		r.Errorf(root.At, "", "%v", err)
		return nil, tree.Places{}
	}
	return in, shaped.Places
}

// spell returns the tree with the names that /configz prints, and without nulls, which
// /configz prints for fields that are not set.
func spell(t *tree.Node, goType reflect.Type, path string, r *problem.Report) *tree.Node {
	for goType.Kind() == reflect.Pointer {
		goType = goType.Elem()
	}
	out := *t
	switch {
	case t.Kind == tree.List && goType.Kind() == reflect.Slice:
		out.Items = nil
		for i, item := range t.Items {
			out.Items = append(out.Items, spell(item, goType.Elem(), fieldpath.Element(path, i), r))
		}
	case t.Kind == tree.Map && goType.Kind() == reflect.Struct:
		out.Fields = spellFields(t, goType, path, r)
	}
	return &out
}

func spellFields(t *tree.Node, goType reflect.Type, path string, r *problem.Report) []tree.Field {
	var out []tree.Field
	for _, f := range t.Fields {
		canonical, fieldType, ok := conversion.FieldNamed(goType, f.Name)
		if !ok {
			out = append(out, f) // reported with the types of all fields
			continue
		}
		if f.Value.Kind == tree.Null {
			continue
		}
		at := fieldpath.Join(path, canonical)
		if i := slices.IndexFunc(out, func(other tree.Field) bool { return other.Name == canonical }); i >= 0 {
			r.Errorf(f.At, at, "duplicate key, first set on line %d", out[i].At.Line)
			continue
		}
		out = append(out, tree.Field{Name: canonical, At: f.At, Value: spell(f.Value, fieldType, at, r)})
	}
	return out
}

// reportConversion reports what could not be converted, and returns the v1beta1 fields that lack it.
func reportConversion(err error, source tree.Places, r *problem.Report) (lost []string) {
	var problems conversion.Errors
	if !errors.As(err, &problems) {
		r.Errorf(source.Position(""), "", "%v", err)
		return nil
	}
	for _, p := range problems {
		r.Errorf(source.Position(p.Field), p.Field, "%s", p.Message)
		lost = append(lost, fieldsOf(p.Field)...)
	}
	return lost
}

// checkConverted validates the result like a file with only what differs from the defaults,
// at the positions of the fields it came from.
func checkConverted(result *conversion.Result, source tree.Places, lost []string, r *problem.Report) *Document {
	said := diff.Object{"apiVersion": v1beta1.APIVersion, "kind": v1beta1.Kind}
	for _, change := range diff.Between(v1beta1.NewDefault(), result.Config) {
		said = said.With(change.Keys(), change.New)
	}
	at := func(path string) problem.Position {
		from, ok := originOf(path, result.Origins)
		if !ok {
			return source.Position("")
		}
		return source.Position(from)
	}
	converted := &problem.Report{File: r.File}
	doc := loadHub(tree.Of(map[string]any(said), "", at), converted, lost)
	for _, p := range converted.Errors() {
		if from, ok := originOf(p.Path, result.Origins); ok {
			p.Path = from
			if row, ok := conversion.ByUpstream(from); ok && row.Refused != "" && p.Severity == problem.SeverityError {
				p.Message += " (" + row.Refused + ")"
			}
		}
		r.Add(p)
	}
	return doc
}

// upstreamOrigins are where values come from that were converted from upstream's version.
type upstreamOrigins struct {
	fields map[string]string // by the field of v1beta1, that of the file
	places tree.Places
}

func (u *upstreamOrigins) of(path string) Origin {
	from, ok := originOf(path, u.fields)
	if !ok {
		return Origin{}
	}
	origin := Origin{Upstream: from}
	if value, ok := u.places.Values[from]; ok {
		origin.At, origin.Anchor = value.At, value.Anchor
	}
	return origin
}

// originOf returns the upstream field of a v1beta1 field, or of the field that it is part of.
func originOf(path string, origins map[string]string) (string, bool) {
	for ; path != ""; path = fieldpath.Parent(path) {
		if from, ok := origins[path]; ok {
			return from, true
		}
	}
	return "", false
}
