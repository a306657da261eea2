package vapstatus

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/openapi"
	"k8s.io/client-go/openapi/openapitest"

	"kcmd.dev/test/controllertest"
	"kcmd.dev/test/must"
)

// documents serves the OpenAPI documents of an API server and records the reads.
type documents struct {
	discovery.DiscoveryInterface
	hash string // of every document
	err  error  // of the next reads of the index
	// failures are the errors of reading documents, by their path.
	failures map[string]error
	reads    []string

	panics bool
}

func (d *documents) OpenAPIV3() openapi.Client { return d }

func (d *documents) Paths() (map[string]openapi.GroupVersion, error) {
	d.reads = append(d.reads, "index")
	if d.panics {
		panic("in a library")
	}
	if d.err != nil {
		return nil, d.err
	}
	paths, err := openapitest.NewEmbeddedFileClient().Paths()
	for path, document := range paths {
		paths[path] = &counted{GroupVersion: document, path: path, of: d}
	}
	return paths, err
}

type counted struct {
	openapi.GroupVersion
	path string
	of   *documents
}

func (c *counted) Schema(contentType string) ([]byte, error) {
	c.of.reads = append(c.of.reads, c.path)
	if err := c.of.failures[c.path]; err != nil {
		return nil, err
	}
	return c.GroupVersion.Schema(contentType)
}

func (c *counted) ServerRelativeURL() string {
	return "/openapi/v3/" + c.path + "?hash=" + c.of.hash
}

// resets counts how often the mapper was reset.
type resets struct {
	meta.RESTMapper
	n int

	failures int // how many lookups fail next, and how
	err      error
}

func (r *resets) Reset() { r.n++ }

func (r *resets) KindsFor(resource schema.GroupVersionResource) ([]schema.GroupVersionKind, error) {
	if r.failures > 0 {
		r.failures--
		return nil, r.err
	}
	return r.RESTMapper.KindsFor(resource)
}

type subject struct {
	*controllertest.Subject[string]
	*statusController
	documents *documents
	mapper    *resets
}

// newSubject creates a controller on an API server with the given policies.
func newSubject(t testing.TB, policies ...runtime.Object) *subject {
	t.Helper()
	s := &subject{Subject: controllertest.NewSubject[string](t, "policy")}
	mapper := meta.NewDefaultRESTMapper(nil)
	for _, kind := range []schema.GroupVersionKind{
		corev1.SchemeGroupVersion.WithKind("Pod"), corev1.SchemeGroupVersion.WithKind("ConfigMap"),
		appsv1.SchemeGroupVersion.WithKind("Deployment"), appsv1.SchemeGroupVersion.WithKind("ReplicaSet"),
		corev1.SchemeGroupVersion.WithKind("Thing"), // which has no schema
	} {
		mapper.Add(kind, meta.RESTScopeNamespace)
	}
	s.documents = &documents{DiscoveryInterface: s.Subject.Env.Discovery, hash: "1"}
	s.mapper = &resets{RESTMapper: mapper}
	env := &s.Subject.Env.Env
	env.Discovery, env.Mapper = s.documents, s.mapper
	c := must.Get(newController(*env, config{workers: 1}))(t)
	s.statusController, s.Work = c, c.reconcile
	s.Kinds = []runtime.Object{&admissionregistrationv1.ValidatingAdmissionPolicy{}}
	s.Store(t, policies...)
	s.CatchUp(t)
	return s
}

// newPolicy returns a policy of generation 1 for Deployments. Each argument is the expression of one
// validation.
func newPolicy(validations ...string) *admissionregistrationv1.ValidatingAdmissionPolicy {
	p := &admissionregistrationv1.ValidatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: "policy", UID: "policy-uid", Generation: 1},
		Spec:       admissionregistrationv1.ValidatingAdmissionPolicySpec{MatchConstraints: matching(rule("apps", "v1", "deployments"))},
	}
	for _, v := range validations {
		p.Spec.Validations = append(p.Spec.Validations, admissionregistrationv1.Validation{Expression: v})
	}
	return p
}

func with(p *admissionregistrationv1.ValidatingAdmissionPolicy, changes ...func(*admissionregistrationv1.ValidatingAdmissionPolicy)) *admissionregistrationv1.ValidatingAdmissionPolicy {
	for _, change := range changes {
		change(p)
	}
	return p
}

func rules(all ...admissionregistrationv1.NamedRuleWithOperations) func(*admissionregistrationv1.ValidatingAdmissionPolicy) {
	return func(p *admissionregistrationv1.ValidatingAdmissionPolicy) { p.Spec.MatchConstraints = matching(all...) }
}

func matching(rules ...admissionregistrationv1.NamedRuleWithOperations) *admissionregistrationv1.MatchResources {
	return &admissionregistrationv1.MatchResources{ResourceRules: rules}
}

func rule(group, version string, resources ...string) admissionregistrationv1.NamedRuleWithOperations {
	return admissionregistrationv1.NamedRuleWithOperations{RuleWithOperations: admissionregistrationv1.RuleWithOperations{
		Rule: admissionregistrationv1.Rule{APIGroups: []string{group}, APIVersions: []string{version}, Resources: resources},
	}}
}

// shown returns one line for each warning. It omits the lines that show the position in the source.
func shown(warnings []admissionregistrationv1.ExpressionWarning) []string {
	var all []string
	for _, w := range warnings {
		lines := strings.Split(w.Warning, "\n")
		lines = slices.DeleteFunc(lines, func(l string) bool { return strings.HasPrefix(l, " |") || l == "" })
		all = append(all, fmt.Sprintf("%s: %s", w.FieldRef, strings.Join(lines, "; ")))
	}
	return all
}
