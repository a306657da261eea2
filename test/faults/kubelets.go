package faults

import (
	"context"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

// renewal is how often kubelets renew the Leases of their nodes.
const renewal = 200 * time.Millisecond

// Kubelets plays the kubelets of all nodes: they renew Leases, and report that their nodes are ready when that is
// not shown.
func Kubelets(ctx context.Context, w *world) error {
	leases := w.admin.CoordinationV1().Leases(corev1.NamespaceNodeLease)
	renewed := map[string]bool{}
	defer func() {
		for name := range renewed {
			_ = leases.Delete(context.WithoutCancel(ctx), name, metav1.DeleteOptions{})
		}
	}()
	return forEachNode(ctx, w, renewal, func(node *corev1.Node) error {
		if _, silent := w.silent.Load(node.Name); silent {
			return nil
		}
		renewed[node.Name] = true
		return report(ctx, w, node)
	})
}

// forEachNode calls a function for each node in every period, until the context ends. Nodes that are deleted
// meanwhile are ignored.
func forEachNode(ctx context.Context, w *world, period time.Duration, do func(*corev1.Node) error) error {
	ticker := time.NewTicker(period)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return nil
		}
		list, err := w.admin.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		for i := range list.Items {
			if err := do(&list.Items[i]); err != nil && !apierrors.IsNotFound(err) {
				return fmt.Errorf("kubelet of %s: %w", list.Items[i].Name, err)
			}
		}
	}
}

// report is what a kubelet does now and then.
func report(ctx context.Context, w *world, node *corev1.Node) error {
	leases := w.admin.CoordinationV1().Leases(corev1.NamespaceNodeLease)
	patch := fmt.Sprintf(`{"spec":{"renewTime":%q}}`, time.Now().UTC().Format(metav1.RFC3339Micro))
	_, err := leases.Patch(ctx, node.Name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	if apierrors.IsNotFound(err) {
		_, err = leases.Create(ctx, &coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Name: node.Name},
			Spec:       coordinationv1.LeaseSpec{HolderIdentity: &node.Name, LeaseDurationSeconds: ptr.To[int32](40), RenewTime: ptr.To(metav1.NowMicro())},
		}, metav1.CreateOptions{})
	}
	if err != nil {
		return err
	}
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue {
			return nil
		}
	}
	now := time.Now().UTC().Format(time.RFC3339)
	status := ""
	for _, c := range []struct {
		is     corev1.NodeConditionType
		status corev1.ConditionStatus
	}{
		{corev1.NodeReady, corev1.ConditionTrue}, {corev1.NodeMemoryPressure, corev1.ConditionFalse},
		{corev1.NodeDiskPressure, corev1.ConditionFalse}, {corev1.NodePIDPressure, corev1.ConditionFalse},
	} {
		if status != "" {
			status += ","
		}
		status += fmt.Sprintf(`{"type":%q,"status":%q,"reason":"Played","message":"by a scenario","lastHeartbeatTime":%q,"lastTransitionTime":%q}`, c.is, c.status, now, now)
	}
	_, err = w.admin.CoreV1().Nodes().Patch(ctx, node.Name, types.MergePatchType, []byte(`{"status":{"conditions":[`+status+`]}}`), metav1.PatchOptions{}, "status")
	return err
}

// removal is how often kubelets look for pods that should be gone.
const removal = 3 * time.Second

// removePods removes pods that have been leaving for longer than removal, until the context ends. A kubelet tries again
// until a pod is gone; the simulated ones try once, and a request of a manager that is killed may end between the two
// writes by which the API server deletes a pod without grace.
func removePods(ctx context.Context, w *world) {
	ticker := time.NewTicker(removal)
	defer ticker.Stop()
	pods := w.admin.CoreV1().Pods(w.namespace)
	for {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
		list, err := pods.List(ctx, metav1.ListOptions{})
		if err != nil {
			continue
		}
		for i := range list.Items {
			if at := list.Items[i].DeletionTimestamp; at != nil && time.Since(at.Time) > removal {
				_ = pods.Delete(ctx, list.Items[i].Name, metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0), Preconditions: metav1.NewUIDPreconditions(string(list.Items[i].UID))})
			}
		}
	}
}

// Silence has the kubelet of a node report nothing.
func Silence(node string) Action {
	return func(_ context.Context, w *world) error {
		w.silent.Store(node, true)
		return nil
	}
}

// Revive has it report again.
func Revive(node string) Action {
	return func(_ context.Context, w *world) error {
		w.silent.Delete(node)
		return nil
	}
}

// reporting is how often kubelets report the status of their nodes.
const reporting = time.Second

// Reports plays what the kubelets of all nodes report now and then: that nothing has changed.
func Reports(ctx context.Context, w *world) error {
	return forEachNode(ctx, w, reporting, func(node *corev1.Node) error {
		patch := fmt.Sprintf(`{"status":{"conditions":[{"type":"Ready","lastHeartbeatTime":%q}]}}`, time.Now().UTC().Format(time.RFC3339))
		_, err := w.admin.CoreV1().Nodes().Patch(ctx, node.Name, types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{}, "status")
		return err
	})
}
