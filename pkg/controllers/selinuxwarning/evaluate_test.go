package selinuxwarning

import (
	"errors"
	"reflect"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/controllers/kit/volumes"
	"kcmd.dev/test/controllertest"
)

// level returns a security context of a container with a level.
func level(l string) *corev1.SecurityContext {
	return &corev1.SecurityContext{SELinuxOptions: &corev1.SELinuxOptions{Level: l}}
}

// container mounts volumes.
func container(context *corev1.SecurityContext, mounted ...string) corev1.Container {
	c := corev1.Container{SecurityContext: context}
	for _, name := range mounted {
		c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: name})
	}
	return c
}

func TestMounts(t *testing.T) {
	one, two := parse(":::s0:c1"), parse(":::s0:c2")
	none := &corev1.SecurityContext{Privileged: ptr.To(true)}
	for name, tc := range map[string]struct {
		ofPod      string
		init       []corev1.Container
		containers []corev1.Container
		ephemeral  *corev1.Container
		want       mounts
	}{
		"SEL-17: none":                          {containers: []corev1.Container{container(nil)}, want: mounts{}},
		"SEL-17, SEL-18: without options":       {containers: []corev1.Container{container(nil, "v")}, want: mounts{"v": nil}},
		"SEL-37: privileged":                    {containers: []corev1.Container{container(none, "v")}, want: mounts{"v": nil}},
		"SEL-17: of the pod":                    {ofPod: "s0:c1", containers: []corev1.Container{container(none, "v")}, want: mounts{"v": {one}}},
		"SEL-17: of the container":              {ofPod: "s0:c1", containers: []corev1.Container{container(level("s0:c2"), "v")}, want: mounts{"v": {two}}},
		"SEL-18: one has nothing":               {containers: []corev1.Container{container(nil, "v"), container(level("s0:c1"), "v")}, want: mounts{"v": {one}}},
		"SEL-18: one has none of the parts":     {containers: []corev1.Container{container(level(""), "v"), container(level("s0:c1"), "v")}, want: mounts{"v": {label{}, one}}},
		"SEL-18: the same twice":                {containers: []corev1.Container{container(level("s0:c1"), "v"), container(level("s0:c1"), "v")}, want: mounts{"v": {one}}},
		"SEL-17: init and ephemeral containers": {init: []corev1.Container{container(level("s0:c1"), "v")}, ephemeral: ptr.To(container(level("s0:c2"), "v", "w")), want: mounts{"v": {one, two}, "w": {two}}},
		"SEL-17: a device":                      {containers: []corev1.Container{{VolumeDevices: []corev1.VolumeDevice{{Name: "v"}}}}, want: mounts{}},
		"SEL-17: the options are not merged": {ofPod: "s0:c1", containers: []corev1.Container{
			container(&corev1.SecurityContext{SELinuxOptions: &corev1.SELinuxOptions{Type: "t"}}, "v"),
		}, want: mounts{"v": {parse("::t:")}}},
	} {
		t.Run(name, func(t *testing.T) {
			pod := &corev1.Pod{Spec: corev1.PodSpec{InitContainers: tc.init, Containers: tc.containers}}
			if tc.ofPod != "" {
				pod.Spec.SecurityContext = &corev1.PodSecurityContext{SELinuxOptions: &corev1.SELinuxOptions{Level: tc.ofPod}}
			}
			if tc.ephemeral != nil {
				pod.Spec.EphemeralContainers = []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon(*tc.ephemeral)}}
			}
			if got := mountsOf(pod); !reflect.DeepEqual(got, tc.want) {
				t.Errorf("got %+v, want %+v", got, tc.want)
			}
		})
	}
}

// specOf resolves volumes by their names.
func specOf(v *corev1.Volume) (volumes.Spec, error) {
	csi := func(handle string) (volumes.Spec, error) {
		pv := &corev1.PersistentVolume{}
		pv.Name, pv.Spec.CSI = v.Name, &corev1.CSIPersistentVolumeSource{Driver: "example.com", VolumeHandle: handle}
		return volumes.Spec{PV: pv}, nil
	}
	switch v.Name {
	case "one", "same":
		return csi("handle")
	case "two":
		return csi("second")
	case "unbound":
		return volumes.Spec{}, errors.New("unbound")
	}
	return volumes.Spec{Volume: v, Inline: true}, nil
}

