package controllertest

import (
	"testing"

	"k8s.io/apimachinery/pkg/util/sets"
	clienttesting "k8s.io/client-go/testing"
)

// AwaitWatches waits until everything that was listed is watched. Nobody but informers may have listed
// anything. Unlike a real API server a fake one does not replay what is deleted between a list and the
// watch after it, so a test that changes objects has to wait. Env.Start does it for the servers of the Env.
func AwaitWatches(t testing.TB, server *clienttesting.Fake) {
	t.Helper()
	awaitWatches(t, server, 0)
}

// awaitWatches is AwaitWatches without the first requests, which are not those of informers.
func awaitWatches(t testing.TB, server *clienttesting.Fake, others int) {
	t.Helper()
	Eventually(t, "the informers watch", func() bool { return unwatched(server.Actions()[others:]).Len() == 0 })
}

// selection is what an informer lists and watches.
type selection struct{ resource, namespace, labels, fields string }

// unwatched returns what was listed without a watch after it. That informers ask for lists of version 0
// tells nothing: fakes do not record it if the kind is cluster-scoped, or if only metadata is listed.
func unwatched(requests []clienttesting.Action) sets.Set[selection] {
	listed := sets.New[selection]()
	for _, request := range requests {
		switch r := request.(type) {
		case clienttesting.ListActionImpl:
			listed.Insert(selection{r.Resource.String(), r.Namespace, r.ListOptions.LabelSelector, r.ListOptions.FieldSelector})
		case clienttesting.WatchActionImpl:
			listed.Delete(selection{r.Resource.String(), r.Namespace, r.ListOptions.LabelSelector, r.ListOptions.FieldSelector})
		}
	}
	return listed
}
