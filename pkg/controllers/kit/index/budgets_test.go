package index

import (
	"fmt"
	"math/rand"
	"strconv"
	"testing"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

func expression(key string, operator metav1.LabelSelectorOperator, values ...string) metav1.LabelSelectorRequirement {
	return metav1.LabelSelectorRequirement{Key: key, Operator: operator, Values: values}
}

func TestBudgetsAreFiledUnderAnAnchor(t *testing.T) {
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

func TestBudgetIndexesFindWhatAScanWouldFind(t *testing.T) {
	random := rand.New(rand.NewSource(2))
	budgets, pods := newStore(budgetsBySelector, budgetKeys), newStore(podsByLabel, podKeys)
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
	matches := 0
	for _, pod := range allPods {
		var want, got []string
		for _, budget := range allBudgets {
			if budgets := parsed(t, budget); budget.Namespace == pod.Namespace && budgets.Matches(labels.Set(pod.Labels)) {
				want = append(want, budget.Name)
			}
		}
		candidates, err := Budgets{budgets}.Candidates(pod.Namespace, pod.Labels)
		for _, budget := range candidates {
			if parsed(t, budget).Matches(labels.Set(pod.Labels)) {
				got = append(got, budget.Name)
			}
		}
		compare(t, want, got, err)
		matches += len(want)
	}
	for _, budget := range allBudgets {
		var want []string
		for _, pod := range allPods {
			if pod.Namespace == budget.Namespace && parsed(t, budget).Matches(labels.Set(pod.Labels)) {
				want = append(want, pod.Name)
			}
		}
		got, err := SelectedPods{pods}.ByLabelSelector(budget.Namespace, budget.Spec.Selector, parsed(t, budget))
		compare(t, want, names(got), err)
	}
	if matches < 100 {
		t.Errorf("only %d pairs matched: the test compares nothing", matches)
	}
}

// BenchmarkBudgetCandidates must not grow with the number of budgets in the namespace.
func BenchmarkBudgetCandidates(b *testing.B) {
	for _, size := range []int{100, 10_000} {
		budgets := newStore(budgetsBySelector, budgetKeys)
		for i := range size {
			budget := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: strconv.Itoa(i)}}
			budget.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": fmt.Sprintf("app-%d", i), "tier": "web"}}
			add(b, budgets, budget)
		}
		pod := labels.Set{"app": "app-42", "tier": "web", "pod-template-hash": "5d4f8c7b9"}
		b.Run(fmt.Sprintf("budgets=%d", size), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				found, err := Budgets{budgets}.Candidates("n", pod)
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
