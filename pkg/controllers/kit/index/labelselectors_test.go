package index

import (
	"fmt"
	"math/rand"
	"slices"
	"strconv"
	"testing"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// budgetSelector is the name of the index of budgets in these tests.
const budgetSelector = "budgetSelector"

var budgetKeys = selectorKeys(func(b *policyv1.PodDisruptionBudget) *metav1.LabelSelector { return b.Spec.Selector })

func expression(key string, operator metav1.LabelSelectorOperator, values ...string) metav1.LabelSelectorRequirement {
	return metav1.LabelSelectorRequirement{Key: key, Operator: operator, Values: values}
}

func TestLabelSelectorsAreFiledUnderAnAnchor(t *testing.T) {
	in, notIn := metav1.LabelSelectorOpIn, metav1.LabelSelectorOpNotIn
	for name, tc := range map[string]struct {
		selector *metav1.LabelSelector
		want     []string
	}{
		"nil":    {nil, nil},
		"empty":  {&metav1.LabelSelector{}, []string{"n"}},
		"a pair": {&metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}, []string{"n/app=web"}},
		"a pair counts before an expression": {&metav1.LabelSelector{
			MatchLabels:      map[string]string{"app": "web"},
			MatchExpressions: []metav1.LabelSelectorRequirement{expression("tier", in, "longer-value")},
		}, []string{"n/app=web"}},
		"one of several values, each once": {&metav1.LabelSelector{
			MatchExpressions: []metav1.LabelSelectorRequirement{expression("x", notIn, "a"), expression("app", in, "b", "a", "b")},
		}, []string{"n/app=a", "n/app=b"}},
		"no expression to file it under": {&metav1.LabelSelector{
			MatchExpressions: []metav1.LabelSelectorRequirement{
				expression("app", notIn, "a"), expression("app", metav1.LabelSelectorOpExists), expression("job-name", in, "a"),
			},
		}, []string{"n"}},
	} {
		t.Run(name, func(t *testing.T) {
			budget := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: "n"}}
			budget.Spec.Selector = tc.selector
			got, err := budgetKeys(budget)
			compare(t, tc.want, got, err)
		})
	}
}

func TestLabelSelectorIndexesFindWhatAScanWouldFind(t *testing.T) {
	random := rand.New(rand.NewSource(2))
	budgets, pods := newStore(budgetSelector, budgetKeys), newStore(podsByLabel, podKeys)
	var allBudgets []*policyv1.PodDisruptionBudget
	var allPods []*corev1.Pod
	for i := range 300 {
		budget := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: randomNamespace(random), Name: strconv.Itoa(i)}}
		budget.Spec.Selector = randomSelector(random)
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: randomNamespace(random), Name: strconv.Itoa(i), Labels: randomLabels(random, 5)}}
		allBudgets, allPods = append(allBudgets, budget), append(allPods, pod)
		add(t, budgets, budget)
		add(t, pods, pod)
	}
	selects := func(budget *policyv1.PodDisruptionBudget, pod *corev1.Pod) bool {
		return budget.Namespace == pod.Namespace && parsed(t, budget).Matches(labels.Set(pod.Labels))
	}
	matches := sameAsScan(t, allPods, allBudgets, func(pod *corev1.Pod, budget *policyv1.PodDisruptionBudget) bool { return selects(budget, pod) },
		func(pod *corev1.Pod) ([]*policyv1.PodDisruptionBudget, error) {
			candidates, err := ByLabelSelector[*policyv1.PodDisruptionBudget]{budgets, budgetSelector}.Candidates(pod.Namespace, pod.Labels)
			return slices.DeleteFunc(candidates, func(budget *policyv1.PodDisruptionBudget) bool {
				return !parsed(t, budget).Matches(labels.Set(pod.Labels))
			}), err
		})
	sameAsScan(t, allBudgets, allPods, selects, func(budget *policyv1.PodDisruptionBudget) ([]*corev1.Pod, error) {
		return SelectedPods{pods}.ByLabelSelector(budget.Namespace, budget.Spec.Selector, parsed(t, budget))
	})
	if matches < 100 {
		t.Errorf("only %d pairs matched: the test compares nothing", matches)
	}
}

// BenchmarkCandidates must not grow with the number of budgets in the namespace.
func BenchmarkCandidates(b *testing.B) {
	for _, size := range []int{100, 10_000} {
		budgets := newStore(budgetSelector, budgetKeys)
		for i := range size {
			budget := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: strconv.Itoa(i)}}
			budget.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": fmt.Sprintf("app-%d", i), "tier": "web"}}
			add(b, budgets, budget)
		}
		pod := labels.Set{"app": "app-42", "tier": "web", "pod-template-hash": "5d4f8c7b9"}
		b.Run(fmt.Sprintf("budgets=%d", size), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				found, err := ByLabelSelector[*policyv1.PodDisruptionBudget]{budgets, budgetSelector}.Candidates("n", pod)
				if err != nil || len(found) != 1 {
					b.Fatalf("found %d, %v", len(found), err)
				}
			}
		})
	}
}

func parsed(t *testing.T, budget *policyv1.PodDisruptionBudget) labels.Selector {
	t.Helper()
	selector, err := metav1.LabelSelectorAsSelector(budget.Spec.Selector)
	if err != nil {
		t.Fatal(err)
	}
	return selector
}

// randomSelector returns nil, nothing, pairs, expressions, or both.
func randomSelector(random *rand.Rand) *metav1.LabelSelector {
	if random.Intn(10) == 0 {
		return nil
	}
	selector := &metav1.LabelSelector{}
	if random.Intn(2) == 0 {
		selector.MatchLabels = randomLabels(random, 2)
	}
	for key := range randomLabels(random, 2) {
		operator := []metav1.LabelSelectorOperator{metav1.LabelSelectorOpIn, metav1.LabelSelectorOpNotIn, metav1.LabelSelectorOpExists}[random.Intn(3)]
		e := expression(key, operator)
		if operator != metav1.LabelSelectorOpExists {
			e.Values = [][]string{{"a"}, {"", "bb"}, {"a", "bb", "a"}}[random.Intn(3)]
		}
		selector.MatchExpressions = append(selector.MatchExpressions, e)
	}
	return selector
}
