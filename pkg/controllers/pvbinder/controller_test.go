package pvbinder

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	pkgconfig "kcmd.dev/pkg/config"
	"kcmd.dev/pkg/config/fromflags"
	"kcmd.dev/pkg/config/v1beta1"
	"kcmd.dev/test/controllertest"
	"kcmd.dev/test/must"
)

// Pins PVB-1, PVB-2, PVB-14, PVB-15, PVB-16, PVB-17, PVB-18, PVB-19, PVB-20, PVB-21, PVB-22 and PVB-23.
func TestDescriptor(t *testing.T) {
	d, cfg := Descriptor(), v1beta1.NewDefault()
	if on, reason := d.Enabled(cfg); !on || d.EventSource != "persistentvolume-controller" || d.ServiceAccount != "persistent-volume-binder" || d.Aliases[0] != "persistentvolume-binder" {
		t.Errorf("enabled %v %s, %+v", on, reason, d)
	}
	want := config{
		syncPeriod: 15 * time.Second, provisions: true, vac: true,
		nfsRecycler:      recyclerConfig{minimum: 5 * time.Minute, increment: 30 * time.Second},
		hostPathRecycler: recyclerConfig{minimum: time.Minute, increment: 30 * time.Second},
	}
	if got := d.Value(cfg); got != want {
		t.Errorf("the default is %+v", got)
	}
	if got := cfg.Volumes.FlexVolumePluginDirectory; got != "/usr/libexec/kubernetes/kubelet-plugins/volume/exec/" {
		t.Errorf("the default directory of FlexVolume plugins is %s", got)
	}
	if cfg.Volumes.FlexVolumePluginDirectory = "/flex"; d.Value(cfg) != want {
		t.Errorf("the directory of FlexVolume plugins counts: %+v", d.Value(cfg))
	}
	b := &cfg.Controllers.PersistentVolumeBinder
	*b.HostPathProvisioning = true
	b.Recycler.NFS.PodTemplateFile, b.Recycler.HostPath.PodTemplateFile = "/nfs", "/hostpath"
	value, _ := d.Value(cfg).(config)
	if !value.hostPath || value.nfsRecycler.template != "/nfs" || value.hostPathRecycler.template != "/hostpath" {
		t.Errorf("got %+v", value)
	}
	if *b.DynamicProvisioning = false; configOf(cfg).hostPath {
		t.Error("hostPath volumes are provisioned although provisioning is off")
	}
}

// Upstream has a field for the number of attempts of a recycler, and no flag. It has no effect. Pins PVB-24 and PVB-25.
func TestTheAttemptsOfARecyclerAreNoSetting(t *testing.T) {
	for _, fields := range []string{"", "MaximumRetry: 7", "MaximumRetry: -1"} {
		document, err := pkgconfig.Load("f.yaml", []byte("apiVersion: kubecontrollermanager.config.k8s.io/v1alpha1\n"+
			"kind: KubeControllerManagerConfiguration\nPersistentVolumeBinderController: {VolumeConfiguration: "+
			"{PersistentVolumeRecyclerConfiguration: {"+fields+"}}}\n"))
		must.Succeed(t, err)
		if got, want := configOf(document.Config), configOf(v1beta1.NewDefault()); got != want {
			t.Errorf("%q: got %+v, want %+v", fields, got, want)
		}
	}
	_, err := fromflags.Convert([]string{"--pv-recycler-maximum-retry=7"})
	if err == nil || !strings.HasPrefix(err.Error(), "unknown flag: --pv-recycler-maximum-retry") {
		t.Errorf("the flag is answered with %v", err)
	}
}

// Pins PVB-43, PVB-93, PVB-111 and PVB-126.
func TestQueues(t *testing.T) {
	c := must.Get(newController(controllertest.New(t).Env, defaults()))(t)
	if s := c.claimLoop.Inspect(); s.Queue != "claims" || s.Workers != 5 {
		t.Errorf("claims: %+v", s)
	}
	if s := c.volumeLoop.Inspect(); s.Queue != "volumes" || s.Workers != 1 {
		t.Errorf("volumes: %+v", s)
	}
}

