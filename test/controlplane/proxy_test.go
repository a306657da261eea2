package controlplane

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// proxied returns a proxy and the manager's client behind it.
func proxied(t *testing.T, name string) (*Proxy, kubernetes.Interface) {
	t.Helper()
	p, err := plane.NewProxy()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	path, err := p.Kubeconfig(name, ManagerUser)
	if err != nil {
		t.Fatal(err)
	}
	config, err := clientcmd.BuildConfigFromFlags("", path)
	if err != nil {
		t.Fatal(err)
	}
	return p, newClient(t, config)
}

func TestProxyHasAnAddressOfItsOwn(t *testing.T) {
	mark, err := plane.Audit().Mark()
	if err != nil {
		t.Fatal(err)
	}
	for n := range 2 {
		p, client := proxied(t, fmt.Sprintf("behind-proxy-%d", n))
		for range n + 1 {
			if _, err := client.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		events, err := plane.Audit().Since(mark, BySourceIP(p.SourceIP()))
		if err != nil {
			t.Fatal(err)
		}
		if len(events) != n+1 || !slices.Equal(events[0].SourceIPs, []string{p.SourceIP()}) {
			t.Errorf("%d requests from %s, want %d: %+v", len(events), p.SourceIP(), n+1, events)
		}
	}
}

func TestProxyHoldsBackWhatIsOnItsWay(t *testing.T) {
	p, client := proxied(t, "behind-cut-proxy")
	if _, err := client.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{}); err != nil {
		t.Fatal(err)
	}
	mark, err := plane.Audit().Mark()
	if err != nil {
		t.Fatal(err)
	}
	p.Cut()
	p.Cut()
	sent := make(chan error, 1)
	go func() {
		_, err := client.CoreV1().Events("default").Create(context.WithoutCancel(t.Context()), &corev1.Event{
			ObjectMeta:     metav1.ObjectMeta{GenerateName: "proxy-"},
			InvolvedObject: corev1.ObjectReference{Namespace: "default"},
		}, metav1.CreateOptions{})
		sent <- err
	}()
	for _, other := range []string{"on the same connection", "on a new one"} {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		_, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a request %s through a cut proxy: %v", other, err)
		}
		client = kubernetes.NewForConfigOrDie(configOf(t, "behind-cut-proxy"))
	}
	if events, err := plane.Audit().Since(mark, BySourceIP(p.SourceIP())); err != nil || len(events) > 0 {
		t.Errorf("%d requests arrived through a cut proxy (%v)", len(events), err)
	}
	p.Heal()
	p.Heal()
	if err := <-sent; err != nil {
		t.Errorf("a write that was held back: %v", err)
	}
}

func TestProxyLosesWhatIsNotSentAgain(t *testing.T) {
	p, _ := proxied(t, "behind-lossy-proxy")
	config := configOf(t, "behind-lossy-proxy")
	var conn net.Conn
	config.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		var err error
		conn, err = (&net.Dialer{}).DialContext(ctx, network, address)
		return conn, err
	}
	client := newClient(t, config)
	create := func(ctx context.Context) error {
		_, err := client.CoreV1().Events("default").Create(ctx, &corev1.Event{
			ObjectMeta:     metav1.ObjectMeta{GenerateName: "proxy-"},
			InvolvedObject: corev1.ObjectReference{Namespace: "default"},
		}, metav1.CreateOptions{})
		return err
	}
	if err := create(t.Context()); err != nil {
		t.Fatal(err)
	}
	mark, err := plane.Audit().Mark()
	if err != nil {
		t.Fatal(err)
	}
	p.Lose()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := create(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a request through a lossy proxy: %v", err)
	}
	if err := errors.Join(conn.(*net.TCPConn).SetLinger(0), conn.Close()); err != nil {
		t.Fatal(err)
	}
	p.Heal()
	client = newClient(t, configOf(t, "behind-lossy-proxy")) // the other one may not have noticed yet that its connection is closed
	if err := create(t.Context()); err != nil {
		t.Error(err)
	}
	if events, err := plane.Audit().Since(mark, BySourceIP(p.SourceIP())); err != nil || len(events) != 1 {
		t.Errorf("%d requests arrived (%v), want only the one that was sent later", len(events), err)
	}
}

func configOf(t *testing.T, name string) *rest.Config {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", plane.path(name+".conf"))
	if err != nil {
		t.Fatal(err)
	}
	return config
}

func TestClosedProxyLeavesNothing(t *testing.T) {
	p, client := proxied(t, "behind-closed-proxy")
	if _, err := client.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{}); err != nil {
		t.Fatal(err)
	}
	p.Cut() // what it holds back is dropped
	for range 2 {
		if err := p.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := client.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{}); err == nil {
		t.Error("a closed proxy still works")
	}
	if len(p.conns) > 0 {
		t.Errorf("%d connections are left", len(p.conns))
	}
}
