package faultproxy

import (
	"errors"
	"net/http"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kcmd.dev/test/await"
)

func TestSeverEndsEverythingAtARequest(t *testing.T) {
	for name, c := range map[string]struct {
		moment   Moment
		carried  bool
		recorded int
	}{
		"before it is carried out": {Before, false, 0},
		"after it was carried out": {After, true, http.StatusCreated},
	} {
		t.Run(name, func(t *testing.T) {
			p := Start(t, plane)
			namespace := plane.Namespace(t)
			creates := Requests{Verbs: []string{"create"}, Resource: configMaps, Namespace: namespace}
			journal := p.Record(creates)
			second := creates
			second.Nth = 2
			fault := p.Sever(second, c.moment)
			k := client(t, p).CoreV1().ConfigMaps(namespace)
			w, err := k.Watch(t.Context(), metav1.ListOptions{})
			if err != nil {
				t.Fatal(err)
			}
			defer w.Stop()
			if _, err := k.Create(t.Context(), configMap("a"), metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
			if _, err := k.Create(t.Context(), configMap("b"), metav1.CreateOptions{}); err == nil {
				t.Error("the second request was answered")
			}
			<-fault.Hit()
			for range w.ResultChan() { // it ends
			}
			if _, err := k.Create(t.Context(), configMap("c"), metav1.CreateOptions{}); err == nil {
				t.Error("a request after it was answered")
			}
			await.True(t, "the second request had its effect", func() bool {
				_, err := plane.AdminClient().CoreV1().ConfigMaps(namespace).Get(t.Context(), "b", metav1.GetOptions{})
				return apierrors.IsNotFound(err) != c.carried
			})
			if e := journal.Entries(); len(e) < 2 || e[0].Name != "a" || e[0].Code != http.StatusCreated || e[1].Name != "b" || e[1].Code != c.recorded {
				t.Errorf("recorded: %+v", e)
			}
			fault.Lift()
			if _, err := k.Create(t.Context(), configMap("d"), metav1.CreateOptions{}); err != nil {
				t.Errorf("when it is lifted: %v", err)
			}
		})
	}
}

func TestOneRequestOfManyIsRefused(t *testing.T) {
	p := Start(t, plane)
	namespace := plane.Namespace(t)
	creates := Requests{Verbs: []string{"create"}, Resource: configMaps, Namespace: namespace, Nth: 2}
	var status *apierrors.StatusError
	if !errors.As(apierrors.NewInternalError(errors.New("no")), &status) {
		t.Fatal("no status")
	}
	fault := p.Refuse(creates, &status.ErrStatus)
	journal := p.Record(Requests{Namespace: namespace})
	k := client(t, p).CoreV1().ConfigMaps(namespace)
	for _, c := range []struct {
		name    string
		refused bool
	}{{"a", false}, {"b", true}, {"b", false}} {
		if _, err := k.Create(t.Context(), configMap(c.name), metav1.CreateOptions{}); (err != nil) != c.refused {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	<-journal.Arrived(3)
	if n := fault.Hits(); n != 1 {
		t.Errorf("%d requests were refused", n)
	}
	if e := journal.Entries(); e[1].Code != http.StatusInternalServerError || e[2].Code != http.StatusCreated {
		t.Errorf("recorded: %+v", e)
	}
}
