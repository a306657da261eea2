package cloud

import (
	"context"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/cloud-provider/fake"
	servicehelpers "k8s.io/cloud-provider/service/helpers"
	"k8s.io/utils/ptr"

	"kcmd.dev/test/controllertest"
	"kcmd.dev/test/must"
)

// owing is a provider of which the test decides whether it has a load balancer, and what its deletion does.
type owing struct {
	fake.Cloud
	exists bool
	fails  error
}

func (o *owing) LoadBalancer() (cloudprovider.LoadBalancer, bool) { return o, true }

func (o *owing) GetLoadBalancer(context.Context, string, *corev1.Service) (*corev1.LoadBalancerStatus, bool, error) {
	return nil, o.exists, nil
}

func (o *owing) EnsureLoadBalancerDeleted(context.Context, string, *corev1.Service) error {
	return o.fails
}

// The library deletes the load balancer of a Service that does not want it any more only while there is the Service. It
// gets the last state of it until that is done, and then whatever has the name. Pins SLB-40.
func TestAServiceThatIsGoneBeforeItsLoadBalancer(t *testing.T) {
	internal := func(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeClusterIP }
	ofClass := func(s *corev1.Service) { s.Spec.LoadBalancerClass = ptr.To("other") }
	for name, tc := range map[string]struct {
		edit func(*corev1.Service)
		// pays is what the provider answers to, now what there is under the name afterwards.
		pays *owing
		now  *corev1.Service
		// held is whether the library gets the last state, and then whether it gets that still.
		held, still bool
	}{
		"it is gone":                            {edit: internal, pays: &owing{exists: true}, held: true},
		"it is gone, and another one has come":  {edit: internal, pays: &owing{exists: true}, now: serviceOf("new", "5"), held: true},
		"it was of another class":               {edit: ofClass, pays: &owing{exists: true}, held: true},
		"the deletion fails":                    {edit: internal, pays: &owing{exists: true, fails: errFake}, held: true, still: true},
		"there is none":                         {edit: internal, pays: &owing{fails: errFake}, held: true},
		"another controller sees to it":         {edit: internal, pays: &owing{exists: true, fails: cloudprovider.ImplementedElsewhere}, held: true},
		"it wants one":                          {edit: func(*corev1.Service) {}, pays: &owing{exists: true}},
		"it is being deleted without finalizer": {edit: internal, pays: &owing{exists: true}, now: deleting("old"), held: true},
		"it is there":                           {edit: internal, pays: &owing{exists: true}, now: serviceOf("old", "2")},
	} {
		t.Run(name, func(t *testing.T) {
			before := serviceOf("old", "1")
			before.Finalizers = []string{servicehelpers.LoadBalancerCleanupFinalizer, "example.com/kept"} // by which a provider may go
			addressed(before)
			tc.edit(before)
			env, session := beginService(t, before)
			queued := 0
			var handler cache.ResourceEventHandler = cache.ResourceEventHandlerFuncs{AddFunc: func(obj any) {
				if !wants(obj.(*corev1.Service)) {
					t.Error("the library does not queue a Service that does not want a load balancer")
				}
				queued++
			}}
			session.guard.backends.again.Store(&handler)
			env.Uncache(t, before)
			if tc.now != nil {
				env.Store(t, tc.now)
				env.Cache(t, tc.now)
			}
			services := session.Services().Lister().Services("a")
			isHeld := func() bool {
				got, err := services.Get("b")
				return err == nil && got.UID == "old" && got.ResourceVersion == "1"
			}
			if held := isHeld(); held != tc.held {
				t.Fatalf("the library gets the last state: %t", held)
			}
			if !tc.held {
				return
			}
			last := must.Get(services.Get("b"))(t)
			if wants(last) || !slices.Equal(last.Finalizers, []string{"example.com/kept"}) || hasAddress(last) {
				t.Errorf("the library would write %v", last)
			}
			balancer, _ := guarded{tc.pays, session.guard}.LoadBalancer()
			_, exists, err := balancer.GetLoadBalancer(t.Context(), "", last)
			if err == nil && exists {
				_ = balancer.EnsureLoadBalancerDeleted(t.Context(), "", last)
			}
			if still := isHeld(); still != tc.still || (queued > 0) == tc.still {
				t.Errorf("the library gets the last state still: %t, and the key was queued %d times", still, queued)
			}
		})
	}
}

func addressed(s *corev1.Service) {
	s.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "192.0.2.1"}}
}

// deleting is a Service that another finalizer holds.
func deleting(uid types.UID) *corev1.Service {
	s := serviceOf(uid, "2")
	s.DeletionTimestamp, s.Finalizers = &metav1.Time{Time: controllertest.Epoch}, []string{"example.com/other"}
	return s
}
