package faultproxy

import (
	"fmt"
	"slices"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"

	"kcmd.dev/test/await"
)

// listed returns the names a list tells, and its resource version.
func listed(t *testing.T, c kubernetes.Interface, namespace string, o metav1.ListOptions) (names []string, version string) {
	t.Helper()
	for {
		list, err := c.CoreV1().ConfigMaps(namespace).List(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		for _, one := range list.Items {
			names = append(names, one.Name)
		}
		if list.Continue == "" {
			return names, list.ResourceVersion
		}
		o.Continue, o.ResourceVersion = list.Continue, ""
	}
}

func TestListsAnswerFromThePast(t *testing.T) {
	for name, contentType := range contentTypes {
		t.Run(name, func(t *testing.T) {
			p := Start(t, plane)
			namespace := plane.Namespace(t)
			stale := client(t, p, withContentType(contentType), withAgent("stale"))
			create(t, namespace, "a", "b", "c")
			fault := p.AnswerFromPast(t.Context(), Requests{Client: "stale", Resource: configMaps})
			remove(t, namespace, "a")
			create(t, namespace, "d")

			for _, o := range []metav1.ListOptions{{}, {ResourceVersion: "0"}, {Limit: 1}, {FieldSelector: "metadata.name!=x"}} {
				names, version := listed(t, stale, namespace, o)
				if !slices.Equal(names, []string{"a", "b", "c"}) {
					t.Errorf("with %+v: %v", o, names)
				}
				w, err := stale.CoreV1().ConfigMaps(namespace).Watch(t.Context(), metav1.ListOptions{ResourceVersion: version})
				if err != nil {
					t.Fatal(err)
				}
				expect(t, w, "DELETED a", "ADDED d")
				w.Stop()
			}
			if names, _ := listed(t, client(t, p), namespace, metav1.ListOptions{}); !slices.Equal(names, []string{"b", "c", "d"}) {
				t.Errorf("another client got %v", names)
			}
			if _, err := stale.CoreV1().ConfigMaps(namespace).Get(t.Context(), "a", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
				t.Errorf("a read of one object: %v", err)
			}
			fault.Lift()
			if names, _ := listed(t, stale, namespace, metav1.ListOptions{}); !slices.Equal(names, []string{"b", "c", "d"}) {
				t.Errorf("afterwards: %v", names)
			}
		})
	}
}

func TestReadsOfOneObjectAnswerFromThePastIfAsked(t *testing.T) {
	for name, contentType := range contentTypes {
		t.Run(name, func(t *testing.T) {
			p := Start(t, plane)
			namespace := plane.Namespace(t)
			c := client(t, p, withContentType(contentType))
			create(t, namespace, "a")
			p.AnswerFromPast(t.Context(), Requests{Verbs: []string{"get"}, Resource: configMaps})
			remove(t, namespace, "a")
			create(t, namespace, "b")
			got, err := c.CoreV1().ConfigMaps(namespace).Get(t.Context(), "a", metav1.GetOptions{})
			if err != nil || got.Name != "a" || got.UID == "" {
				t.Errorf("got %v (%v)", got, err)
			}
			if _, err := c.CoreV1().ConfigMaps(namespace).Get(t.Context(), "b", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
				t.Errorf("got %v", err)
			}
			if names, _ := listed(t, c, namespace, metav1.ListOptions{}); !slices.Equal(names, []string{"b"}) {
				t.Errorf("a list told %v", names)
			}
			config, err := p.Config(user, admins)
			if err != nil {
				t.Fatal(err)
			}
			partial, err := metadata.NewForConfig(config)
			if err != nil {
				t.Fatal(err)
			}
			resource := metav1.SchemeGroupVersion.WithResource("configmaps")
			resource.Group = ""
			only, err := partial.Resource(resource).Namespace(namespace).Get(t.Context(), "a", metav1.GetOptions{})
			if err != nil || only.UID != got.UID {
				t.Errorf("got %v (%v)", only, err)
			}
		})
	}
}

func TestOnlyCachesAnswerFromThePastIfAsked(t *testing.T) {
	p := Start(t, plane)
	namespace := plane.Namespace(t)
	c := client(t, p)
	create(t, namespace, "a")
	p.AnswerFromPast(t.Context(), Requests{Resource: configMaps, FromCache: true})
	_, then := listed(t, plane.AdminClient(), namespace, metav1.ListOptions{})
	remove(t, namespace, "a")
	_, now := listed(t, plane.AdminClient(), namespace, metav1.ListOptions{})
	for _, test := range []struct {
		version string
		want    int
	}{{"", 0}, {"0", 1}, {then, 1}, {now, 0}} {
		if names, _ := listed(t, c, namespace, metav1.ListOptions{ResourceVersion: test.version}); len(names) != test.want {
			t.Errorf("a list not older than %q told %v", test.version, names)
		}
	}
}

func TestInformerStartsInThePast(t *testing.T) {
	for _, live := range []bool{true, false} {
		t.Run(fmt.Sprintf("FromCache=%v", !live), func(t *testing.T) {
			p := Start(t, plane)
			namespace := plane.Namespace(t)
			create(t, namespace, "a")
			past := p.AnswerFromPast(t.Context(), Requests{Resource: configMaps, FromCache: !live})
			held := p.HoldEvents(Requests{Resource: configMaps})
			remove(t, namespace, "a")
			create(t, namespace, "b")
			names, synced := informer(t, client(t, p), namespace)
			await.True(t, "the informer has synced", synced)
			await.True(t, "the events have come", func() bool { return held.Hits() == 2 })
			if got := names(); !slices.Equal(got, []string{"a"}) {
				t.Errorf("the informer knows %v", got)
			}
			held.Lift()
			await.True(t, "the informer knows b only", func() bool { return slices.Equal(names(), []string{"b"}) })
			past.Lift()
		})
	}
}
