package certificates

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/client-go/kubernetes"

	"kcmd.dev/test/await"
	"kcmd.dev/test/controlplane"
	"kcmd.dev/test/must"
	"kcmd.dev/test/pki"
)

// allow lets a user create a resource of certificates.k8s.io.
func allow(t *testing.T, user, resource string) {
	t.Helper()
	role := must.Get(admin.RbacV1().ClusterRoles().Create(t.Context(), &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "certificates-"},
		Rules:      []rbacv1.PolicyRule{{Verbs: []string{"create"}, APIGroups: []string{certificatesv1.GroupName}, Resources: []string{resource}}},
	}, metav1.CreateOptions{}))(t)
	must.Get(admin.RbacV1().ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: role.Name},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: user}},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
	}, metav1.CreateOptions{}))(t)
	t.Cleanup(func() {
		_ = admin.RbacV1().ClusterRoleBindings().Delete(context.Background(), role.Name, metav1.DeleteOptions{})
		_ = admin.RbacV1().ClusterRoles().Delete(context.Background(), role.Name, metav1.DeleteOptions{})
	})
}

// mayCreate is nil if a user may create CertificateSigningRequests.
func mayCreate(ctx context.Context, user kubernetes.Interface) error {
	review, err := user.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, &authorizationv1.SelfSubjectAccessReview{
		Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &authorizationv1.ResourceAttributes{
			Group: certificatesv1.GroupName, Resource: "certificatesigningrequests", Verb: "create",
		}},
	}, metav1.CreateOptions{})
	if err == nil && !review.Status.Allowed {
		err = errors.New(review.Status.Reason)
	}
	return err
}

func as(t *testing.T, user string, groups ...string) kubernetes.Interface {
	t.Helper()
	return must.Get(kubernetes.NewForConfig(must.Get(cluster.Config(user, groups...))(t)))(t)
}

// The permission comes after the request, and approves it without another event. The
// certificate follows. Pins CSRA-5, CSRA-6, CSRA-7, CSRA-18 and CSRA-21.
func TestKubeletsGetTheirCertificates(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		user, subresource, message string
	}{
		"CSRA-13a, CSRA-22: a node for itself": {"system:node:self", "selfnodeclient", "Auto approving self kubelet client certificate after SubjectAccessReview."},
		"CSRA-13b, CSRA-22: by bootstrap":      {"certificates-bootstrap", "nodeclient", "Auto approving kubelet client certificate after SubjectAccessReview."},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			allow(t, tc.user, "certificatesigningrequests")
			user, before := as(t, tc.user), mark(t)
			await.That(t, "requests can be created", func(ctx context.Context) error { return mayCreate(ctx, user) })
			csr := create(t, user, pki.Key(t), ofNode("self"))
			other := ofNode("self")
			other.signer = client
			stranger := create(t, user, pki.Key(t), other)
			await.That(t, "it is refused", func(context.Context) error {
				if len(reviews(t, before)) == 0 {
					return errors.New("nobody has asked")
				}
				return nil
			})
			if now := get(t, csr.Name); len(now.Status.Conditions) > 0 {
				t.Errorf("it is decided: %+v", now.Status)
			}
			allow(t, tc.user, "certificatesigningrequests/"+tc.subresource)
			issued(t, csr.Name)
			csr = get(t, csr.Name)
			c := csr.Status.Conditions[0]
			if len(csr.Status.Conditions) != 1 || c.Type != "Approved" || c.Status != "True" || c.Reason != "AutoApproved" || c.Message != tc.message ||
				c.LastUpdateTime.IsZero() || c.LastTransitionTime.IsZero() {
				t.Errorf("conditions: %+v", csr.Status.Conditions)
			}
			if got := requestsAbout(t, before, csr.Name); !slices.Equal(got, []string{"update approval", "update status"}) {
				t.Errorf("requests: %v", got)
			}
			if now := get(t, stranger.Name); len(now.Status.Conditions) > 0 {
				t.Errorf("CSRA-22: that of another signer is decided: %+v", now.Status)
			}
		})
	}
}

// reviews are the questions that the approver has asked.
func reviews(t *testing.T, from controlplane.Mark) []auditv1.Event {
	t.Helper()
	return must.Get(cluster.Audit().Since(from, controlplane.ByUser(account), controlplane.ByVerb("create"), controlplane.ByResource("subjectaccessreviews")))(t)
}

// What is denied stays so. Pins CSRA-10 and CSRA-20.
func TestADeniedRequestIsNeitherApprovedNorSigned(t *testing.T) {
	t.Parallel()
	before := mark(t)
	a := ofUser("denied")
	csr := decide(t, create(t, admin, pki.Key(t), a), certificatesv1.CertificateDenied, metav1.NewTime(time.Now()))
	obtain(t, pki.Key(t), ofUser("later"))
	if now := get(t, csr.Name); now.ResourceVersion != csr.ResourceVersion {
		t.Errorf("it was changed: %+v", now.Status)
	}
	if got := requestsAbout(t, before, csr.Name); len(got) > 0 {
		t.Errorf("requests: %v", got)
	}
}
