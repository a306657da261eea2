package devices

import (
	"context"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	schedulingv1alpha2 "k8s.io/api/scheduling/v1alpha2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"kcmd.dev/test/await"
	"kcmd.dev/test/integration/harness"
	"kcmd.dev/test/manager"
	"kcmd.dev/test/must"
)

const claimController = "resourceclaim-controller"

// A restart in the middle of a burst of pods leaves one claim for each entry. Pins RCLM-46.
func TestRestartsGenerateNoSecondClaim(t *testing.T) {
	const pods, restarts = 40, 4
	namespace := cluster.Namespace(t)
	createTemplate(t, namespace, "none")
	before := cluster.Manager.Config()
	cluster.Restore(t, func(c *manager.Config) {
		c.Controllers.ResourceClaim.ConcurrentSyncs = before.Controllers.ResourceClaim.ConcurrentSyncs
	})
	var created []*corev1.Pod
	for i := range pods {
		created = append(created, createPod(t, namespace, fmt.Sprint("pod-", i), []corev1.PodResourceClaim{fromTemplate("a"), fromTemplate("b")}, unscheduled))
		if i%(pods/restarts) == pods/restarts-1 {
			harness.Edit(t, cluster.Manager, func(c *manager.Config) { c.Controllers.ResourceClaim.ConcurrentSyncs = ptr.To(int32(i + 1)) })
		}
	}
	for _, pod := range created {
		claimsOf(t, pod, "a", "b")
	}
	list := must.Get(admin.ResourceV1().ResourceClaims(namespace).List(t.Context(), metav1.ListOptions{}))(t)
	if len(list.Items) != 2*pods {
		t.Errorf("there are %d claims for %d entries", len(list.Items), 2*pods)
	}
	status := harness.Status(t, cluster.Manager)
	if got := harness.ControllerOf(&status, claimController).Generation; got <= restarts {
		t.Errorf("there were %d instances", got)
	}
}

// From the template to the end of the pod, with a scheduler and with the rights that the API server
// gives the controller. Pins RCLM-14, RCLM-15, RCLM-18g, RCLM-19, RCLM-25 and RCLM-27.
func TestAPodWithSeveralClaimsFromItsBeginningToItsEnd(t *testing.T) {
	t.Parallel()
	for _, end := range []string{"succeeds", "fails", "is deleted"} {
		t.Run(end, func(t *testing.T) {
			t.Parallel()
			namespace := cluster.Namespace(t)
			class := publish(t, namespace, 3)
			createTemplate(t, namespace, class)
			createClaim(t, namespace, "static", class)
			pod := createPod(t, namespace, "pod", []corev1.PodResourceClaim{fromTemplate("a"), ofUser("s", "static"), fromTemplate("b")})
			claims := claimsOf(t, pod, "a", "b")
			for entry, claim := range claims {
				wantGenerated(t, pod, entry, claim)
				awaitClaim(t, "the claim is allocated and reserved", namespace, claim.Name, isFor(pod.UID))
			}
			awaitClaim(t, "the claim of the user is reserved", namespace, "static", isFor(pod.UID))
			await.That(t, "the pod runs", func(ctx context.Context) error {
				p, err := admin.CoreV1().Pods(namespace).Get(ctx, "pod", metav1.GetOptions{})
				if err == nil && p.Status.Phase != corev1.PodRunning {
					err = fmt.Errorf("it is %s", p.Status.Phase)
				}
				return err
			})
			switch end {
			case "succeeds":
				finish(t, pod, corev1.PodSucceeded)
			case "fails":
				finish(t, pod, corev1.PodFailed)
			default:
				cluster.DeletePodNow(t, namespace, "pod")
			}
			for _, claim := range claims {
				awaitNoClaim(t, namespace, claim.Name)
			}
			awaitClaim(t, "the claim of the user is free", namespace, "static", isFree)
		})
	}
}

func wantGenerated(t *testing.T, pod *corev1.Pod, entry string, claim *resourcev1.ResourceClaim) {
	t.Helper()
	owner := metav1.OwnerReference{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID, Controller: ptr.To(true)}
	if len(claim.OwnerReferences) != 1 || claim.OwnerReferences[0].String() != owner.String() {
		t.Errorf("owners are %v", claim.OwnerReferences)
	}
	if !strings.HasPrefix(claim.Name, pod.Name+"-"+entry+"-") || claim.Labels["from"] != "template" || len(claim.Annotations) != 2 ||
		claim.Annotations["example.com/from"] != "template" || claim.Annotations["resource.kubernetes.io/pod-claim-name"] != entry {
		t.Errorf("it is %+v", claim.ObjectMeta)
	}
}

