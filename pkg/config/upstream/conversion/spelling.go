package conversion

import (
	"reflect"
	"strings"
	"unicode"
)

// FieldNamed returns the field of a v1alpha1 struct by the name it has in a file: the
// one that /configz prints, which is the Go name wherever the type has no json tag, or
// the one it would have by the conventions of the API, such as hpaController for
// HPAController. The canonical name is that of /configz. A type that is no struct, as in a
// duration, has no fields.
func FieldNamed(t reflect.Type, name string) (canonical string, fieldType reflect.Type, ok bool) {
	if t.Kind() != reflect.Struct {
		return "", nil, false
	}
	for i := range t.NumField() {
		field := t.Field(i)
		tag, inline := JSONName(field)
		if inline {
			if canonical, fieldType, ok = FieldNamed(field.Type, name); ok {
				return canonical, fieldType, true
			}
			continue
		}
		if name == tag || name == CamelCase(tag) {
			return tag, field.Type, true
		}
	}
	return "", nil, false
}

// CamelCase makes the first word of a Go name lower-case: NodeIPAMController becomes
// nodeIPAMController, and CSRSigningController csrSigningController.
func CamelCase(name string) string {
	runes := []rune(name)
	upper := 0
	for upper < len(runes) && unicode.IsUpper(runes[upper]) {
		upper++
	}
	if upper > 1 && upper < len(runes) {
		upper-- // the first letter of the next word
	}
	return strings.ToLower(string(runes[:upper])) + string(runes[upper:])
}
