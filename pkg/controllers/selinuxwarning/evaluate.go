package selinuxwarning

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"kcmd.dev/pkg/controllers/kit/volumes"
)

// use is how a pod uses a volume.
type use struct {
	volume string // its unique name
	driver string // of CSI
	request
}

// evaluation is what a pod does with its volumes.
type evaluation struct {
	uses []use
	// ambiguous are the volumes, by their names in the pod, that it mounts with several labels.
	ambiguous []string
	// errs are why volumes, those among them, were not evaluated.
	errs []error
}

// evaluate finds the uses of the volumes of a pod. One that cannot be evaluated does not keep it from
// the others. Of volumes that are the same the last counts.
func evaluate(pod *corev1.Pod, resolve func(*corev1.Volume) (volumes.Spec, error)) evaluation {
	var e evaluation
	mounted, at := mountsOf(pod), map[string]int{}
	for i := range pod.Spec.Volumes {
		volume := &pod.Spec.Volumes[i]
		spec, err := resolve(volume)
		if err != nil {
			e.errs = append(e.errs, err)
			continue
		}
		labels, ok := mounted[volume.Name]
		if !ok {
			continue
		}
		if len(labels) > 1 {
			e.ambiguous = append(e.ambiguous, volume.Name)
			e.errs = append(e.errs, fmt.Errorf("multiple SELinux labels found: %s", texts(labels)))
			continue
		}
		name, err := volumes.UniqueName(spec)
		if err != nil {
			e.errs = append(e.errs, fmt.Errorf("failed to get unique volume name for volume %q: %w", spec.Name(), err))
		}
		if name == "" {
			continue // of a type that is never mounted with a label
		}
		u := use{volume: name, driver: driverOf(spec), request: request{policy: policyOf(pod)}}
		if len(labels) == 1 {
			u.label = labels[0]
		}
		if n, ok := at[name]; ok {
			e.uses[n] = u
			continue
		}
		at[name] = len(e.uses)
		e.uses = append(e.uses, u)
	}
	return e
}

func driverOf(spec volumes.Spec) string {
	if csi := spec.CSI(); csi != nil {
		return csi.Driver
	}
	return ""
}

func texts(labels []label) string {
	var all []string
	for _, l := range labels {
		all = append(all, l.text)
	}
	return strings.Join(all, ",")
}
