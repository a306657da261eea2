package config

import (
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	logsapi "k8s.io/component-base/logs/api/v1"
)

var (
	durationType    = reflect.TypeFor[metav1.Duration]()
	logDurationType = reflect.TypeFor[logsapi.TimeOrMetaDuration]()
	quantityType    = reflect.TypeFor[resource.QuantityValue]()
)

// shaper compares a tree with the Go types and keeps what fits, as values that
// encoding/json marshals. What does not fit is reported and left out.
type shaper struct {
	report *report
	rules  map[string]Rule
	// values holds, by path, every value the file sets; positions those of the
	// keys, for problems that concern a block as a whole.
	values map[string]*tree
	keys   map[string]Position
}

// shape returns the JSON value for a target of type t, or false when there is none.
func (s *shaper) shape(value *tree, t reflect.Type, path string) (any, bool) {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if value.kind == nullKind {
		s.report.warnf(value.at, path, "is empty, which has no effect: give it a value or remove it")
		return nil, false
	}
	s.values[path] = value
	switch {
	case t == durationType || t == logDurationType:
		return s.duration(value, t, path)
	case t == quantityType:
		return s.quantity(value, path)
	}
	switch t.Kind() {
	case reflect.Struct:
		return s.object(value, t, path)
	case reflect.Map:
		return s.dictionary(value, t, path)
	case reflect.Slice:
		return s.list(value, t, path)
	}
	return s.scalar(value, t, path)
}

func (s *shaper) mismatch(value *tree, path, want string) (any, bool) {
	s.report.errorf(value.at, path, "must be %s, not %s", want, value.describe())
	return nil, false
}

func (s *shaper) object(value *tree, t reflect.Type, path string) (any, bool) {
	if value.kind != mapKind {
		return s.mismatch(value, path, "a mapping with fields such as "+firstField(t))
	}
	known := jsonFields(t)
	out := map[string]any{}
	for _, f := range value.fields {
		at := join(path, f.name)
		s.keys[at] = f.at
		fieldType, ok := known.types[f.name]
		if !ok {
			s.unknown(f, path, known.names)
			continue
		}
		if child, ok := s.shape(f.value, fieldType, at); ok {
			out[f.name] = child
		}
	}
	return out, true
}

// unknown reports a key that is no field of the mapping at path.
func (s *shaper) unknown(f field, path string, known []string) {
	message := "unknown field"
	switch {
	case s.report.terse():
	case path == "controllers":
		message = unknownController(f.name)
	default:
		message += ", " + hint(f.name, known)
	}
	s.report.errorf(f.at, join(path, f.name), "%s", message)
}

func (s *shaper) dictionary(value *tree, t reflect.Type, path string) (any, bool) {
	if value.kind != mapKind {
		return s.mismatch(value, path, "a mapping")
	}
	out := map[string]any{}
	for _, f := range value.fields {
		at := join(path, f.name)
		s.keys[at] = f.at
		if child, ok := s.shape(f.value, t.Elem(), at); ok {
			out[f.name] = child
		}
	}
	return out, true
}

func (s *shaper) list(value *tree, t reflect.Type, path string) (any, bool) {
	if value.kind != listKind {
		return s.mismatch(value, path, "a list")
	}
	out := make([]any, len(value.items))
	for i, item := range value.items {
		at := elementPath(path, i)
		if item.kind == nullKind {
			s.report.errorf(item.at, at, "is empty: give it a value or remove it")
			continue
		}
		// An element that does not fit stays as null, so that the others keep their indexes.
		if child, ok := s.shape(item, t.Elem(), at); ok {
			out[i] = child
		}
	}
	return out, true
}

func (s *shaper) scalar(value *tree, t reflect.Type, path string) (any, bool) {
	if value.kind != scalarKind {
		return s.mismatch(value, path, wanted(t))
	}
	switch t.Kind() {
	case reflect.String:
		return s.text(value, path)
	case reflect.Bool:
		return s.boolean(value, path)
	case reflect.Float32, reflect.Float64:
		return s.float(value, t, path)
	}
	return s.integer(value, t, path)
}

func wanted(t reflect.Type) string {
	switch t.Kind() {
	case reflect.String:
		return "a string"
	case reflect.Bool:
		return "true or false"
	case reflect.Float32, reflect.Float64:
		return "a number"
	}
	return "a whole number"
}

func (s *shaper) text(value *tree, path string) (any, bool) {
	text, ok := value.value.(string)
	if !ok {
		s.report.errorf(value.at, path, "must be a string, not %s: write %q", value.describe(), shortenPlain(value.text))
		return nil, false
	}
	return text, true
}

