package resourcequota

import (
	"math"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"kcmd.dev/test/controllertest"
)

var now = controllertest.Epoch

// everything are the features of the newest version.
var everything = features{
	podLevel: true, podResize: true, expansionRecovery: true, volumeAttributes: true, deviceClaims: true, extendedResources: true,
}

// list makes a list of "name=quantity", separated by spaces.
func list(text string) corev1.ResourceList {
	all := corev1.ResourceList{}
	for pair := range strings.FieldsSeq(text) {
		name, quantity, _ := strings.Cut(pair, "=")
		all[corev1.ResourceName(name)] = resource.MustParse(quantity)
	}
	return all
}

// wantList compares lists by value.
func wantList(t *testing.T, got corev1.ResourceList, want string) {
	t.Helper()
	if !same(got, list(want)) {
		t.Errorf("got %v, want %s", printed(got), want)
	}
}

// printed prints a list as list reads it.
func printed(all corev1.ResourceList) string {
	var text []string
	for _, amount := range amountsOf(all) {
		text = append(text, string(amount.name)+"="+amount.quantity.String())
	}
	return strings.Join(text, " ")
}

// container makes a container with requests and limits.
func container(name, requests, limits string) corev1.Container {
	return corev1.Container{Name: name, Resources: corev1.ResourceRequirements{Requests: list(requests), Limits: list(limits)}}
}

func pod(changes ...func(*corev1.Pod)) *corev1.Pod {
	return controllertest.Pod("ns", "pod", changes...)
}

func with(containers ...corev1.Container) func(*corev1.Pod) {
	return func(pod *corev1.Pod) { pod.Spec.Containers = containers }
}

func withInit(containers ...corev1.Container) func(*corev1.Pod) {
	return func(pod *corev1.Pod) { pod.Spec.InitContainers = containers }
}

func deleted(ago time.Duration, grace int64) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		pod.DeletionTimestamp, pod.DeletionGracePeriodSeconds = ptr.To(metav1.NewTime(now.Add(-ago))), &grace
	}
}

// resized gives a container a status with what it has, and with what was allocated to it.
func resized(name, requests, limits, allocated string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, corev1.ContainerStatus{
			Name: name, AllocatedResources: list(allocated),
			Resources: &corev1.ResourceRequirements{Requests: list(requests), Limits: list(limits)},
		})
	}
}

func infeasible(pod *corev1.Pod) {
	pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{Type: corev1.PodResizePending, Reason: corev1.PodReasonInfeasible})
}

func podLevel(requests, limits string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		pod.Spec.Resources = &corev1.ResourceRequirements{Requests: list(requests), Limits: list(limits)}
	}
}

