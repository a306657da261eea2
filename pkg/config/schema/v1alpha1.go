package schema

import (
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"strings"
	"time"

	"k8s.io/kube-controller-manager/config/v1alpha1"

	"kcmd.dev/pkg/config/registry"
	"kcmd.dev/pkg/config/rules"
	"kcmd.dev/pkg/config/upstream/conversion"
)

// V1alpha1FileName is the name of the schema file of upstream's version.
const V1alpha1FileName = "kubecontrollermanagerconfiguration-v1alpha1.schema.json"

// V1alpha1CatalogFileName is the name of its copy, like CatalogFileName.
const V1alpha1CatalogFileName = conversion.Group + "/kubecontrollermanagerconfiguration_v1alpha1.json"

// GenerateV1alpha1 returns the schema file of upstream's version, of which config.Load
// reads files too. Differences from the schema of v1beta1 are those of its files:
//
//   - A field has the name that /configz prints, or that in camel case. The schema of the
//     latter is a reference to that of the former. config.Load reports a file that sets both.
//   - null means not set: /configz prints it.
//   - A value is limited as the field is that it becomes, unless it is converted by code
//     of its own.
func GenerateV1alpha1() ([]byte, error) {
	defaults, err := v1alpha1Defaults()
	if err != nil {
		return nil, err
	}
	g := &v1alpha1Generator{rules: rules.ByPath(), defaults: defaults}
	root := g.object(reflect.TypeFor[v1alpha1.KubeControllerManagerConfiguration](), "", "#")
	finish(root, V1alpha1FileName, conversion.APIVersion, conversion.Kind)
	root["description"] = "The configuration of upstream's kube-controller-manager, " +
		"as its /configz prints it below the name of the group. " +
		"It is converted to a configuration of v1beta1; docs/configuration.md describes the fields named here."
	return encode(root)
}

// v1alpha1Defaults are the defaults by path. A limit that a file does not set is none,
// whatever upstream's default is, and the other fields without a default are left out.
func v1alpha1Defaults() (map[string]any, error) {
	data, err := json.Marshal(conversion.NewDefault())
	if err != nil {
		return nil, fmt.Errorf("encoding upstream's defaults: %w", err)
	}
	out, err := flatValues(data)
	if err != nil {
		return nil, err
	}
	for path, value := range out {
		if value == nil || value == "" {
			delete(out, path)
		}
	}
	delete(out, "Generic.ClientConnection.qps")
	delete(out, "Generic.ClientConnection.burst")
	return out, nil
}

type v1alpha1Generator struct {
	rules    map[string]rules.Rule // of v1beta1
	defaults map[string]any
}

// object makes the schema of a struct; pointer is where in the file it will be.
func (g *v1alpha1Generator) object(t reflect.Type, path, pointer string) node {
	properties := node{}
	g.addProperties(properties, t, path, pointer+"/properties")
	return node{"type": "object", "properties": properties, "additionalProperties": false}
}

func (g *v1alpha1Generator) addProperties(properties node, t reflect.Type, path, pointer string) {
	for i := range t.NumField() {
		f := t.Field(i)
		name, inline := conversion.JSONName(f)
		if inline {
			g.addProperties(properties, f.Type, path, pointer)
			continue
		}
		at := strings.TrimPrefix(path+"."+name, ".")
		properties[name] = g.property(f.Type, at, pointer+"/"+name)
		if camel := conversion.CamelCase(name); camel != name {
			properties[camel] = node{"$ref": pointer + "/" + name}
		}
	}
}

func (g *v1alpha1Generator) property(t reflect.Type, path, pointer string) node {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	property := g.value(t, path, pointer)
	property["type"] = []string{property["type"].(string), "null"}
	if values, ok := property["enum"].([]any); ok {
		property["enum"] = append(values, nil)
	}
	property["description"] = describeUpstream(t, path)
	if value, ok := g.defaults[path]; ok {
		property["default"] = value
	}
	return property
}