// Pins RCLM-18g.
func TestTheLongestNames(t *testing.T) {
	t.Parallel()
	namespace := cluster.Namespace(t)
	createTemplate(t, namespace, "none")
	entry := strings.Repeat("b", 63)
	pod := createPod(t, namespace, strings.Repeat("a", 63), []corev1.PodResourceClaim{fromTemplate(entry)}, unscheduled)
	claim := claimsOf(t, pod, entry)[entry]
	if want := strings.Repeat("a", 28) + "-" + strings.Repeat("b", 28); !strings.HasPrefix(claim.Name, want) || len(claim.Name) != len(want)+5 {
		t.Errorf("it is called %s", claim.Name)
	}
}

// Pins RCLM-18f, RCLM-28 and RCLM-37.
func TestATemplateThatIsCreatedLater(t *testing.T) {
	t.Parallel()
	namespace := cluster.Namespace(t)
	pod := createPod(t, namespace, "pod", []corev1.PodResourceClaim{fromTemplate("a")}, unscheduled)
	cluster.WaitForEvent(t, namespace, pod.UID, `resource_claim Warning FailedResourceClaimCreation: `+
		`PodResourceClaim a: resource claim template "one": resourceclaimtemplate.resource.k8s.io "one" not found`)
	createTemplate(t, namespace, "none")
	claimsOf(t, pod, "a")
}

// Each is generated again and recorded, and the names of the others stay. Pins RCLM-19, RCLM-31 and RCLM-51.
func TestGeneratedClaimsThatAreDeleted(t *testing.T) {
	t.Parallel()
	namespace := cluster.Namespace(t)
	createTemplate(t, namespace, "none")
	pod := createPod(t, namespace, "pod", []corev1.PodResourceClaim{fromTemplate("a"), fromTemplate("b"), fromTemplate("c")}, unscheduled)
	claims := claimsOf(t, pod, "a", "b", "c")
	for _, entry := range []string{"b", "a", "c", "b"} {
		must.Succeed(t, admin.ResourceV1().ResourceClaims(namespace).Delete(t.Context(), claims[entry].Name, metav1.DeleteOptions{}))
		is := claimsOf(t, pod, "a", "b", "c")
		for name, claim := range is {
			if same := claim.UID == claims[name].UID; same == (name == entry) {
				t.Errorf("after %s was deleted, %s is the same: %v", entry, name, same)
			}
		}
		claims = is
	}
}

// Pods that bypass the scheduler share a claim, and end in every order. Pins RCLM-21, RCLM-24, RCLM-25 and RCLM-25a.
func TestASharedClaimIsFreedByTheLastOfItsPods(t *testing.T) {
	t.Parallel()
	for _, order := range [][]int{{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}} {
		t.Run(fmt.Sprint(order), func(t *testing.T) {
			t.Parallel()
			namespace := cluster.Namespace(t)
			allocate(t, createClaim(t, namespace, "shared", "none"))
			left := map[int]types.UID{}
			var pods []*corev1.Pod
			for i := range order {
				pods = append(pods, createPod(t, namespace, fmt.Sprint("pod-", i), []corev1.PodResourceClaim{ofUser("s", "shared")}, onGhost))
				left[i] = pods[i].UID
			}
			awaitClaim(t, "it is reserved for all", namespace, "shared", isFor(pods[0].UID, pods[1].UID, pods[2].UID))
			for n, i := range order {
				if i == 1 {
					finish(t, pods[i], corev1.PodFailed)
				} else {
					cluster.DeletePodNow(t, namespace, pods[i].Name)
				}
				delete(left, i)
				var uids []types.UID
				for _, uid := range left {
					uids = append(uids, uid)
				}
				if n < len(order)-1 {
					awaitClaim(t, "it is reserved for those that are left", namespace, "shared", isFor(uids...))
				}
			}
			awaitClaim(t, "it is free", namespace, "shared", isFree)
		})
	}
}

// A claim that is deleted while it is in use stays until its last pod ends. Pins RCLM-26.
func TestAClaimThatIsDeletedWhileInUse(t *testing.T) {
	t.Parallel()
	namespace := cluster.Namespace(t)
	allocate(t, createClaim(t, namespace, "shared", "none"))
	pod := createPod(t, namespace, "pod", []corev1.PodResourceClaim{ofUser("s", "shared")}, onGhost)
	awaitClaim(t, "it is reserved", namespace, "shared", isFor(pod.UID))
	allocate(t, createClaim(t, namespace, "unused", "none"))
	for _, name := range []string{"shared", "unused"} {
		must.Succeed(t, admin.ResourceV1().ResourceClaims(namespace).Delete(t.Context(), name, metav1.DeleteOptions{}))
	}
	awaitNoClaim(t, namespace, "unused")
	awaitClaim(t, "it stays", namespace, "shared", isFor(pod.UID))
	cluster.DeletePodNow(t, namespace, "pod")
	awaitNoClaim(t, namespace, "shared")
}