func TestPodUsage(t *testing.T) {
	const stored, running = "count/pods=1", "count/pods=1 pods=1"
	sidecar := container("sidecar", "cpu=1", "")
	sidecar.RestartPolicy = ptr.To(corev1.ContainerRestartPolicyAlways)
	for name, test := range map[string]struct {
		pod  *corev1.Pod
		off  func(*features)
		want string
	}{
		"QUOTA-51: a pod without resources":                    {pod: pod(), want: running},
		"QUOTA-51, QUOTA-70: a pod that has failed":            {pod: pod(with(container("c", "cpu=1", "")), controllertest.InPhase(corev1.PodFailed)), want: stored},
		"QUOTA-51, QUOTA-70: a pod that has succeeded":         {pod: pod(controllertest.InPhase(corev1.PodSucceeded)), want: stored},
		"QUOTA-51: a pod that is being deleted":                {pod: pod(deleted(0, 30)), want: running},
		"QUOTA-51: a pod in the second that is its last":       {pod: pod(deleted(30*time.Second, 30)), want: running},
		"QUOTA-100: a grace period that is no duration":        {pod: pod(deleted(time.Minute, math.MaxInt64)), want: running},
		"QUOTA-51: a pod that has outlived twice its grace":    {pod: pod(deleted(30*time.Second+1, 30)), want: stored},
		"QUOTA-51: a pod whose deletion has no grace period":   {pod: pod(controllertest.Terminating), want: running},
		"QUOTA-52: requests have two names, limits one":        {pod: pod(with(container("c", "cpu=1 memory=1Gi ephemeral-storage=2Gi", "cpu=2 memory=2Gi ephemeral-storage=4Gi"))), want: running + " cpu=1 memory=1Gi ephemeral-storage=2Gi requests.cpu=1 requests.memory=1Gi requests.ephemeral-storage=2Gi limits.cpu=2 limits.memory=2Gi limits.ephemeral-storage=4Gi"},
		"QUOTA-52: containers add up":                          {pod: pod(with(container("a", "cpu=1", ""), container("b", "cpu=500m", ""))), want: running + " cpu=1500m requests.cpu=1500m"},
		"QUOTA-52: of init containers the largest counts":      {pod: pod(with(container("a", "cpu=1", "")), withInit(container("i", "cpu=3", ""), container("j", "cpu=2", ""))), want: running + " cpu=3 requests.cpu=3"},
		"QUOTA-52: sidecars add up with what runs beside them": {pod: pod(with(container("a", "cpu=1", "")), withInit(sidecar, container("i", "cpu=3", ""))), want: running + " cpu=4 requests.cpu=4"},
		"QUOTA-52: huge pages":                                 {pod: pod(with(container("c", "hugepages-2Mi=4Mi", "hugepages-2Mi=4Mi"))), want: running + " hugepages-2Mi=4Mi requests.hugepages-2Mi=4Mi"},
		"QUOTA-52: an extended resource has one name":          {pod: pod(with(container("c", "example.com/gpu=2", "example.com/gpu=2"))), want: running + " requests.example.com/gpu=2"},
		"QUOTA-52: one that is named after a device class":     {pod: pod(with(container("c", "deviceclass.resource.kubernetes.io/gpu=2", ""))), want: running + " requests.deviceclass.resource.kubernetes.io/gpu=2"},
		"QUOTA-52: a native resource that is unknown":          {pod: pod(with(container("c", "kubernetes.io/batteries=2 storage=1", ""))), want: running},
		"QUOTA-52: overhead, on limits that are not zero": {pod: pod(with(container("c", "cpu=1", "memory=1Gi cpu=0")), func(pod *corev1.Pod) {
			pod.Spec.Overhead = list("cpu=100m memory=1Gi")
		}), want: running + " cpu=1100m requests.cpu=1100m memory=1Gi requests.memory=1Gi limits.memory=2Gi limits.cpu=0"},
		"QUOTA-52: a pod as a whole replaces its containers, by resource": {pod: pod(with(container("c", "cpu=1 ephemeral-storage=1Gi", "cpu=1")), podLevel("cpu=3", "cpu=4")),
			want: running + " cpu=3 requests.cpu=3 ephemeral-storage=1Gi requests.ephemeral-storage=1Gi limits.cpu=4"},
		"QUOTA-5, QUOTA-52: not without the gate": {pod: pod(with(container("c", "cpu=1", "")), podLevel("cpu=3", "")), off: func(f *features) { f.podLevel = false }, want: running + " cpu=1 requests.cpu=1"},
		"QUOTA-52: during a resize the most of what is asked for, had and allocated": {pod: pod(with(container("c", "cpu=1", "cpu=5")), resized("c", "cpu=2", "cpu=4", "cpu=3")),
			want: running + " cpu=3 requests.cpu=3 limits.cpu=5"},
		"QUOTA-52, QUOTA-96: only what is asked for, before resources could change": {pod: pod(with(container("c", "cpu=1", "cpu=5")), resized("c", "cpu=2", "cpu=4", "cpu=3")),
			off: func(f *features) { f.podResize = false }, want: running + " cpu=1 requests.cpu=1 limits.cpu=5"},
		"QUOTA-52, QUOTA-71: what is asked for in vain does not count": {pod: pod(with(container("c", "cpu=9", "cpu=9")), resized("c", "cpu=2", "cpu=4", "cpu=3"), infeasible),
			want: running + " cpu=3 requests.cpu=3 limits.cpu=4"},
	} {
		t.Run(name, func(t *testing.T) {
			f := everything
			if test.off != nil {
				test.off(&f)
			}
			wantList(t, podUsage(test.pod, now, f), test.want)
		})
	}
}

