package faults

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	apiservercel "k8s.io/apiserver/pkg/cel"
	openapiv3 "k8s.io/client-go/openapi"
)

const (
	// probeDepth is how deep fields may be nested in what is probed.
	probeDepth = 5
	// probesTogether is how many fields one expression has, and expressionsTogether how many of those a policy.
	probesTogether, expressionsTogether = 25, 8
)

// openSchema is what is read of a schema that an API server publishes.
type openSchema struct {
	Ref                  string                    `json:"$ref"`
	AllOf                []openSchema              `json:"allOf"`
	Properties           map[string]openSchema     `json:"properties"`
	Items                *openSchema               `json:"items"`
	AdditionalProperties json.RawMessage           `json:"additionalProperties"`
	Kinds                []metav1.GroupVersionKind `json:"x-kubernetes-group-version-kind"`
}

// openDocument has the schemas of a version of a group.
type openDocument struct {
	Components struct {
		Schemas map[string]openSchema `json:"schemas"`
	} `json:"components"`
}

// resolve returns the schema that a reference stands for. A schema that is no reference is returned as it is.
func (d *openDocument) resolve(s openSchema) openSchema {
	if s.Ref == "" && len(s.AllOf) == 1 {
		s = s.AllOf[0]
	}
	if s.Ref == "" {
		return s
	}
	return d.Components.Schemas[s.Ref[strings.LastIndex(s.Ref, "/")+1:]]
}

// paths are those of all fields of a schema, as expressions have them.
func (d *openDocument) paths(prefix string, s openSchema, depth int) (all []string) {
	if depth > probeDepth {
		return nil
	}
	s = d.resolve(s)
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		escaped, ok := apiservercel.Escape(name)
		if !ok || name == "metadata" && depth > 0 {
			continue
		}
		all = append(all, prefix+"."+escaped)
		all = append(all, d.paths(prefix+"."+escaped, s.Properties[name], depth+1)...)
	}
	if s.Items != nil {
		all = append(all, prefix+"[0]")
		all = append(all, d.paths(prefix+"[0]", *s.Items, depth)...)
	}
	var values openSchema
	if json.Unmarshal(s.AdditionalProperties, &values) == nil && len(s.AdditionalProperties) > 0 {
		all = append(all, prefix+"['x']")
		all = append(all, d.paths(prefix+"['x']", values, depth)...)
	}
	return all
}

// readDocument reads the schemas of a version of a group.
func readDocument(paths map[string]openapiv3.GroupVersion, gv schema.GroupVersion) (*openDocument, error) {
	name := "apis/" + gv.String()
	if gv.Group == "" {
		name = "api/" + gv.Version
	}
	published, ok := paths[name]
	if !ok {
		return nil, fmt.Errorf("the schemas of %s are not published", gv)
	}
	text, err := published.Schema(runtime.ContentTypeJSON)
	if err != nil {
		return nil, err
	}
	d := &openDocument{}
	if err := json.Unmarshal(text, d); err != nil {
		return nil, fmt.Errorf("decoding the schemas of %s: %w", gv, err)
	}
	return d, nil
}

// ProbeKinds creates policies for all kinds of Kubernetes, with expressions whose warnings name the types of all fields:
// each is added to a duration and compared with bytes, which no type can be.
func ProbeKinds(ctx context.Context, w *world) error {
	lists, err := w.admin.Discovery().ServerPreferredResources()
	if err != nil {
		return fmt.Errorf("discovering resources: %w", err)
	}
	paths, err := w.admin.Discovery().OpenAPIV3().Paths()
	if err != nil {
		return err
	}
	for _, list := range lists {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			return err
		}
		if strings.Contains(gv.Group, "example.com") {
			continue // what another scenario has defined
		}
		d, err := readDocument(paths, gv)
		if err != nil {
			return err
		}
		for i := range list.APIResources {
			r := &list.APIResources[i]
			if strings.Contains(r.Name, "/") || !slices.Contains(r.Verbs, "create") {
				continue
			}
			if err := d.probe(ctx, w, gv, r); err != nil {
				return err
			}
		}
	}
	return nil
}

// probe creates policies for a resource.
func (d *openDocument) probe(ctx context.Context, w *world, gv schema.GroupVersion, r *metav1.APIResource) error {
	var fields []string
	for _, s := range d.Components.Schemas {
		if slices.Contains(s.Kinds, metav1.GroupVersionKind{Group: gv.Group, Version: gv.Version, Kind: r.Kind}) {
			fields = d.paths("object", s, 0)
		}
	}
	if len(fields) == 0 {
		return fmt.Errorf("no schema has the fields of %s of %s", r.Kind, gv)
	}
	var all []string
	for some := range slices.Chunk(fields, probesTogether) {
		var lines []string
		for _, field := range some {
			lines = append(lines, field+" + duration('1s') == b'x'")
		}
		all = append(all, "["+strings.Join(lines, ",\n")+"].size() == 1")
	}
	n := 0
	for some := range slices.Chunk(all, expressionsTogether) {
		name := fmt.Sprintf("%s-%s-%d", r.Name, strings.ReplaceAll(gv.String(), "/", "."), n)
		if err := AdmissionPolicy(name, gv.String()+"/"+r.Name, expressions(some...))(ctx, w); err != nil {
			return fmt.Errorf("policy %s: %w", name, err)
		}
		n++
	}
	return nil
}

func policyKinds() Scenario {
	return Scenario{
		Name:        "policy-kinds",
		Bare:        true,
		Controllers: policyController,
		Kinds:       []schema.GroupVersionResource{policies},
		Steps: []Step{
			{"create policies for all kinds", []Action{ProbeKinds}, []Condition{policiesChecked}},
			{"create one more", []Action{AdmissionPolicy("more", "apps/v1/deployments", expressions("object.nope == 1"))}, []Condition{policiesChecked}},
		},
	}
}