func TestEvaluate(t *testing.T) {
	csi := func(v *corev1.Volume) { v.CSI = &corev1.CSIVolumeSource{Driver: "example.com"} }
	iscsi := func(v *corev1.Volume) {
		v.ISCSI = &corev1.ISCSIVolumeSource{TargetPortal: "10.0.0.1:3260", IQN: "iqn", Lun: 1}
	}
	recursive := func(p *corev1.Pod) {
		p.Spec.SecurityContext = &corev1.PodSecurityContext{SELinuxChangePolicy: ptr.To(corev1.SELinuxChangePolicyRecursive)}
	}
	with := func(name string, changes ...func(*corev1.Volume)) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			v := corev1.Volume{Name: name}
			for _, change := range changes {
				change(&v)
			}
			p.Spec.Volumes = append(p.Spec.Volumes, v)
		}
	}
	mounting := func(all ...corev1.Container) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.Spec.Containers = all }
	}
	const policy = corev1.SELinuxChangePolicyMountOption
	label := parse(":::s0:c1")
	one := use{"kubernetes.io/csi/example.com^handle", "example.com", request{label, policy}}
	two := use{"kubernetes.io/csi/example.com^second", "example.com", request{label, policy}}
	for name, tc := range map[string]struct {
		changes   []func(*corev1.Pod)
		uses      []use
		ambiguous []string
		errs      []string
	}{
		"SEL-16: no volumes": {},
		"SEL-17: not mounted": {
			changes: []func(*corev1.Pod){with("one")},
		},
		"SEL-16a: not mounted and not bound": {
			changes: []func(*corev1.Pod){with("unbound")}, errs: []string{"unbound"},
		},
		"SEL-16a, SEL-23: one is not bound, the others go on": {
			changes: []func(*corev1.Pod){with("one"), with("unbound"), with("two"), mounting(container(level("s0:c1"), "one", "unbound", "two"))},
			uses:    []use{one, two}, errs: []string{"unbound"},
		},
		"SEL-17: a mount of nothing": {
			changes: []func(*corev1.Pod){mounting(container(level("s0:c1"), "none"))},
		},
		"SEL-18: no label": {
			changes: []func(*corev1.Pod){with("one"), mounting(container(nil, "one"))},
			uses:    []use{{one.volume, one.driver, request{policy: policy}}},
		},
		"SEL-20: recursive": {
			changes: []func(*corev1.Pod){recursive, with("one"), mounting(container(level("s0:c1"), "one"))},
			uses:    []use{{one.volume, one.driver, request{label, corev1.SELinuxChangePolicyRecursive}}},
		},
		"SEL-18: several labels": {
			changes: []func(*corev1.Pod){with("one"), with("two"), mounting(container(level("s0:c1"), "one", "two"), container(level("s0:c2"), "one"))},
			uses:    []use{two}, ambiguous: []string{"one"}, errs: []string{"multiple SELinux labels found: :::s0:c1,:::s0:c2"},
		},
		"SEL-18, SEL-32: several labels of a recursive pod's directory": {
			changes:   []func(*corev1.Pod){recursive, with("dir"), mounting(container(level("s0:c1"), "dir"), container(level(""), "dir"))},
			ambiguous: []string{"dir"}, errs: []string{"multiple SELinux labels found: :::s0:c1,"},
		},
		"SEL-19, SEL-30: a directory": {
			changes: []func(*corev1.Pod){with("dir"), mounting(container(level("s0:c1"), "dir"))},
		},
		"SEL-21a: CSI in the pod": {
			changes: []func(*corev1.Pod){with("inline", csi), mounting(container(level("s0:c1"), "inline"))},
			errs:    []string{`failed to get unique volume name for volume "inline": a CSI volume that is defined in a pod has no handle`},
		},
		"SEL-19, SEL-21b: iSCSI in the pod": {
			changes: []func(*corev1.Pod){with("disk", iscsi), mounting(container(level("s0:c1"), "disk"))},
			uses:    []use{{"kubernetes.io/iscsi/10.0.0.1:3260:iqn:1", "", request{label, policy}}},
		},
		"SEL-54: the same volume twice": {
			changes: []func(*corev1.Pod){with("one"), with("same"), mounting(container(level("s0:c2"), "one"), container(level("s0:c1"), "same"))},
			uses:    []use{one},
		},
	} {
		t.Run(name, func(t *testing.T) {
			e := evaluate(controllertest.Pod("ns", "pod", tc.changes...), specOf)
			var errs []string
			for _, err := range e.errs {
				errs = append(errs, err.Error())
			}
			if !slices.Equal(e.uses, tc.uses) || !slices.Equal(e.ambiguous, tc.ambiguous) || !slices.Equal(errs, tc.errs) {
				t.Errorf("got %+v", e)
			}
		})
	}
}