// A running controller binds, releases and notices what is lost, by events alone.
//
// Pins PVB-5, PVB-26, PVB-27, PVB-32, PVB-47 and PVB-64.
func TestRun(t *testing.T) {
	env := controllertest.New(t, aVolume("volume"), aClaim())
	env.CompleteWrites("persistentvolumes", "persistentvolumeclaims")
	env.CheckWrites("persistentvolumes", "persistentvolumeclaims")
	c := must.Get(newController(env.Env, defaults()))(t)
	env.Start(t)
	env.Run(t, c)
	claimIs := func(phase corev1.PersistentVolumeClaimPhase) {
		t.Helper()
		controllertest.Eventually(t, "the claim is "+string(phase), func() bool {
			return controllertest.MustStored[*pvc](t, env, namespace, "claim").Status.Phase == phase
		})
	}
	claimIs(corev1.ClaimBound)
	bound := controllertest.MustStored[*pv](t, env, "", "volume")
	env.Remove(t, bound)
	claimIs(corev1.ClaimLost)
	env.Store(t, bound)
	env.EventuallyAsTimePasses(t, "the claim is Bound again", 15*time.Second, func() bool {
		return controllertest.MustStored[*pvc](t, env, namespace, "claim").Status.Phase == corev1.ClaimBound
	})
	env.Remove(t, controllertest.MustStored[*pvc](t, env, namespace, "claim"))
	controllertest.Eventually(t, "the volume is Released", func() bool {
		return controllertest.MustStored[*pv](t, env, "", "volume").Status.Phase == corev1.VolumeReleased
	})
}

// What an event does not tell is found by the periodic pass. Pins PVB-44 and PVB-106.
func TestAClassThatIsCreatedLater(t *testing.T) {
	env := controllertest.New(t, aClaim(claimClass(nil)))
	env.CompleteWrites("persistentvolumeclaims")
	env.CheckWrites("persistentvolumeclaims")
	c := must.Get(newController(env.Env, defaults()))(t)
	env.Start(t)
	env.Run(t, c)
	controllertest.Eventually(t, "it was looked at", func() bool { return c.claimLoop.Inspect().Reconciled > 0 })
	if _, err := env.Client.StorageV1().StorageClasses().Create(t.Context(), aClass("gold", "x", markedDefault), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	env.EventuallyAsTimePasses(t, "it has the class", 15*time.Second, func() bool {
		return controllertest.MustStored[*pvc](t, env, namespace, "claim").Spec.StorageClassName != nil
	})
}

// A claim that is missing in a paused namespace may be about to be restored.
func TestAVolumeIsNotReleasedWhileTheNamespaceOfItsClaimIsPaused(t *testing.T) {
	env := controllertest.New(t, aVolume("volume"), aClaim())
	env.CompleteWrites("persistentvolumes", "persistentvolumeclaims")
	c := must.Get(newController(env.Env, defaults()))(t)
	env.Start(t)
	env.Run(t, c)
	phase := func() corev1.PersistentVolumePhase {
		return controllertest.MustStored[*pv](t, env, "", "volume").Status.Phase
	}
	controllertest.Eventually(t, "the volume is Bound", func() bool {
		return phase() == corev1.VolumeBound && controllertest.MustStored[*pvc](t, env, namespace, "claim").Status.Phase == corev1.ClaimBound
	})
	env.AwaitIdle(t)
	env.Pauses.Set([]string{namespace})
	env.Remove(t, controllertest.MustStored[*pvc](t, env, namespace, "claim"))
	controllertest.Eventually(t, "the volume is held back", func() bool { return c.volumeLoop.Inspect().Held == 1 })
	if got := phase(); got != corev1.VolumeBound {
		t.Errorf("the volume is %s", got)
	}
	env.Pauses.Set(nil)
	controllertest.Eventually(t, "the volume is Released", func() bool { return phase() == corev1.VolumeReleased })
}
