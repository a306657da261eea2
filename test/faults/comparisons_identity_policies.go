package faults

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"kcmd.dev/test/manager"
)

var definitions = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}

func policyStatusComparisons() []Scenario {
	return []Scenario{policyExpressions(), policyParameters(), policyKinds()}
}

func policyController(c *manager.Config) []**bool {
	return []**bool{&c.Controllers.ValidatingAdmissionPolicyStatus.Enabled}
}

// AdmissionPolicy creates a policy of a YAML text, which is its specification. Resources are like apps/v1/deployments,
// those of the core group like v1/pods.
func AdmissionPolicy(name, resources, text string) Action {
	return func(ctx context.Context, w *world) error {
		p := &admissionregistrationv1.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: "faults-" + name}}
		if err := yaml.UnmarshalStrict([]byte(w.fill(text)), &p.Spec); err != nil {
			return fmt.Errorf("decoding policy %s: %w", name, err)
		}
		for _, one := range strings.Fields(w.fill(resources)) {
			if p.Spec.MatchConstraints == nil {
				p.Spec.MatchConstraints = &admissionregistrationv1.MatchResources{}
			}
			parts := strings.SplitN(one, "/", 3)
			if strings.HasPrefix(one, "v1/") {
				parts = append([]string{""}, strings.SplitN(one, "/", 2)...)
			}
			p.Spec.MatchConstraints.ResourceRules = append(p.Spec.MatchConstraints.ResourceRules, admissionregistrationv1.NamedRuleWithOperations{
				RuleWithOperations: admissionregistrationv1.RuleWithOperations{
					Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
					Rule: admissionregistrationv1.Rule{
						APIGroups: strings.Split(parts[0], ","), APIVersions: strings.Split(parts[1], ","), Resources: strings.Split(parts[2], ","),
					},
				},
			})
		}
		_, err := w.admin.AdmissionregistrationV1().ValidatingAdmissionPolicies().Create(ctx, p, metav1.CreateOptions{})
		return err
	}
}

// expressions is the specification of a policy with these validations: each is an expression, and that of its message
// behind a bar.
func expressions(all ...string) string {
	var validations []admissionregistrationv1.Validation
	for _, one := range all {
		expression, message, _ := strings.Cut(one, " ¦ ")
		validations = append(validations, admissionregistrationv1.Validation{Expression: expression, MessageExpression: message})
	}
	text, err := json.Marshal(admissionregistrationv1.ValidatingAdmissionPolicySpec{Validations: validations})
	if err != nil {
		panic(err) // texts can be encoded
	}
	return string(text)
}

// policiesChecked is that all policies have been checked as they are.
func policiesChecked(ctx context.Context, w *world) error {
	list, err := w.admin.AdmissionregistrationV1().ValidatingAdmissionPolicies().List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for i := range list.Items {
		if p := &list.Items[i]; strings.HasPrefix(p.Name, "faults-") && p.Status.ObservedGeneration != p.Generation {
			return fmt.Errorf("policy %s of generation %d has the status %+v", p.Name, p.Generation, p.Status)
		}
	}
	return nil
}