// Pins QUOTA-50.
func TestLimitsPod(t *testing.T) {
	for name, want := range map[corev1.ResourceName]bool{
		"count/pods": true, "pods": true, "cpu": true, "memory": true, "ephemeral-storage": true,
		"requests.cpu": true, "requests.memory": true, "requests.ephemeral-storage": true,
		"limits.cpu": true, "limits.memory": true, "limits.ephemeral-storage": true,
		"hugepages-2Mi": true, "requests.hugepages-1Gi": true,
		"requests.example.com/gpu": true, "requests.deviceclass.resource.kubernetes.io/gpu": true,
		"example.com/gpu": false, "requests.kubernetes.io/gpu": false, "requests.gpu": false, "requests.storage": false,
		"limits.example.com/gpu": false, "count/services": false, "services": false, "count/pods.metrics.k8s.io": false,
	} {
		if got := limitsPod(name); got != want {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
}

// affine gives a pod an affinity or anti-affinity with one term.
func affine(term corev1.PodAffinityTerm, anti, preferred bool) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		required, wanted := []corev1.PodAffinityTerm{term}, []corev1.WeightedPodAffinityTerm(nil)
		if preferred {
			required, wanted = nil, []corev1.WeightedPodAffinityTerm{{PodAffinityTerm: term}}
		}
		pod.Spec.Affinity = &corev1.Affinity{}
		if anti {
			pod.Spec.Affinity.PodAntiAffinity = &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: required, PreferredDuringSchedulingIgnoredDuringExecution: wanted}
		} else {
			pod.Spec.Affinity.PodAffinity = &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: required, PreferredDuringSchedulingIgnoredDuringExecution: wanted}
		}
	}
}

func deadline(seconds int64) func(*corev1.Pod) {
	return func(pod *corev1.Pod) { pod.Spec.ActiveDeadlineSeconds = &seconds }
}

func priority(class string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) { pod.Spec.PriorityClassName = class }
}

func quality(class corev1.PodQOSClass) func(*corev1.Pod) {
	return func(pod *corev1.Pod) { pod.Status.QOSClass = class }
}

// where is a scope selector with one expression.
func where(scope corev1.ResourceQuotaScope, operator corev1.ScopeSelectorOperator, values ...string) *corev1.ScopeSelector {
	return &corev1.ScopeSelector{MatchExpressions: []corev1.ScopedResourceSelectorRequirement{{ScopeName: scope, Operator: operator, Values: values}}}
}

