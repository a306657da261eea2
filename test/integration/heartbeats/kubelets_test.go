package heartbeats

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/ptr"

	"kcmd.dev/test/await"
	"kcmd.dev/test/integration/harness"
	"kcmd.dev/test/must"
)

// kubelets renew the Leases of nodes.
type kubelets struct {
	t     *testing.T
	every time.Duration

	mu     sync.Mutex
	leases map[string]*coordinationv1.Lease
	turns  [turns][]string // who renews at the same time
	joined int
	heard  map[string]time.Time // when each was renewed last
	silent map[string]bool
	lost   map[string]bool // those shown as Unknown
}

// turns is in how many parts kubelets renew, one after another.
const turns = 10

// inParallel is how many requests kubelets send at the same time.
const inParallel = 8

// play plays kubelets until the end of the test, which renew Leases as often as said.
func play(t *testing.T, every time.Duration) *kubelets {
	t.Helper()
	k := &kubelets{t: t, every: every, leases: map[string]*coordinationv1.Lease{}, heard: map[string]time.Time{}, silent: map[string]bool{}, lost: map[string]bool{}}
	list := must.Get(admin.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{}))(t)
	nodes, err := admin.CoreV1().Nodes().Watch(t.Context(), metav1.ListOptions{ResourceVersion: list.ResourceVersion})
	harness.Follow(t, nodes, err, func(_ watch.EventType, node *corev1.Node) error {
		k.mu.Lock()
		defer k.mu.Unlock()
		k.lost[node.Name] = isUnknown(node)
		return nil
	})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		k.run(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-done
		k.remove()
	})
	return k
}

// join creates nodes of a zone that are ready.
func (k *kubelets) join(zone string, names ...string) {
	k.t.Helper()
	each(k.t, names, func(name string) error {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelTopologyZone: zone}}}
		if _, err := admin.CoreV1().Nodes().Create(k.t.Context(), node, metav1.CreateOptions{}); err != nil {
			return err
		}
		if err := k.tryReport(name, corev1.ConditionTrue); err != nil {
			return err
		}
		lease := &coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Namespace: corev1.NamespaceNodeLease, Name: name},
			Spec: coordinationv1.LeaseSpec{
				HolderIdentity: &name, LeaseDurationSeconds: ptr.To(int32(40)), RenewTime: ptr.To(metav1.NowMicro()),
			},
		}
		lease, err := admin.CoordinationV1().Leases(lease.Namespace).Create(k.t.Context(), lease, metav1.CreateOptions{})
		if err != nil {
			return err
		}
		k.mu.Lock()
		defer k.mu.Unlock()
		k.leases[name], k.heard[name] = lease, clk.Now()
		k.turns[k.joined%turns] = append(k.turns[k.joined%turns], name)
		k.joined++
		return nil
	})
}

// report has the kubelet of a node report whether it is ready.
func (k *kubelets) report(name string, ready corev1.ConditionStatus) {
	k.t.Helper()
	must.Succeed(k.t, k.tryReport(name, ready))
}

func (k *kubelets) tryReport(name string, ready corev1.ConditionStatus) error {
	return await.Nil(k.t.Context(), time.Minute, func(ctx context.Context) error {
		node, err := getNode(ctx, name)
		if err != nil {
			return err
		}
		was := conditionOf(node, corev1.NodeReady)
		node.Status.Conditions = nil
		for is, status := range map[corev1.NodeConditionType]corev1.ConditionStatus{
			corev1.NodeReady: ready, corev1.NodeMemoryPressure: corev1.ConditionFalse,
			corev1.NodeDiskPressure: corev1.ConditionFalse, corev1.NodePIDPressure: corev1.ConditionFalse,
		} {
			c := corev1.NodeCondition{Type: is, Status: status, Reason: "Played", Message: "by a test", LastHeartbeatTime: metav1.Now(), LastTransitionTime: metav1.Now()}
			if was.LastHeartbeatTime.Equal(&c.LastHeartbeatTime) { // times are cut off to the second
				c.LastHeartbeatTime = metav1.NewTime(c.LastHeartbeatTime.Add(time.Second))
			}
			node.Status.Conditions = append(node.Status.Conditions, c)
		}
		_, err = admin.CoreV1().Nodes().UpdateStatus(ctx, node, metav1.UpdateOptions{})
		return err
	})
}

