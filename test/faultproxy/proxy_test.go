package faultproxy

import (
	"context"
	"errors"
	"net"
	"net/url"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"kcmd.dev/test/await"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

func TestPausedProxyAnswersNothing(t *testing.T) {
	p := Start(t, plane)
	namespace := plane.Namespace(t)
	c := client(t, p)
	w := watching(t, c, namespace)
	pause := p.Pause()
	create(t, namespace, "a")
	for name, c := range map[string]kubernetes.Interface{"an open connection": c, "a new connection": client(t, p)} {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		_, err := c.CoreV1().ConfigMaps(namespace).Create(ctx, configMap("late"), metav1.CreateOptions{})
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("on %s: %v", name, err)
		}
	}
	expectNothing(t, w)
	pause.Lift()
	expect(t, w, "ADDED a")
	if _, err := c.CoreV1().ConfigMaps(namespace).Get(t.Context(), "a", metav1.GetOptions{}); err != nil {
		t.Errorf("afterwards: %v", err)
	}
}

func TestCutConnectionsAreReplaced(t *testing.T) {
	p := Start(t, plane)
	namespace := plane.Namespace(t)
	c := client(t, p)
	w := watching(t, c, namespace)
	held := p.HoldRequests(Requests{Verbs: []string{"get"}})
	done := make(chan error, 1)
	go func() {
		_, err := c.CoreV1().ConfigMaps(namespace).Get(context.WithoutCancel(t.Context()), "a", metav1.GetOptions{})
		done <- err
	}()
	await.True(t, "the request has come", func() bool { return held.Hits() > 0 })
	p.Cut()
	select {
	case _, open := <-w.ResultChan():
		if open {
			t.Error("the watch has an event")
		}
	case <-time.After(10 * time.Second):
		t.Error("the watch goes on")
	}
	held.Lift()
	if err := <-done; err == nil {
		t.Error("the request was answered")
	}
	if _, err := c.CoreV1().ConfigMaps(namespace).List(t.Context(), metav1.ListOptions{}); err != nil {
		t.Errorf("on a new connection: %v", err)
	}
}

func TestClosedProxyLeavesNothing(t *testing.T) {
	namespace := plane.Namespace(t)
	ignore := goleak.IgnoreCurrent()
	p, err := New(plane)
	if err != nil {
		t.Fatal(err)
	}
	c := client(t, p)
	w := watching(t, c, namespace)
	p.HoldEvents(Requests{})
	held := p.HoldRequests(Requests{Verbs: []string{"get"}})
	done := make(chan error, 1)
	go func() {
		_, err := c.CoreV1().ConfigMaps(namespace).Get(context.WithoutCancel(t.Context()), "a", metav1.GetOptions{})
		done <- err
	}()
	await.True(t, "the request has come", func() bool { return held.Hits() > 0 })
	p.Pause()
	for range 2 {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	}
	if err := <-done; err == nil {
		t.Error("a closed proxy answers")
	}
	w.Stop()
	if len(p.clients.open)+len(p.servers.open)+p.inWork() > 0 {
		t.Errorf("%d and %d connections are open for %d requests", len(p.clients.open), len(p.servers.open), p.inWork())
	}
	goleak.VerifyNone(t, ignore)
}

func TestConnectionEndsWithoutAPIServer(t *testing.T) {
	p := Start(t, plane)
	p.target = &url.URL{Scheme: "https", Host: "127.0.0.1:1"} // nobody listens
	var opened atomic.Int32
	c := client(t, p, func(c *rest.Config) {
		c.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
			opened.Add(1)
			return (&net.Dialer{}).DialContext(ctx, network, address)
		}
	})
	for n := range int32(2) {
		_, err := c.CoreV1().ConfigMaps("default").Create(t.Context(), configMap("a"), metav1.CreateOptions{})
		if err == nil || errors.As(err, new(apierrors.APIStatus)) {
			t.Errorf("the answer is %v", err)
		}
		if got := opened.Load(); got <= n {
			t.Errorf("%d connections for %d requests", got, n+1)
		}
	}
}