func policyExpressions() Scenario {
	const deployments, several = "apps/v1/deployments", "apps/v1/deployments,statefulsets v1/pods,services batch/v1/jobs"
	patch := func(name, spec string) Action {
		return Patch("validatingadmissionpolicies", "faults-"+name, `{"spec":`+spec+`}`)
	}
	return Scenario{
		Name:        "policy-expressions",
		Bare:        true,
		Controllers: policyController,
		// The result of a policy that had warnings and has none any more is an empty object here, and nothing upstream.
		Differs: map[string]string{`validatingadmissionpolicies/faults-(compared|correct|messages) differs: $`: "VAP-38"},
		Kinds:   []schema.GroupVersionResource{policies},
		Steps: []Step{
			{
				"create policies with all kinds of expressions",
				[]Action{
					AdmissionPolicy("correct", deployments, expressions("object.spec.replicas > 1", "has(object.spec.paused)")),
					AdmissionPolicy("compared", deployments, expressions("object.spec.replicas > '1'", "object.spec.replicas > 1", "object.spec.paused == 'yes'")),
					AdmissionPolicy("unknown-fields", deployments, expressions("object.spec.nope == 1", "object.spec.template.spec.containers.all(c, c.nope == c.image)", "has(object.nope)")),
					AdmissionPolicy("twice", deployments, expressions("object.spec.nope > 1 && object.spec.replicas > '1' || object.other")),
					AdmissionPolicy("lines", deployments, expressions("object.spec.replicas > 1 &&\n  object.spec.replicas < '5' &&\n  object.spec.nope == 'ünïcode'\n")),
					AdmissionPolicy("messages", deployments, expressions(
						"object.spec.replicas > 1 ¦ 'has ' + object.spec.replicas", "object.spec.nope > 1 ¦ 'has ' + object.spec.nope",
						"true ¦ object.spec.selector.matchLabels['a'] + string(object.spec.replicas)")),
					AdmissionPolicy("types", deployments, expressions(
						"object.metadata.creationTimestamp > '2020-01-01'", "object.metadata.creationTimestamp > timestamp('2020-01-01T00:00:00Z')",
						"object.metadata.labels['a'] == 1", "object.metadata.labels.a == 1", "object.metadata.labels.exists(k, k == 1)", "object.metadata.finalizers[0] == 1",
						"object.metadata.finalizers['a'] == 'b'", "object.metadata.generation == 'x'", "object.kind == 1", "object.apiVersion + 1 == 2",
						"object.metadata.managedFields[0].fieldsV1 == 1", "object.metadata.ownerReferences.map(o, o.controller == 'x').size() == 0",
						"object.metadata.namespace == object.spec.replicas", "size(object.spec.replicas) == 1", "object.spec.replicas.matches('a')",
						"object.spec.template.metadata.annotations == ['a']", "object == 1", "object.spec == object.status", "!object.spec.replicas", "-object.metadata.name == 1",
						"object.spec.replicas ? true : false", "object.spec.replicas in [1, 2]", "object.spec.replicas in ['a']", "'a' in object.spec.selector.matchLabels", "1 in object.spec.selector.matchLabels",
						"object.spec.strategy.rollingUpdate.maxSurge == 1", "object.spec.strategy.rollingUpdate.maxSurge == 'a'", "object.spec.strategy.rollingUpdate.maxSurge + duration('1s') == 1",
						"object.spec.template.spec.containers[0].resources.limits['cpu'] == 1", "object.spec.template.spec.containers[0].resources.limits['cpu'] + duration('1s') == 1",
						"quantity(object.spec.template.spec.containers[0].resources.limits['cpu']).isGreaterThan(quantity('1'))", "quantity(object.spec.replicas).isInteger()",
						"object.spec.template.spec.containers.map(c, c.ports.map(p, p.containerPort)).all(l, l.exists(p, p == 'http'))", "object.?spec.?replicas.orValue('x') == 'y'",
						"object.spec.template.spec.containers.all(c, c.livenessProbe.httpGet.port == 'a' || c.livenessProbe.httpGet.path == 1)",
						"object.spec.template.spec.volumes[0].configMap.items[0].mode == 'x'", "object.spec.template.spec.affinity.nodeAffinity.nope == 1")),
					AdmissionPolicy("old-and-others", deployments, expressions(
						"oldObject.spec.replicas > object.spec.replicas", "oldObject.spec.nope == 1", "oldObject == null || oldObject.spec.replicas < 'a'",
						"authorizer.group('').resource('pods').namespace(object.metadata.namespace).check('get').allowed()", "authorizer.group('').resource(object.spec.replicas).check('get').allowed()",
						"namespaceObject.metadata.name == object.metadata.namespace", "namespaceObject.metadata.labels['x'] == object.spec.replicas",
						"request.operation == object.spec.replicas", "request.userInfo.username == object.metadata.generation")),
					AdmissionPolicy("many-types", several, expressions(
						"object.spec.replicas > 1", "object.spec.template.spec.containers.all(c, c.image == 1)", "object.metadata.name == 'x'", "object.status.phase == 'Running' ¦ 'phase ' + object.status.phase",
						"object.spec.ports.all(p, p.targetPort > 1)")),
					AdmissionPolicy("variables", deployments, `
variables:
- {name: replicas, expression: object.spec.replicas}
- {name: nope, expression: object.spec.nope}
- {name: wrong, expression: "object.spec.replicas > 'a'"}
- {name: twice, expression: variables.replicas * 2}
- {name: labels, expression: object.metadata.labels}
- {name: images, expression: "object.spec.template.spec.containers.map(c, c.image)"}
- {name: spec, expression: object.spec}
- {name: later, expression: "'x'"}
validations:
- expression: variables.replicas > 'a'
- expression: variables.nope > 1
- expression: variables.wrong
- expression: variables.twice == object.metadata.name
- expression: variables.labels['a'] == 1
- expression: variables.images[0] == 1
- expression: variables.spec.nope == 1
- expression: variables.spec.replicas == 'x'
- {expression: variables.later == 'x', messageExpression: "variables.later + variables.replicas"}
`),
					AdmissionPolicy("conditions", deployments, `
matchConditions: [{name: a, expression: "object.spec.nope == 1"}, {name: b, expression: "object.spec.replicas > 'a'"}]
auditAnnotations: [{key: a, valueExpression: "'x' + object.spec.nope"}, {key: b, valueExpression: "object.spec.replicas > 'a' ? 'x' : 'y'"}]
validations: [{expression: "true"}]
`),
					AdmissionPolicy("annotations-only", deployments, `auditAnnotations: [{key: a, valueExpression: "'x' + object.spec.nope"}]`),
					AdmissionPolicy("wildcards", "*/v1/deployments apps/*/deployments apps/v1/* apps/v1/*/scale", expressions("object.spec.nope == 1")),
					AdmissionPolicy("subresources", "v1/pods/status,pods/eviction apps/v1/deployments/scale,deployments", expressions("object.spec.nope == 1")),
					AdmissionPolicy("unserved", "apps/v1beta1/deployments example.com/v1/things apps/v1/things,deployments", expressions("object.spec.nope == 1")),
					AdmissionPolicy("all-versions", "autoscaling/v1,v2/horizontalpodautoscalers ,apps/v1/pods,deployments,pods", expressions("object.spec.nope == 1")),
					AdmissionPolicy("same-kind", "apps/v1/deployments apps/v1/deployments", expressions("object.spec.nope == 1")),
					AdmissionPolicy("excluded", "", `
matchConstraints:
  resourceRules: [{apiGroups: [apps], apiVersions: [v1], operations: [CREATE], resources: [deployments, statefulsets]}]
  excludeResourceRules: [{apiGroups: [apps], apiVersions: [v1], operations: [CREATE], resources: [deployments]}]
validations: [{expression: "object.spec.nope == 1"}]
`),
					AdmissionPolicy("selected", "", `
matchConstraints:
  matchPolicy: Exact
  namespaceSelector: {matchLabels: {a: b}}
  objectSelector: {matchLabels: {a: b}}
  resourceRules: [{apiGroups: [apps], apiVersions: [v1], operations: [CREATE, UPDATE, DELETE], resources: [deployments], resourceNames: [x], scope: Namespaced}]
failurePolicy: Ignore
validations: [{expression: "object.spec.nope == 1", reason: Forbidden, message: no}]
`),
					AdmissionPolicy("ten-kinds", "v1/pods,services,configmaps,secrets,nodes,namespaces,endpoints,events,limitranges,serviceaccounts,resourcequotas,persistentvolumes apps/v1/deployments,daemonsets", expressions("object.nope == 1")),
					AdmissionPolicy("ten-kinds-in-rules", "v1/pods,services,configmaps,secrets,nodes apps/v1/deployments,daemonsets,statefulsets,replicasets batch/v1/jobs,cronjobs networking.k8s.io/v1/ingresses,networkpolicies", expressions("object.nope == 1")),
				},
				[]Condition{policiesChecked},
			},
			{
				"change them",
				[]Action{
					patch("correct", `{"validations":[{"expression":"object.spec.nope == 1"}]}`),
					patch("compared", `{"validations":[{"expression":"true"}]}`),
					patch("unknown-fields", `{"matchConstraints":{"resourceRules":[{"apiGroups":[""],"apiVersions":["v1"],"operations":["CREATE"],"resources":["pods"]}]}}`),
					patch("twice", `{"variables":[{"name":"x","expression":"object.spec.nope"}]}`),
					patch("conditions", `{"matchConditions":null}`),
					Patch("validatingadmissionpolicies", "faults-messages", `{"metadata":{"labels":{"a":"b"}}}`),
					PatchStatus("validatingadmissionpolicies", "faults-types", `{"status":{"typeChecking":{"expressionWarnings":[{"fieldRef":"spec.validations[0].expression","warning":"by hand"}]}}}`),
					PatchStatus("validatingadmissionpolicies", "faults-wildcards", `{"status":{"conditions":[{"type":"By","status":"True","reason":"Hand","message":"x","lastTransitionTime":"2020-01-01T00:00:00Z"}]}}`),
				},
				[]Condition{policiesChecked},
			},
			{
				"correct and delete some",
				[]Action{
					patch("correct", `{"validations":[{"expression":"object.spec.replicas == 1"}]}`),
					patch("wildcards", `{"validations":[{"expression":"object.spec.replicas == 1"}]}`),
					patch("messages", `{"validations":[{"expression":"true","messageExpression":"'x'"}]}`),
					Delete("validatingadmissionpolicies", "faults-twice", metav1.DeletePropagationBackground),
					Delete("validatingadmissionpolicies", "faults-lines", metav1.DeletePropagationBackground),
					Delete("validatingadmissionpolicies", "faults-selected", metav1.DeletePropagationBackground),
					AdmissionPolicy("again", deployments, expressions("object.spec.nope == 1")),
				},
				[]Condition{policiesChecked},
			},
		},
	}
}