// Pins RCLM-20, RCLM-21 and RCLM-53.
func TestManyPodsThatShareAClaim(t *testing.T) {
	t.Parallel()
	const pods = 60
	namespace := cluster.Namespace(t)
	claim := createClaim(t, namespace, "shared", "none")
	var uids []types.UID
	for i := range pods {
		uids = append(uids, createPod(t, namespace, fmt.Sprint("pod-", i), []corev1.PodResourceClaim{ofUser("s", "shared")}, onGhost).UID)
	}
	createPod(t, namespace, "waiting", []corev1.PodResourceClaim{ofUser("s", "shared")}, unscheduled)
	allocate(t, claim)
	awaitClaim(t, "it is reserved for all on a node", namespace, "shared", isFor(uids...))
	must.Succeed(t, admin.CoreV1().Pods(namespace).DeleteCollection(t.Context(), metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0)}, metav1.ListOptions{}))
	awaitClaim(t, "it is free", namespace, "shared", isFree)
}

// Pins RCLM-18d, RCLM-22 and RCLM-24b.
func TestAClaimOfAPodGroup(t *testing.T) {
	t.Parallel()
	namespace := cluster.Namespace(t)
	createTemplate(t, namespace, "none")
	groups := admin.SchedulingV1alpha2().PodGroups(namespace)
	group := must.Get(groups.Create(t.Context(), &schedulingv1alpha2.PodGroup{
		ObjectMeta: metav1.ObjectMeta{Name: "group"},
		Spec: schedulingv1alpha2.PodGroupSpec{
			SchedulingPolicy: schedulingv1alpha2.PodGroupSchedulingPolicy{Basic: &schedulingv1alpha2.BasicSchedulingPolicy{}},
			ResourceClaims:   []schedulingv1alpha2.PodGroupResourceClaim{{Name: "a", ResourceClaimTemplateName: ptr.To("one")}},
		},
	}, metav1.CreateOptions{}))(t)
	member := func(p *corev1.Pod) {
		p.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: ptr.To("group")}
	}
	first := createPod(t, namespace, "first", []corev1.PodResourceClaim{fromTemplate("a"), fromTemplate("own")}, onGhost, member)
	second := createPod(t, namespace, "second", []corev1.PodResourceClaim{fromTemplate("a")}, onGhost, member)
	claims := claimsOf(t, first, "a", "own")
	claim := claims["a"]
	if other := claimsOf(t, second, "a")["a"]; other.UID != claim.UID || !metav1.IsControlledBy(claim, group) || !strings.HasPrefix(claim.Name, "group-a-") || !metav1.IsControlledBy(claims["own"], first) {
		t.Errorf("the claims are %+v, %+v and %+v", claim.ObjectMeta, other.ObjectMeta, claims["own"].ObjectMeta)
	}
	// The group is written on its own, perhaps later than the pods.
	await.That(t, "the claim is recorded in the group", func(ctx context.Context) error {
		group, err := groups.Get(ctx, "group", metav1.GetOptions{})
		if err == nil && (len(group.Status.ResourceClaimStatuses) != 1 || *group.Status.ResourceClaimStatuses[0].ResourceClaimName != claim.Name) {
			err = fmt.Errorf("the status is %+v", group.Status)
		}
		return err
	})
	allocate(t, claim)
	awaitClaim(t, "it is reserved for the group, once", namespace, claim.Name, isFor(group.UID))
	cluster.DeletePodNow(t, namespace, "first")
	cluster.DeletePodNow(t, namespace, "second")
	awaitNoClaim(t, namespace, claims["own"].Name)
	awaitClaim(t, "it stays reserved for the group", namespace, claim.Name, isFor(group.UID))
	must.Succeed(t, groups.Delete(t.Context(), "group", metav1.DeleteOptions{}))
	awaitNoClaim(t, namespace, claim.Name)
}

// Pins RCLM-44.
func TestAnEntryThatNeedsNoClaim(t *testing.T) {
	t.Parallel()
	namespace := cluster.Namespace(t)
	createPod(t, namespace, "pod", []corev1.PodResourceClaim{fromTemplate("a"), {Name: "b", ResourceClaimTemplateName: ptr.To("two")}}, unscheduled)
	cluster.PatchPodStatus(t, namespace, "pod", map[string]any{"resourceClaimStatuses": []any{map[string]any{"name": "a"}}})
	two := &resourcev1.ResourceClaimTemplate{ObjectMeta: metav1.ObjectMeta{Name: "two"}, Spec: resourcev1.ResourceClaimTemplateSpec{Spec: oneOf("none")}}
	must.Get(admin.ResourceV1().ResourceClaimTemplates(namespace).Create(t.Context(), two, metav1.CreateOptions{}))(t)
	await.That(t, "the other is recorded", func(ctx context.Context) error {
		p, err := admin.CoreV1().Pods(namespace).Get(ctx, "pod", metav1.GetOptions{})
		if err != nil {
			return err
		}
		s := p.Status.ResourceClaimStatuses
		if len(s) != 2 || s[0].Name != "a" || s[0].ResourceClaimName != nil || s[1].Name != "b" || s[1].ResourceClaimName == nil {
			return fmt.Errorf("recorded are %+v", s)
		}
		return nil
	})
}