func (s *shaper) boolean(value *tree, path string) (any, bool) {
	b, ok := value.value.(bool)
	if !ok {
		return s.mismatch(value, path, "true or false")
	}
	if !isBoolean(value.text) {
		s.report.warnf(value.at, path, "%s is read as %t: write %t", value.text, b, b)
	}
	return b, true
}

func (s *shaper) float(value *tree, t reflect.Type, path string) (any, bool) {
	var f float64
	switch v := value.value.(type) {
	case int64:
		f = float64(v)
	case uint64:
		f = float64(v)
	case float64:
		f = v
	default:
		return s.mismatch(value, path, "a number")
	}
	if math.IsNaN(f) || math.IsInf(f, 0) || (t.Kind() == reflect.Float32 && math.Abs(f) > math.MaxFloat32) {
		return s.mismatch(value, path, "a finite number")
	}
	return f, true
}

func (s *shaper) integer(value *tree, t reflect.Type, path string) (any, bool) {
	n := value.value
	if f, ok := n.(float64); ok && f == math.Trunc(f) && math.Abs(f) < 1<<53 {
		n = int64(f)
	}
	zero := reflect.New(t).Elem()
	switch v := n.(type) {
	case int64:
		if zero.CanInt() && !zero.OverflowInt(v) {
			return v, true
		}
		if zero.CanUint() && v >= 0 && !zero.OverflowUint(uint64(v)) {
			return v, true
		}
	case uint64:
		if zero.CanUint() && !zero.OverflowUint(v) {
			return v, true
		}
	default:
		return s.mismatch(value, path, "a whole number")
	}
	lowest, highest := limits(t)
	allowed := lowest + " to " + highest
	if rule, ok := s.rules[general(path)]; ok {
		allowed = rule.Allowed()
	}
	s.report.errorf(value.at, path, "must be %s, not %s", allowed, shortenPlain(value.text))
	return nil, false
}

func limits(t reflect.Type) (string, string) {
	bits := t.Bits()
	if reflect.New(t).Elem().CanUint() {
		return "0", strconv.FormatUint(math.MaxUint64>>(64-bits), 10)
	}
	highest := int64(math.MaxInt64 >> (64 - bits))
	return strconv.FormatInt(-highest-1, 10), strconv.FormatInt(highest, 10)
}

const durationWords = "a duration such as 500ms, 10s, 5m or 1h30m"

func (s *shaper) duration(value *tree, t reflect.Type, path string) (any, bool) {
	if value.kind != scalarKind {
		return s.mismatch(value, path, durationWords)
	}
	switch v := value.value.(type) {
	case string:
		if _, err := time.ParseDuration(v); err == nil {
			return v, true
		}
	case int64:
		if t == logDurationType {
			s.report.warnf(value.at, path, "a number is read as nanoseconds: write %s", time.Duration(v))
			return v, true
		}
		s.report.errorf(value.at, path, "must be %s, not the number %s: did you mean %ss?",
			durationWords, shortenPlain(value.text), shortenPlain(value.text))
		return nil, false
	}
	return s.mismatch(value, path, durationWords)
}

func (s *shaper) quantity(value *tree, path string) (any, bool) {
	const words = "a quantity such as 0, 512Ki or 10Mi"
	if value.kind != scalarKind {
		return s.mismatch(value, path, words)
	}
	if len(value.text) <= 64 {
		if _, err := resource.ParseQuantity(value.text); err == nil {
			return value.text, true
		}
	}
	return s.mismatch(value, path, words)
}

// structFields are the fields of a struct by their json names.
type structFields struct {
	names []string
	types map[string]reflect.Type
}

// jsonFields lists the fields that encoding/json knows, embedded ones included.
func jsonFields(t reflect.Type) structFields {
	out := structFields{types: map[string]reflect.Type{}}
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.Anonymous && name == "" {
			inner := jsonFields(f.Type)
			out.names = append(out.names, inner.names...)
			for n, ft := range inner.types {
				out.types[n] = ft
			}
			continue
		}
		if name == "-" || !f.IsExported() {
			continue
		}
		if name == "" {
			name = f.Name // upstream's v1alpha1 has no tags
		}
		out.names = append(out.names, name)
		out.types[name] = f.Type
	}
	return out
}

func firstField(t reflect.Type) string {
	if names := jsonFields(t).names; len(names) > 0 {
		return names[0]
	}
	return "none"
}

// decode fills target from shaped values. Everything was checked before, so an
// error here is a fault of the checks; it is still an error, never a guess.
func decode(shaped any, target any) error {
	data, err := json.Marshal(shaped)
	if err != nil {
		return fmt.Errorf("encoding the checked values: %w", err)
	}
	if err := json.Unmarshal(data, target); err != nil {
		return fmt.Errorf("decoding the checked values: %w", err)
	}
	return nil
}