// typedWidgets defines a kind with fields of all types, in a group of the run.
const typedWidgets = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.NAMESPACE.example.com}
spec:
  group: NAMESPACE.example.com
  scope: Namespaced
  names: {plural: widgets, singular: widget, kind: Widget, listKind: WidgetList}
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            required: [text]
            properties:
              text: {type: string, maxLength: 10, enum: [a, b]}
              number: {type: number}
              integer: {type: integer, format: int32, minimum: 1}
              truth: {type: boolean, default: true}
              time: {type: string, format: date-time}
              day: {type: string, format: date}
              span: {type: string, format: duration}
              bytes: {type: string, format: byte}
              either: {x-kubernetes-int-or-string: true}
              maybe: {type: string, nullable: true}
              list: {type: array, items: {type: integer}}
              set: {type: array, x-kubernetes-list-type: set, items: {type: string}}
              map: {type: array, x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [name], items: {type: object, required: [name], properties: {name: {type: string}, port: {type: integer}}}}
              more: {type: object, additionalProperties: {type: integer}}
              any: {type: object, x-kubernetes-preserve-unknown-fields: true}
              some: {type: object, x-kubernetes-preserve-unknown-fields: true, properties: {known: {type: string}}}
              embedded: {type: object, x-kubernetes-embedded-resource: true, x-kubernetes-preserve-unknown-fields: true}
              namespace: {type: string}
              with-dash: {type: string}
              with.dot: {type: string}
              __under: {type: string}
              deep: {type: object, properties: {deeper: {type: object, properties: {deepest: {type: string}}}}}
          status: {type: object, properties: {phase: {type: string}}}
  - name: v1alpha1
    served: true
    storage: false
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
`

// Published is that the API server publishes the schema of a kind of the run's group.
func Published(version, kind string) Condition {
	return func(_ context.Context, w *world) error {
		paths, err := w.admin.Discovery().OpenAPIV3().Paths()
		if err != nil {
			return err
		}
		path, ok := paths["apis/"+w.namespace+".example.com/"+version]
		if !ok {
			return fmt.Errorf("%s of the group is not published", version)
		}
		document, err := path.Schema(runtime.ContentTypeJSON)
		if err == nil && !strings.Contains(string(document), `"kind":"`+kind+`"`) {
			err = fmt.Errorf("kind %s is not published", kind)
		}
		return err
	}
}

func policyParameters() Scenario {
	const deployments, custom = "apps/v1/deployments", "NAMESPACE.example.com/v1/widgets"
	with := func(kind, apiVersion string, all ...string) string {
		return strings.Replace(expressions(all...), "{", fmt.Sprintf(`{"paramKind":{"kind":%q,"apiVersion":%q},`, kind, apiVersion), 1)
	}
	return Scenario{
		Name:        "policy-parameters",
		Bare:        true,
		Controllers: policyController,
		// Upstream has the schemas of versions that are not served.
		Differs: map[string]string{`^validatingadmissionpolicies/faults-old-version differs: \.status\.typeChecking\.expressionWarnings\[0\]`: "VAP-36"},
		Kinds:   []schema.GroupVersionResource{policies, definitions},
		Steps: []Step{
			{
				"create policies for what is not defined yet, and define it",
				[]Action{
					AdmissionPolicy("too-early", custom, expressions("object.spec.nope == 1")),
					AdmissionPolicy("params-too-early", deployments, with("Widget", "NAMESPACE.example.com/v1", "params.spec.nope == 1")),
				},
				[]Condition{policiesChecked},
			},
			{"define a kind", []Action{Create(typedWidgets)}, []Condition{Published("v1", "Widget"), Published("v1alpha1", "Widget")}},
			{
				"create policies with parameters, and for the kind",
				[]Action{
					AdmissionPolicy("configmap", deployments, with("ConfigMap", "v1", "params.data.x == 1", "params.data['x'] == object.metadata.name", "params.nope == 1", "params.binaryData['x'] == 'a'", "int(params.data.max) >= object.spec.replicas", "params == null || params.data == ['x']")),
					AdmissionPolicy("secret", deployments, with("Secret", "v1", "params.data['x'] == 'a'", "params.data['x'] + duration('1s') == 1", "params.type == 1")),
					AdmissionPolicy("unknown", deployments, with("Thing", "example.com/v1", "params.spec.x == 1", "params.nope > object.spec.nope")),
					AdmissionPolicy("old-version", deployments, with("Deployment", "apps/v1beta1", "params.spec.nope == 1")),
					AdmissionPolicy("list", deployments, with("ConfigMapList", "v1", "params.items[0].nope == 1")),
					AdmissionPolicy("widget", deployments, with("Widget", "NAMESPACE.example.com/v1", "params.spec.integer > object.spec.replicas", "params.spec.integer > 'x'", "params.spec.nope == 1", "params.spec.text == object.spec.nope")),
					AdmissionPolicy("widget-alpha", deployments, with("Widget", "NAMESPACE.example.com/v1alpha1", "params.spec.integer > 'x'", "params.nope == 1", "params.metadata.name == 1")),
					AdmissionPolicy("widgets-alpha", "NAMESPACE.example.com/v1alpha1/widgets", expressions("object.spec.integer > 'x'", "object.metadata.name == 1", "object.nope == 1")),
					AdmissionPolicy("widgets-both", "NAMESPACE.example.com/v1,v1alpha1/widgets apps/v1/deployments", expressions("object.spec.nope == 1")),
					AdmissionPolicy("widgets", custom, expressions(
						"object.spec.text == 1", "object.spec.text == 'c'", "object.spec.number == 1", "object.spec.number == 1.5", "object.spec.number == 'x'", "object.spec.integer == 1.5", "object.spec.integer == 'x'",
						"object.spec.truth == 'x'", "object.spec.time == 'x'", "object.spec.time > timestamp('2020-01-01T00:00:00Z')", "object.spec.day == 'x'", "object.spec.span == 'x'", "object.spec.span > duration('1s')",
						"object.spec.bytes == 'x'", "object.spec.bytes == b'x'", "object.spec.either == 'x'", "object.spec.either == 1", "object.spec.either + duration('1s') == 1", "object.spec.maybe == null", "object.spec.maybe == 1",
						"object.spec.list == ['a']", "object.spec.list.sum() == 'a'", "object.spec.list.isSorted()", "object.spec.set + ['a'] == ['b']", "object.spec.set.all(x, x == 1)", "object.spec.map[0].port == 'x'", "object.spec.map.all(m, m.name == m.port)",
						"object.spec.more['a'] == 'x'", "object.spec.more.a == 'x'", "object.spec.more.all(k, k == 1)", "object.spec.any.x == 1", "object.spec.any.x.y == 'x'", "object.spec.some.known == 1", "object.spec.some.unknown == 1",
						"object.spec.embedded.metadata.name == 1", "object.spec.embedded.kind == 1", "object.spec.embedded.spec.x == 1", "object.spec.embedded.spec.x == 'x'", "object.spec.__namespace__ == 1", "object.spec.namespace == 'x'", "object.spec.with__dash__dash == 1",
						"object.spec.with__dot__dot == 1", "object.spec.__underscores__under == 1", "object.spec.deep.deeper.nope == 1", "object.spec.deep.deeper.deepest == 1", "object.status.phase == 1", "object.status.nope == 1", "object.metadata.nope == 1", "object.metadata.name == 1",
						"object.metadata.labels['a'] == 1", "object.metadata.creationTimestamp == 'x'", "object.kind == 1", "object.apiVersion == 1")),
				},
				[]Condition{policiesChecked},
			},
			{
				"touch a policy",
				[]Action{
					Patch("validatingadmissionpolicies", "faults-too-early", `{"spec":{"failurePolicy":"Ignore"}}`),
				},
				[]Condition{policiesChecked},
			},
		},
	}
}
