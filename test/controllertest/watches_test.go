package controllertest

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clienttesting "k8s.io/client-go/testing"
)

func TestUnwatched(t *testing.T) {
	pods, labelled := corev1.SchemeGroupVersion.WithResource("pods"), metav1.ListOptions{LabelSelector: "a=b"}
	list := func(o metav1.ListOptions) clienttesting.Action {
		o.ResourceVersion = "0"
		return clienttesting.NewListActionWithOptions(pods, corev1.SchemeGroupVersion.WithKind("Pod"), "", o)
	}
	first := metav1.ListOptions{ResourceVersion: "0"}
	nodes := clienttesting.NewRootListActionWithOptions(
		corev1.SchemeGroupVersion.WithResource("nodes"), corev1.SchemeGroupVersion.WithKind("Node"), first)
	metadata := clienttesting.NewListAction(pods, corev1.SchemeGroupVersion.WithKind("Pod"), "", first)
	watch := func(o metav1.ListOptions) clienttesting.Action {
		o.ResourceVersion = "7"
		return clienttesting.NewWatchActionWithOptions(pods, "", o)
	}
	all := metav1.ListOptions{}
	for name, tc := range map[string]struct {
		requests []clienttesting.Action
		want     int
	}{
		"nothing":               {nil, 0},
		"listed":                {[]clienttesting.Action{list(all)}, 1},
		"listed twice":          {[]clienttesting.Action{list(all), list(all)}, 1},
		"watched":               {[]clienttesting.Action{list(all), watch(all)}, 0},
		"watched, listed again": {[]clienttesting.Action{list(all), watch(all), list(all)}, 1},
		"cluster-scoped":        {[]clienttesting.Action{nodes}, 1},
		"metadata":              {[]clienttesting.Action{metadata}, 1},
		"others are watched":    {[]clienttesting.Action{list(all), list(labelled), watch(labelled)}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			if got := unwatched(tc.requests); got.Len() != tc.want {
				t.Errorf("got %v, want %d", got.UnsortedList(), tc.want)
			}
		})
	}
}