func (g *v1alpha1Generator) value(t reflect.Type, path, pointer string) node {
	row, rule := g.limits(path)
	switch {
	case t == durationType && copied(row) && !row.NegativeIsZero:
		return withPattern(node{"type": "string"}, durationPattern, durationWords)
	case t == durationType:
		return withPattern(node{"type": "string"}, signedDurationPattern, durationWords)
	}
	switch t.Kind() {
	case reflect.Struct:
		return g.object(t, path, pointer)
	case reflect.Slice:
		return node{"type": "array", "items": g.value(t.Elem(), path+"[]", pointer+"/items")}
	case reflect.Bool:
		return node{"type": "boolean"}
	case reflect.String:
		return g.text(rule, path)
	}
	return number(t, row, rule)
}

// limits returns the row of a field, and the rule of the field that it becomes.
func (g *v1alpha1Generator) limits(path string) (conversion.Row, rules.Rule) {
	row, _ := conversion.ByUpstream(path)
	if !copied(row) {
		return row, rules.Rule{}
	}
	return row, g.rules[row.Field]
}

// copied reports whether the value is copied without code of its own.
func copied(row conversion.Row) bool { return row.Field != "" && row.How == "" }

func (g *v1alpha1Generator) text(rule rules.Rule, path string) node {
	n := node{"type": "string"}
	_, needed := g.defaults[path]
	switch {
	case path == "Generic.Controllers[]":
		n["enum"] = controllerEntries()
	case !needed: // an empty string means not set
	case rule.Enum != nil:
		values := []any{}
		for _, value := range rule.Enum {
			values = append(values, value)
		}
		if conversion.AcceptsEmpty(path) {
			values = append(values, "")
		}
		n["enum"] = values
	case rule.Pattern != nil:
		n["maxLength"] = rule.Pattern.MaxLength
		expression := rule.Pattern.Regexp.String()
		if conversion.AcceptsEmpty(path) {
			expression = "^$|" + expression
		}
		withPattern(n, expression, rule.Pattern.Words)
	}
	return n
}

// controllerEntries are what the list of controllers may hold.
func controllerEntries() []any {
	const unknownUpstream = "cloud-node-controller" // only ever part of cloud controller managers
	entries := []any{"*"}
	for _, c := range registry.Controllers() {
		if c.Name == unknownUpstream {
			continue
		}
		for _, name := range append([]string{c.Name}, c.FormerNames...) {
			entries = append(entries, name, "-"+name)
		}
	}
	return entries
}

func number(t reflect.Type, row conversion.Row, rule rules.Rule) node {
	n := node{"type": "number"}
	whole := t.Kind() != reflect.Float32 && t.Kind() != reflect.Float64
	if whole {
		n["type"] = "integer"
		n["minimum"], n["maximum"] = math.MinInt32, math.MaxInt32
	}
	lowest := n["minimum"]
	switch {
	case rule.Number != nil:
		n["minimum"], n["maximum"] = rule.Number.Min, rule.Number.Max
	case rule.Duration != nil: // upstream has a number of seconds
		n["minimum"], n["maximum"] = int(rule.Duration.Min/time.Second), int(rule.Duration.Max/time.Second)
		if rule.Duration.ZeroAllowed {
			n["minimum"] = 0
		}
	}
	if row.NegativeIsZero {
		n["minimum"] = lowest
	}
	return n
}

// describeUpstream describes the flag of a field and what the field becomes. A part of a
// value that has one row in the table refers to the whole.
func describeUpstream(t reflect.Type, path string) string {
	if row, ok := conversion.ByUpstream(path); ok {
		return describeRow(row)
	}
	for whole := parent(path); whole != ""; whole = parent(whole) {
		if _, ok := conversion.ByUpstream(whole); ok {
			return "Part of " + whole + ", which is converted as a whole."
		}
	}
	return "Upstream's " + t.Name() + "."
}

// parent is the field that a field is part of, without the brackets of a list.
func parent(path string) string {
	cut := max(strings.LastIndex(path, "."), 0)
	return strings.TrimSuffix(path[:cut], "[]")
}

func describeRow(row conversion.Row) string {
	text := "Upstream has no flag for this field."
	if row.Flag != "" {
		text = "Upstream's --" + row.Flag + "."
	}
	if row.Field == "" {
		return text + " Not here: " + row.Why + "."
	}
	text += " Here: " + row.Field + "."
	if how := row.Conversion(); how != "" {
		text += " Conversion: " + how + "."
	}
	if row.Refused != "" {
		text += " With a value that is rejected here, " + row.Refused + "."
	}
	return text
}
