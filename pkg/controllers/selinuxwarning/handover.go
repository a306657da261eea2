package selinuxwarning

import (
	"context"

	"k8s.io/apimachinery/pkg/types"

	"kcmd.dev/pkg/controller"
	"kcmd.dev/pkg/controllers/kit/pods"
	"kcmd.dev/pkg/controllers/kit/reconcile"
)

// handover is what an instance hands over: the uses it knew, as plain data.
type handover []known

type known struct {
	pod       types.NamespacedName
	uid       types.UID
	use       use
	mountable bool
}

// takeOver continues with the uses that the predecessor knew, so that the conflicts among them are
// not reported again. Uses of pods that are gone or have finished since are dropped before any pod is
// compared with them.
func (c *warner) takeOver(context.Context) error {
	left, _ := controller.TakeOver(c.Env, c)
	for _, k := range left {
		pod, found, err := reconcile.Found(c.pods.Pods(k.pod.Namespace).Get(k.pod.Name))
		if err != nil {
			return err
		}
		if found && pod.UID == k.uid && !pods.IsTerminal(pod) {
			if _, err := c.uses.set(k.pod, k.uid, k.use, func() (bool, error) { return k.mountable, nil }); err != nil {
				return err
			}
		}
	}
	return nil
}

// HandOver implements controller.HandsOver.
func (c *warner) HandOver() handover { return c.uses.all() }

func (u *uses) all() handover {
	u.mu.Lock()
	defer u.mu.Unlock()
	var all handover
	for key, p := range u.pods {
		for name, request := range p.requests {
			v := u.volumes[name]
			all = append(all, known{key, p.uid, use{name, v.driver, request}, v.mountable})
		}
	}
	return all
}
