package conversion

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"kcmd.dev/pkg/config/v1beta1"
)

// File is a configuration as a person would write it: only what differs from the
// defaults, in the order of the types, with comments.
type File struct {
	// Config is the configuration, complete.
	Config *v1beta1.KubeControllerManagerConfiguration
	// Head is the comment at the top, one entry per line.
	Head []string
	// Comments are the comments above fields, by path, one entry per line. The comment
	// of a field that has its default is above the block around it, else at the top.
	Comments map[string][]string
}

// Bytes renders the file.
func (f File) Bytes() ([]byte, error) {
	said, err := f.said()
	if err != nil {
		return nil, err
	}
	said["apiVersion"], said["kind"] = v1beta1.APIVersion, v1beta1.Kind
	w := &fileWriter{comments: map[string][]string{}}
	head := f.place(said, w.comments)
	root, err := w.node(said, reflect.TypeOf(*f.Config), "")
	if err != nil {
		return nil, err
	}
	var body bytes.Buffer
	encoder := yaml.NewEncoder(&body)
	encoder.SetIndent(2)
	if err := encoder.Encode(root); err != nil {
		return nil, fmt.Errorf("writing the configuration: %w", err)
	}
	return append([]byte(comment(head)), spaced(body.String())...), nil
}

// Written returns a function that reports whether the file sets a field, or a field in a
// block. It sets those that differ from their defaults.
func (f File) Written() (func(path string) bool, error) {
	said, err := f.said()
	if err != nil {
		return nil, err
	}
	return func(path string) bool { return has(said, path) }, nil
}

// said is the part of the configuration that the file contains.
func (f File) said() (map[string]any, error) {
	actual, err := toMap(f.Config)
	if err != nil {
		return nil, err
	}
	standard, err := toMap(v1beta1.NewDefault())
	if err != nil {
		return nil, err
	}
	return onlyChanged(actual, standard), nil
}

func toMap(cfg *v1beta1.KubeControllerManagerConfiguration) (map[string]any, error) {
	data, err := json.Marshal(cfg)
	if err != nil {
		return nil, fmt.Errorf("encoding the configuration: %w", err)
	}
	out := map[string]any{}
	if err := json.Unmarshal(data, &out); err != nil {
		return nil, fmt.Errorf("reading back the encoded configuration: %w", err)
	}
	return out, nil
}

// place finds for each comment the field that is written, or the block around it; what
// finds none is in the head of the file.
func (f File) place(said map[string]any, placed map[string][]string) (head []string) {
	head = slices.Clone(f.Head)
	for _, path := range slices.Sorted(maps.Keys(f.Comments)) {
		at := path
		for at != "" && !has(said, at) {
			at = at[:max(0, strings.LastIndexByte(at, '.'))]
		}
		if at == "" {
			head = append(head, f.Comments[path]...)
			continue
		}
		placed[at] = append(placed[at], f.Comments[path]...)
	}
	return head
}

func has(said map[string]any, path string) bool {
	var value any = said
	for name := range strings.SplitSeq(path, ".") {
		object, ok := value.(map[string]any)
		if !ok {
			return false
		}
		if value, ok = object[name]; !ok {
			return false
		}
	}
	return true
}

// onlyChanged leaves out whatever is equal to the default.
func onlyChanged(actual, standard map[string]any) map[string]any {
	out := map[string]any{}
	for name, value := range actual {
		other := standard[name]
		inner, isObject := value.(map[string]any)
		if !isObject {
			if !reflect.DeepEqual(value, other) {
				out[name] = value
			}
			continue
		}
		otherObject, _ := other.(map[string]any)
		if changed := onlyChanged(inner, otherObject); len(changed) > 0 {
			out[name] = changed
		}
	}
	return out
}

// fileWriter makes YAML of values in the order of a type.
type fileWriter struct{ comments map[string][]string }

