package endpointslice

import (
	"cmp"
	"errors"
	"io"
	"slices"
	"testing"

	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"
)

// observed records the writes that a client reports.
type observed []string

func (o *observed) wrote(s *discoveryv1.EndpointSlice)            { *o = append(*o, "wrote "+s.Name) }
func (o *observed) created(s *discoveryv1.EndpointSlice, _ error) { *o = append(*o, "created "+s.Name) }
func (o *observed) updateFailed(s *discoveryv1.EndpointSlice)     { *o = append(*o, "failed "+s.Name) }
func (o *observed) unanswered(s *discoveryv1.EndpointSlice) {
	*o = append(*o, "unanswered "+s.Name+" in version "+s.ResourceVersion)
}

// TestWritesOfTheLibrary has a slice that the cache shows in version 7 be updated, overwritten and deleted.
func TestWritesOfTheLibrary(t *testing.T) {
	conflict := apierrors.NewConflict(discoveryv1.Resource("endpointslices"), "s", errors.New("changed"))
	update := func(client slicesClient, version string) error {
		slice := testSlice("s")
		slice.UID, slice.ResourceVersion = "", version
		_, err := client.Update(t.Context(), slice, metav1.UpdateOptions{})
		if slice.UID != "" || slice.ResourceVersion != version {
			t.Error("the slice of the library is changed")
		}
		return err
	}
	updated := func(client slicesClient) error { return update(client, "7") }
	late := func(client slicesClient) error { return update(client, "6") }
	overwritten := func(client slicesClient) error { return update(client, "") }
	deleted := func(client slicesClient) error { return client.Delete(t.Context(), "s", metav1.DeleteOptions{}) }
	somebodyElses := func(s *discoveryv1.EndpointSlice) { s.Labels[discoveryv1.LabelManagedBy] = "other" }
	absent := func(s *discoveryv1.EndpointSlice) { s.Name = "other" }
	for name, tc := range map[string]struct {
		write    func(slicesClient) error
		cached   func(*discoveryv1.EndpointSlice)
		answer   error
		fails    func(error) bool
		sent     bool
		version  string // of the update that is sent, if not 7
		observed []string
	}{
		"EPS-23: updated":                      {write: updated, sent: true, observed: []string{"wrote s"}},
		"EPS-81: updated as it was before":     {write: late, answer: conflict, fails: apierrors.IsConflict, sent: true, version: "6", observed: []string{"failed s"}},
		"EPS-85: an update that is refused":    {write: updated, answer: conflict, fails: apierrors.IsConflict, sent: true, observed: []string{"failed s"}},
		"EPS-85: an update without an answer":  {write: updated, answer: io.ErrUnexpectedEOF, sent: true, observed: []string{"unanswered s in version 7", "failed s"}},
		"EPS-81: overwritten":                  {write: overwritten, sent: true, observed: []string{"wrote s"}},
		"EPS-85: overwritten without answer":   {write: overwritten, answer: io.ErrUnexpectedEOF, sent: true, observed: []string{"unanswered s in version 7", "failed s"}},
		"EPS-81: overwritten, but taken over":  {write: overwritten, cached: somebodyElses, fails: apierrors.IsConflict, observed: []string{"failed s"}},
		"EPS-81: overwritten, but gone":        {write: overwritten, cached: absent, fails: apierrors.IsNotFound, observed: []string{"failed s"}},
		"EPS-81: deleted":                      {write: deleted, sent: true},
		"EPS-81: deleted, but taken over":      {write: deleted, cached: somebodyElses, fails: apierrors.IsConflict},
		"EPS-81: deleted, but gone":            {write: deleted, cached: absent, fails: apierrors.IsNotFound},
		"EPS-85: a deletion that is refused":   {write: deleted, answer: conflict, fails: apierrors.IsConflict, sent: true},
		"EPS-85: a deletion without an answer": {write: deleted, answer: io.ErrUnexpectedEOF, sent: true, observed: []string{"unanswered s in version 7"}},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, defaults)
			shown := testSlice("s", func(s *discoveryv1.EndpointSlice) { s.UID, s.ResourceVersion = "u", "7" })
			if tc.cached != nil {
				tc.cached(shown)
			}
			b.Cache(t, shown)
			sent := 0
			answer := func(action clienttesting.Action) (bool, runtime.Object, error) {
				sent++
				if d, ok := action.(clienttesting.DeleteActionImpl); ok {
					if is := d.DeleteOptions.Preconditions; is == nil || *is.UID != "u" || *is.ResourceVersion != "7" {
						t.Errorf("EPS-81: deleted on condition of %+v", is)
					}
				}
				if u, ok := action.(clienttesting.UpdateAction); ok {
					is := u.GetObject().(*discoveryv1.EndpointSlice)
					if is.ResourceVersion != cmp.Or(tc.version, "7") {
						t.Errorf("EPS-81: updated in version %q", is.ResourceVersion)
					}
					return true, is, tc.answer
				}
				return true, nil, tc.answer
			}
			b.Fake.PrependReactor("update", "endpointslices", answer)
			b.Fake.PrependReactor("delete", "endpointslices", answer)
			var noted observed
			client := sliceClient{b.Env.Client, b.c.cached, &noted}.DiscoveryV1().EndpointSlices(web.Namespace).(slicesClient)
			err := tc.write(client)
			if fails := tc.answer != nil || tc.fails != nil; fails != (err != nil) || tc.fails != nil && !tc.fails(err) {
				t.Errorf("error is %v", err)
			}
			if (sent == 1) != tc.sent || !slices.Equal(noted, tc.observed) {
				t.Errorf("%d requests, observed %q", sent, noted)
			}
		})
	}
}