func TestScopesOfPods(t *testing.T) {
	type scopes = []corev1.ResourceQuotaScope
	const class = corev1.ResourceQuotaScopePriorityClass
	elsewhere := corev1.PodAffinityTerm{Namespaces: []string{"other"}}
	for name, test := range map[string]struct {
		pod      *corev1.Pod
		in       scopes
		selector *corev1.ScopeSelector
		off      func(*features)
		want     bool
	}{
		"QUOTA-48: no scope":                                  {pod: pod(), want: true},
		"QUOTA-48: all scopes":                                {pod: pod(deadline(1)), in: scopes{"Terminating", "BestEffort"}, want: true},
		"QUOTA-48: all scopes but one":                        {pod: pod(deadline(1)), in: scopes{"Terminating", "NotBestEffort"}},
		"QUOTA-48: a scope and a selector":                    {pod: pod(), in: scopes{"BestEffort"}, selector: where(class, "Exists")},
		"QUOTA-48: a selector that is empty":                  {pod: pod(), selector: &corev1.ScopeSelector{}, want: true},
		"QUOTA-53: with a deadline":                           {pod: pod(deadline(0)), in: scopes{"Terminating"}, want: true},
		"QUOTA-53: with a deadline that is none":              {pod: pod(deadline(-1)), in: scopes{"Terminating"}},
		"QUOTA-53: without a deadline":                        {pod: pod(), in: scopes{"NotTerminating"}, want: true},
		"QUOTA-53: being deleted is not terminating":          {pod: pod(deleted(0, 1)), in: scopes{"Terminating"}},
		"QUOTA-53: best effort by status":                     {pod: pod(with(container("c", "cpu=1", "")), quality("BestEffort")), in: scopes{"BestEffort"}, want: true},
		"QUOTA-53: not best effort by status":                 {pod: pod(quality("Burstable")), in: scopes{"NotBestEffort"}, want: true},
		"QUOTA-54: a request":                                 {pod: pod(with(container("c", "memory=1", ""))), in: scopes{"BestEffort"}},
		"QUOTA-54: a limit of an init container":              {pod: pod(withInit(container("c", "", "cpu=1"))), in: scopes{"BestEffort"}},
		"QUOTA-54: a request of zero, and other resources":    {pod: pod(with(container("c", "memory=0 ephemeral-storage=1", ""))), in: scopes{"BestEffort"}, want: true},
		"QUOTA-54: only the pod as a whole, if it has any":    {pod: pod(with(container("c", "memory=1", "")), podLevel("", "")), in: scopes{"BestEffort"}, want: true},
		"QUOTA-54: a request of the pod as a whole":           {pod: pod(podLevel("cpu=1", "")), in: scopes{"NotBestEffort"}, want: true},
		"QUOTA-5, QUOTA-54: its containers, without the gate": {pod: pod(with(container("c", "memory=1", "")), podLevel("", "")), off: func(f *features) { f.podLevel = false }, in: scopes{"NotBestEffort"}, want: true},
		"QUOTA-53: a priority class":                          {pod: pod(priority("a")), in: scopes{class}, want: true},
		"QUOTA-53: no priority class":                         {pod: pod(), in: scopes{class}},
		"QUOTA-53: a class that exists":                       {pod: pod(priority("a")), selector: where(class, "Exists"), want: true},
		"QUOTA-53: a class that does not exist":               {pod: pod(), selector: where(class, "Exists")},
		"QUOTA-53: a class of a list":                         {pod: pod(priority("a")), selector: where(class, "In", "a", "b"), want: true},
		"QUOTA-53: a class that is not of a list":             {pod: pod(priority("c")), selector: where(class, "In", "a", "b")},
		"QUOTA-53: no class of a list":                        {pod: pod(), selector: where(class, "In", "a", "b")},
		"QUOTA-53: not a class of a list":                     {pod: pod(priority("c")), selector: where(class, "NotIn", "a"), want: true},
		"QUOTA-53: a class of a list of others":               {pod: pod(priority("a")), selector: where(class, "NotIn", "a")},
		"QUOTA-53: no class of a list of others":              {pod: pod(), selector: where(class, "NotIn", "a"), want: true},
		"QUOTA-53: no class, as is wanted":                    {pod: pod(), selector: where(class, "DoesNotExist"), want: true},
		"QUOTA-53: a class that is not wanted":                {pod: pod(priority("a")), selector: where(class, "DoesNotExist")},
		"QUOTA-48: a selector that is invalid":                {pod: pod(priority("a")), selector: where(class, "In")},
		"QUOTA-53: the operator counts for classes only":      {pod: pod(deadline(1)), selector: where("Terminating", "DoesNotExist"), want: true},
		"QUOTA-53: affinity to another namespace":             {pod: pod(affine(elsewhere, false, false)), in: scopes{"CrossNamespacePodAffinity"}, want: true},
		"QUOTA-53: preferred affinity to another namespace":   {pod: pod(affine(elsewhere, false, true)), in: scopes{"CrossNamespacePodAffinity"}, want: true},
		"QUOTA-53: anti-affinity to another namespace":        {pod: pod(affine(elsewhere, true, false)), in: scopes{"CrossNamespacePodAffinity"}, want: true},
		"QUOTA-53: preferred anti-affinity to namespaces":     {pod: pod(affine(corev1.PodAffinityTerm{NamespaceSelector: &metav1.LabelSelector{}}, true, true)), in: scopes{"CrossNamespacePodAffinity"}, want: true},
		"QUOTA-53: affinity to the same namespace":            {pod: pod(affine(corev1.PodAffinityTerm{}, false, false)), in: scopes{"CrossNamespacePodAffinity"}},
		"QUOTA-53: no affinity":                               {pod: pod(), in: scopes{"CrossNamespacePodAffinity"}},
		"QUOTA-53: the scope of something else":               {pod: pod(), in: scopes{corev1.ResourceQuotaScopeVolumeAttributesClass}},
		"QUOTA-53: a scope that does not exist":               {pod: pod(), in: scopes{"Nonsense"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := selectedBy(corev1.ResourceQuotaSpec{Scopes: test.in, ScopeSelector: test.selector})
			f := everything
			if test.off != nil {
				test.off(&f)
			}
			if got := s.includes(profileOfPod(test.pod, f).meets); got != test.want {
				t.Errorf("selected is %v, want %v", got, test.want)
			}
		})
	}
}

