package reconcile

import "kcmd.dev/pkg/controller"

// Absent is controller.Absent. It is for reads after which something is deleted, detached or released:
//
//	node, err := c.Client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
//	switch {
//	case reconcile.Absent(err):
//		return c.release(name)
//	case err != nil:
//		return err // nothing is known
//	}
func Absent(err error) bool { return controller.Absent(err) }