// fall has nodes fall silent, and returns when the last of them was heard.
func (k *kubelets) fall(names ...string) (last time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, name := range names {
		k.silent[name] = true
		if heard := k.heard[name]; heard.After(last) {
			last = heard
		}
	}
	return last
}

// rise has silent nodes come back.
func (k *kubelets) rise(names ...string) {
	k.t.Helper()
	k.mu.Lock()
	for _, name := range names {
		delete(k.silent, name)
	}
	k.mu.Unlock()
	each(k.t, names, func(name string) error { return k.tryReport(name, corev1.ConditionTrue) })
}

// settle waits until every node that is not silent has been heard within two renewals.
func (k *kubelets) settle() {
	k.t.Helper()
	await.Within(k.t, 5*time.Minute, "kubelets renew in time", func(context.Context) error {
		k.mu.Lock()
		defer k.mu.Unlock()
		for name, heard := range k.heard {
			if since := clk.Since(heard); !k.silent[name] && (since > 2*k.every || k.lost[name]) {
				return fmt.Errorf("%s was heard %v ago", name, since)
			}
		}
		return nil
	})
}

func (k *kubelets) run(ctx context.Context) {
	ticker := clk.NewTicker(k.every / turns)
	defer ticker.Stop()
	for turn := 0; ; turn++ {
		select {
		case <-ticker.C():
		case <-ctx.Done():
			return
		}
		k.mu.Lock()
		names := slices.Clone(k.turns[turn%turns])
		k.mu.Unlock()
		each(k.t, names, func(name string) error { return k.renew(ctx, name) })
	}
}

func (k *kubelets) renew(ctx context.Context, name string) error {
	k.mu.Lock()
	lease := k.leases[name].DeepCopy()
	silent, lost := k.silent[name], k.lost[name]
	k.mu.Unlock()
	if silent {
		return nil
	}
	if lost { // as a kubelet that sees that what is shown is not what it reports
		if err := k.tryReport(name, corev1.ConditionTrue); err != nil && ctx.Err() == nil {
			return err
		}
	}
	lease.Spec.RenewTime = ptr.To(metav1.NowMicro())
	renewed, err := admin.CoordinationV1().Leases(lease.Namespace).Update(ctx, lease, metav1.UpdateOptions{})
	if ctx.Err() != nil {
		return nil
	}
	if err != nil {
		return fmt.Errorf("renewing the Lease: %w", err)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.leases[name], k.heard[name] = renewed, clk.Now()
	return nil
}

// remove deletes what was created.
func (k *kubelets) remove() {
	each(k.t, slices.Collect(maps.Keys(k.leases)), func(name string) error {
		_ = admin.CoreV1().Nodes().Delete(context.Background(), name, metav1.DeleteOptions{})
		_ = admin.CoordinationV1().Leases(corev1.NamespaceNodeLease).Delete(context.Background(), name, metav1.DeleteOptions{})
		return nil
	})
}

// each calls do with each of the names, some at the same time. Its errors are those of the test.
func each(t *testing.T, names []string, do func(string) error) {
	t.Helper()
	var all sync.WaitGroup
	next := make(chan string)
	for range min(inParallel, len(names)) {
		all.Go(func() {
			for name := range next {
				if err := do(name); err != nil {
					t.Errorf("%s: %v", name, err)
				}
			}
		})
	}
	for _, name := range names {
		next <- name
	}
	close(next)
	all.Wait()
}
