package controllertest

import (
	"testing"

	"k8s.io/apimachinery/pkg/util/sets"
	clienttesting "k8s.io/client-go/testing"
)

// AwaitWatches waits until informers watch what they have listed. Unlike a real API server
// a fake one does not replay what is deleted between a list and the watch after it, so a
// test that changes objects has to wait. Env.Start does it for the servers of the Env.
func AwaitWatches(t testing.TB, server *clienttesting.Fake) {
	t.Helper()
	Eventually(t, "the informers watch", func() bool { return unwatched(server.Actions()).Len() == 0 })
}

// selection is what an informer lists and watches.
type selection struct{ resource, namespace, labels, fields string }

// unwatched returns what informers have listed without opening a watch after it.
func unwatched(requests []clienttesting.Action) sets.Set[selection] {
	listed := sets.New[selection]()
	for _, request := range requests {
		switch r := request.(type) {
		case clienttesting.ListActionImpl:
			// A list for its own sake asks for the newest state, with no version.
			if r.ListOptions.ResourceVersion == "0" {
				listed.Insert(selection{r.Resource.String(), r.Namespace, r.ListOptions.LabelSelector, r.ListOptions.FieldSelector})
			}
		case clienttesting.WatchActionImpl:
			listed.Delete(selection{r.Resource.String(), r.Namespace, r.ListOptions.LabelSelector, r.ListOptions.FieldSelector})
		}
	}
	return listed
}