func (w *fileWriter) node(value any, goType reflect.Type, path string) (*yaml.Node, error) {
	if goType.Kind() == reflect.Pointer {
		goType = goType.Elem()
	}
	object, isObject := value.(map[string]any)
	if isObject && goType.Kind() == reflect.Struct {
		return w.object(object, goType, path)
	}
	if list, ok := value.([]any); ok {
		return w.list(list, goType.Elem(), path)
	}
	out := &yaml.Node{}
	if err := out.Encode(readable(value, goType)); err != nil {
		return nil, fmt.Errorf("writing %s: %w", path, err)
	}
	return out, nil
}

func (w *fileWriter) list(values []any, elementType reflect.Type, path string) (*yaml.Node, error) {
	out := &yaml.Node{Kind: yaml.SequenceNode}
	if len(values) == 0 {
		out.Style = yaml.FlowStyle
	}
	for _, value := range values {
		element, err := w.node(value, elementType, path+"[]")
		if err != nil {
			return nil, err
		}
		out.Content = append(out.Content, element)
	}
	return out, nil
}

func (w *fileWriter) object(values map[string]any, goType reflect.Type, path string) (*yaml.Node, error) {
	out := &yaml.Node{Kind: yaml.MappingNode}
	for i := range goType.NumField() {
		field := goType.Field(i)
		name, inline := JSONName(field)
		if inline {
			inner, err := w.object(values, field.Type, path)
			if err != nil {
				return nil, err
			}
			out.Content = append(out.Content, inner.Content...)
			continue
		}
		value, ok := values[name]
		if !ok {
			continue
		}
		at := strings.TrimPrefix(path+"."+name, ".")
		inner, err := w.node(value, field.Type, at)
		if err != nil {
			return nil, err
		}
		key := &yaml.Node{Kind: yaml.ScalarNode, Value: name, HeadComment: strings.TrimSuffix(comment(w.comments[at]), "\n")}
		out.Content = append(out.Content, key, inner)
	}
	return kindFirst(out), nil
}

// kindFirst puts apiVersion before kind: TypeMeta has them the other way round.
func kindFirst(object *yaml.Node) *yaml.Node {
	if c := object.Content; len(c) >= 4 && c[0].Value == "kind" && c[2].Value == "apiVersion" {
		c[0], c[1], c[2], c[3] = c[2], c[3], c[0], c[1]
	}
	return object
}

// readable writes durations without the zero parts that time.Duration prints.
func readable(value any, goType reflect.Type) any {
	text, ok := value.(string)
	if !ok || goType != durationType {
		return wholeNumber(value)
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		return value
	}
	return v1beta1.FormatDuration(d)
}

// wholeNumber turns a whole number, which encoding/json decodes as float64, back into an
// integer.
func wholeNumber(value any) any {
	if f, ok := value.(float64); ok && f == float64(int64(f)) {
		return int64(f)
	}
	return value
}

// commentWidth is the length of a line of a comment, unless a word is longer.
const commentWidth = 100

// breaks takes the line breaks of YAML, which would end a comment, out of the values in it.
var breaks = strings.NewReplacer("\n", " ", "\r", " ", "\u0085", " ", "\u2028", " ", "\u2029", " ")

func comment(lines []string) string {
	var b strings.Builder
	for _, line := range lines {
		line = breaks.Replace(line)
		for len(line) > commentWidth {
			cut := strings.LastIndexByte(line[:commentWidth], ' ')
			if cut <= len("  ") {
				break
			}
			b.WriteString("# " + line[:cut] + "\n")
			line = "  " + line[cut+1:]
		}
		b.WriteString(strings.TrimRight("# "+line, " ") + "\n")
	}
	return b.String()
}

// spaced puts an empty line before each block of the file and its comment.
func spaced(text string) string {
	var b strings.Builder
	commented := false
	for i, line := range strings.SplitAfter(text, "\n") {
		top := line != "" && line[0] != ' ' && line[0] != '-' && line[0] != '\n'
		if top && !commented && i > 0 && !strings.HasPrefix(line, "kind:") {
			b.WriteByte('\n')
		}
		commented = strings.HasPrefix(line, "#")
		b.WriteString(line)
	}
	return b.String()
}
