package servicecidr

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clienttesting "k8s.io/client-go/testing"

	"kcmd.dev/test/controllertest"
	"kcmd.dev/test/must"
)

func deleted(cidr *networkingv1.ServiceCIDR, ago time.Duration) *networkingv1.ServiceCIDR {
	cidr.DeletionTimestamp = &metav1.Time{Time: controllertest.Epoch.Add(-ago)}
	return cidr
}

func newAddress(name string, family corev1.IPFamily, manager string) *networkingv1.IPAddress {
	return &networkingv1.IPAddress{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{
		networkingv1.LabelIPAddressFamily: string(family), networkingv1.LabelManagedBy: manager,
	}}}
}

func allocatedAddress(name string) *networkingv1.IPAddress {
	return newAddress(name, corev1.IPv4Protocol, allocator)
}

// subject is a controller with the keys that it enqueues with a delay.
type subject struct {
	*controllertest.Subject[string]
	c *cidrController
}

// newSubject creates a controller whose caches match the API server.
func newSubject(t *testing.T, objects ...runtime.Object) *subject {
	t.Helper()
	s := newSubjectWithoutCaches(t, objects...)
	s.fillCaches(t, objects...)
	return s
}

func newSubjectWithoutCaches(t *testing.T, objects ...runtime.Object) *subject {
	t.Helper()
	s := &subject{Subject: controllertest.NewSubject(t, "is", objects...)}
	c := must.Get(newController(s.Env.Env))(t)
	s.c, s.Work = c, c.reconcile
	return s
}

func (s *subject) fillCaches(t *testing.T, objects ...runtime.Object) {
	t.Helper()
	s.Env.Start(t)
	metadata := s.Informers.MetadataFor(networkingv1.SchemeGroupVersion.WithResource("ipaddresses")).Informer()
	for _, o := range objects {
		if address, ok := o.(*networkingv1.IPAddress); ok {
			if err := metadata.GetIndexer().Add(metadataOf(address)); err != nil {
				t.Fatal(err)
			}
		}
	}
	s.Requests()
}

// sent returns the writes with their bodies.
func sent(t *testing.T, s *subject) []string {
	t.Helper()
	var all []string
	for _, action := range s.Writes() {
		patch, ok := action.(clienttesting.PatchActionImpl)
		if !ok {
			t.Fatalf("unexpected request: %+v", action)
		}
		if patch.PatchType == types.ApplyPatchType && (patch.PatchOptions.FieldManager != "service-cidr-controller" || !*patch.PatchOptions.Force) {
			t.Errorf("applied with %+v", patch.PatchOptions)
		}
		all = append(all, string(patch.PatchType)+" "+patch.Subresource+" "+string(patch.Patch))
	}
	return all
}

func applied(status, reason, message string) string {
	return `application/apply-patch+yaml status {"kind":"ServiceCIDR","apiVersion":"networking.k8s.io/v1","metadata":{"name":"is","uid":"is"},"status":{"conditions":[` +
		`{"type":"Ready","status":"` + status + `","lastTransitionTime":"` + controllertest.Epoch.UTC().Format(time.RFC3339) + `","reason":"` + reason + `","message":"` + message + `"}]}}`
}

const (
	addsFinalizer    = `application/strategic-merge-patch+json  {"metadata":{"finalizers":["networking.k8s.io/service-cidr-finalizer"],"uid":"is"}}`
	deletesFinalizer = `application/strategic-merge-patch+json  {"metadata":{"$deleteFromPrimitiveList/finalizers":["networking.k8s.io/service-cidr-finalizer"],"uid":"is"}}`
)