// Pins QUOTA-13, QUOTA-106.
func TestReleasesPod(t *testing.T) {
	asked := with(container("c", "cpu=1", ""))
	initial := func(requests string) func(*corev1.Pod) {
		return func(pod *corev1.Pod) {
			resized("c", requests, "", "")(pod)
			pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses = pod.Status.ContainerStatuses, nil
		}
	}
	for name, test := range map[string]struct {
		old, new *corev1.Pod
		want     bool
	}{
		"nothing":                      {pod(), pod(), false},
		"a container has less":         {pod(resized("c", "cpu=2", "", "")), pod(resized("c", "cpu=1", "", "")), true},
		"a container has more":         {pod(resized("c", "", "cpu=1", "")), pod(resized("c", "", "cpu=2", "")), true},
		"an init container has less":   {pod(initial("cpu=2")), pod(initial("cpu=1")), true},
		"in another format":            {pod(resized("c", "cpu=1", "", "")), pod(resized("c", "cpu=1000m", "", "")), false},
		"a container has a status now": {pod(), pod(resized("c", "cpu=1", "", "")), false},
		"another container":            {pod(resized("c", "cpu=1", "", "")), pod(resized("d", "cpu=2", "", "")), false},
		"what is allocated":            {pod(resized("c", "cpu=1", "", "cpu=1")), pod(resized("c", "cpu=1", "", "cpu=2")), true},
		"a resize is infeasible":       {pod(resized("c", "cpu=1", "", "")), pod(resized("c", "cpu=1", "", ""), infeasible), true},
		"it asks for less":             {pod(asked), pod(with(container("c", "", ""))), true},
		"an init container asks":       {pod(withInit(container("c", "", ""))), pod(withInit(container("c", "cpu=1", ""))), true},
		"the pod as a whole asks":      {pod(podLevel("cpu=2", "")), pod(podLevel("cpu=1", "")), true},
		"it asks for the same":         {pod(asked), pod(with(container("c", "cpu=1000m", ""))), false},
		"a deadline is set":            {pod(), pod(deadline(1)), true},
		"a deadline is another":        {pod(deadline(1)), pod(deadline(2)), false},
		"it has ended":                 {pod(), pod(controllertest.InPhase(corev1.PodSucceeded)), true},
		"it had ended":                 {pod(controllertest.InPhase(corev1.PodSucceeded)), pod(controllertest.InPhase(corev1.PodFailed)), false},
		"it is being deleted":          {pod(), pod(deleted(0, 1)), false},
		"it should be gone":            {pod(), pod(deleted(time.Minute, 1)), true},
		"it should have been gone":     {pod(deleted(time.Minute, 1)), pod(deleted(time.Minute, 1), controllertest.InPhase(corev1.PodFailed)), false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := releasesPod(test.old, test.new, now); got != test.want {
				t.Errorf("releases is %v, want %v", got, test.want)
			}
		})
	}
}
