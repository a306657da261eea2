// Package podtemplates holds what we know of pod templates to what a real API server does.
package podtemplates

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"kcmd.dev/pkg/controllers/kit/workloads/podtemplate"
	"kcmd.dev/test/controlplane"
)

// TestDefaults compares our defaults with those of the API server, for every field of a pod
// template. A default that we lack makes an upgrade of the API that adds it update all pods
// of the sets whose templates were stored before.
func TestDefaults(t *testing.T) {
	for name, features := range map[string]struct {
		args    []string
		dropped []string
	}{
		"features of most clusters": {nil, gatedFields},
		"all features":              {[]string{"--feature-gates=AllAlpha=true,AllBeta=true", "--runtime-config=api/all=true"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			plane, err := controlplane.Start(t.Context(), controlplane.Options{NoAudit: true, APIServerArgs: features.args})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := plane.Stop(); err != nil {
					t.Error(err)
				}
			})
			config := plane.AdminConfig()
			config.WarningHandler = rest.NoWarnings{}
			client, err := kubernetes.NewForConfig(config)
			if err != nil {
				t.Fatal(err)
			}
			for _, s := range samples() {
				if problem := compare(t, client, s, features.dropped); problem != "" {
					t.Errorf("%s: %s", s.path, problem)
				}
			}
		})
	}
}

// compare says what is wrong with a sample, or with what we know of it.
func compare(t *testing.T, client kubernetes.Interface, s sample, dropped []string) string {
	t.Helper()
	set := &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec:       appsv1.StatefulSetSpec{Selector: &metav1.LabelSelector{MatchLabels: s.template.Labels}, Template: s.template},
	}
	created, err := client.AppsV1().StatefulSets(metav1.NamespaceDefault).Create(t.Context(), set, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	switch refused := under(refusedFields, s.path); {
	case err != nil && !apierrors.IsInvalid(err):
		t.Fatal(err)
	case err != nil && !refused:
		return fmt.Sprintf("there is no valid sample: %v", err)
	case err == nil && refused:
		return "the API server takes it after all"
	case refused:
		return ""
	}
	stored := &created.Spec.Template
	switch kept, gated := reaches(stored, s.path), under(dropped, s.path); {
	case !kept && !gated:
		return "the API server drops it"
	case kept && gated:
		return "the API server keeps it after all"
	case gated:
		return ""
	}
	return difference(t, stored, podtemplate.WithDefaults(&s.template))
}

// difference lists the fields in which two templates differ.
func difference(t *testing.T, server, ours *corev1.PodTemplateSpec) string {
	t.Helper()
	a, b := fields(t, server), fields(t, ours)
	var all []string
	for path := range a {
		if _, ok := b[path]; !ok {
			b[path] = "unset"
		}
	}
	for _, path := range slices.Sorted(maps.Keys(b)) {
		if _, ok := a[path]; !ok {
			a[path] = "unset"
		}
		if a[path] != b[path] {
			all = append(all, fmt.Sprintf("%s is %s, by our defaults %s", path, a[path], b[path]))
		}
	}
	return strings.Join(all, "; ")
}

// fields returns the values in a template by their paths.
func fields(t *testing.T, template *corev1.PodTemplateSpec) map[string]string {
	t.Helper()
	encoded, err := json.Marshal(template)
	if err != nil {
		t.Fatal(err)
	}
	var decoded any
	if err := json.Unmarshal(encoded, &decoded); err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	flatten("", decoded, all)
	return all
}

func flatten(path string, value any, into map[string]string) {
	switch v := value.(type) {
	case map[string]any:
		into[path] = "set"
		for key, inner := range v {
			flatten(path+"."+key, inner, into)
		}
	case []any:
		into[path] = "set"
		for i, inner := range v {
			flatten(fmt.Sprintf("%s[%d]", path, i), inner, into)
		}
	default:
		into[path] = fmt.Sprintf("%q", fmt.Sprint(v))
	}
}

// under reports that a field is one of the fields or in one of them.
func under(fields []string, path string) bool {
	return slices.ContainsFunc(fields, func(field string) bool { return path == field || strings.HasPrefix(path, field+".") })
}
