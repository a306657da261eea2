package attachdetach

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	storagelisters "k8s.io/client-go/listers/storage/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/controllers/kit/volumes"
	"kcmd.dev/test/controllertest"
)

func TestIdentify(t *testing.T) {
	iscsi := func(s *corev1.PersistentVolumeSource) {
		s.ISCSI = &corev1.ISCSIPersistentVolumeSource{TargetPortal: "10.0.0.1:3260", IQN: "iqn.2026-01.com.example:disk", Lun: 3}
	}
	fc := func(wwns []string, lun *int32, wwids ...string) func(*corev1.PersistentVolumeSource) {
		return func(s *corev1.PersistentVolumeSource) {
			s.FC = &corev1.FCVolumeSource{TargetWWNs: wwns, Lun: lun, WWIDs: wwids}
		}
	}
	csi := func(s *corev1.PersistentVolumeSource) {
		s.CSI = &corev1.CSIPersistentVolumeSource{Driver: driver, VolumeHandle: "handle"}
	}
	for name, tc := range map[string]struct {
		pv      func(*corev1.PersistentVolumeSource)
		volume  *corev1.VolumeSource
		drivers []any
		broken  bool
		want    string
		label   string
		err     bool
	}{
		"ATT-6: CSI without CSIDriver":              {pv: csi, want: "kubernetes.io/csi/csi.example.com^handle", label: "kubernetes.io/csi:csi.example.com"},
		"ATT-6: CSI that is attached":               {pv: csi, drivers: []any{aDriver(true)}, want: "kubernetes.io/csi/csi.example.com^handle", label: "kubernetes.io/csi:csi.example.com"},
		"ATT-6: CSI that is not attached":           {pv: csi, drivers: []any{aDriver(false)}, label: "kubernetes.io/csi:csi.example.com"},
		"ATT-6: CSI, and CSIDrivers cannot be read": {pv: csi, broken: true, label: "kubernetes.io/csi:csi.example.com", err: true},
		"ATT-6, ATT-51: CSI in the pod": {
			volume: &corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{Driver: driver}}, label: "kubernetes.io/csi:csi.example.com",
		},
		"ATT-7: iSCSI": {pv: iscsi, want: "kubernetes.io/iscsi/10.0.0.1:3260:iqn.2026-01.com.example:disk:3", label: "kubernetes.io/iscsi"},
		"ATT-7: iSCSI in the pod": {
			volume: &corev1.VolumeSource{ISCSI: &corev1.ISCSIVolumeSource{TargetPortal: "portal", IQN: "iqn"}},
			want:   "kubernetes.io/iscsi/portal:iqn:0", label: "kubernetes.io/iscsi",
		},
		"ATT-8: FC by target":         {pv: fc([]string{"a", "b"}, ptr.To[int32](1)), want: "kubernetes.io/fc/[a b]:1", label: "kubernetes.io/fc"},
		"ATT-8: FC by id":             {pv: fc(nil, nil, "c", "d"), want: "kubernetes.io/fc/[c d]", label: "kubernetes.io/fc"},
		"ATT-8: FC by id without lun": {pv: fc([]string{"a"}, nil, "c"), want: "kubernetes.io/fc/[c]", label: "kubernetes.io/fc"},
		"ATT-8: FC by neither":        {pv: fc([]string{"a"}, nil), label: "kubernetes.io/fc", err: true},
		"ATT-8: FC in the pod": {
			volume: &corev1.VolumeSource{FC: &corev1.FCVolumeSource{WWIDs: []string{"c"}}}, want: "kubernetes.io/fc/[c]", label: "kubernetes.io/fc",
		},
		"ATT-10: NFS":                          {pv: func(s *corev1.PersistentVolumeSource) { s.NFS = &corev1.NFSVolumeSource{} }},
		"ATT-10: emptyDir":                     {volume: &corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
		"ATT-9: FlexVolume without its driver": {volume: &corev1.VolumeSource{FlexVolume: &corev1.FlexVolumeSource{Driver: "k8s/none"}}},
	} {
		t.Run(name, func(t *testing.T) {
			drivers := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})
			for _, d := range tc.drivers {
				_ = drivers.Add(d)
			}
			p := plugins{storagelisters.NewCSIDriverLister(drivers), newFlexDrivers(t.TempDir())}
			if tc.broken {
				p.drivers = brokenLister{}
			}
			spec := volumes.Spec{Volume: &corev1.Volume{Name: "data"}}
			if tc.volume != nil {
				spec.Volume.VolumeSource = *tc.volume
			} else {
				spec = specOf(aVolume("pv"))
				spec.PV.Spec.PersistentVolumeSource = corev1.PersistentVolumeSource{}
				tc.pv(&spec.PV.Spec.PersistentVolumeSource)
			}
			what, ok, err := p.identify(t.Context(), spec)
			if got := strings.TrimSuffix(string(what.name()), "/"); ok != (tc.want != "") || ok && got != tc.want || (err != nil) != tc.err {
				t.Errorf("%q, %v, %v; want %q", got, ok, err, tc.want)
			}
			if _, label, _ := p.find(t.Context(), spec); label != tc.label {
				t.Errorf("label is %q, want %q", label, tc.label)
			}
		})
	}
}

// brokenLister fails.
type brokenLister struct{ storagelisters.CSIDriverLister }

func (brokenLister) Get(string) (*storagev1.CSIDriver, error) { return nil, errors.New("no") }

// iSCSI and FC are attached without anybody being asked.
//
// Pins ATT-7, ATT-8, ATT-28b and ATT-39j.
func TestVolumesThatNeedNoAttacher(t *testing.T) {
	s := newStage(t, aNode("a"))
	pod := aPod("pod", "a")
	pod.Spec.Volumes = []corev1.Volume{
		{Name: "one", VolumeSource: corev1.VolumeSource{ISCSI: &corev1.ISCSIVolumeSource{TargetPortal: "portal", IQN: "iqn"}}},
		{Name: "two", VolumeSource: corev1.VolumeSource{FC: &corev1.FCVolumeSource{WWIDs: []string{"c"}}}},
	}
	s.Store(t, pod)
	s.pass(soon)
	s.sent(reported + "a")
	s.is("[c]@a wanted attached listed", "portal:iqn:0@a wanted attached listed")
	s.c.verify(s.Context(), s.Context())
	controllertest.Change(t, s.Env, "", "a", uses())
	s.Remove(t, pod)
	s.pass(soon)
	s.is()
	s.shows("a")
}

// A driver that becomes one which attaches nothing while its volume is about to be attached.
//
// Pins ATT-40e, ATT-53.
func TestADriverThatAttachesNothingAnyMore(t *testing.T) {
	s := newStage(t, aNode("a"), aVolume("v", once), aClaim("v"))
	s.show()
	what := migrated(specOf(aVolume("v", once)))
	at := place{volumeName("v"), "a"}
	s.c.world.want(at, what, podRef{UID: "pod"})
	s.Cache(t, aDriver(false))
	s.hide(&storagev1.CSIDriver{})
	s.placeQueue.Add(at)
	s.run()
	s.is("v@a wanted")
	s.sent()
	s.WantEvents(t, `Warning FailedAttachVolume AttachVolume.FindAttachablePluginBySpec failed for volume "v" `)
	if got := s.Series(t, "storage_operation_duration_seconds"); !slices.Equal(got, []string{
		"migrated=false operation_name=volume_attach status=fail-unknown volume_plugin=UnknownAttachableVolumePlugin:csi.example.com 1",
	}) {
		t.Errorf("operations are %q", got)
	}
}

// flexScript is a driver that writes down how it was called, and answers by what is in the file of the command.
const flexScript = `#!/bin/sh
echo "$@" >> "$(dirname "$0")/calls"
cat "$(dirname "$0")/$1" 2>/dev/null || echo '{"status": "Not supported"}'
`

// Pins ATT-9, ATT-14, ATT-42, ATT-47 and ATT-85.
func TestFlexVolumes(t *testing.T) {
	s := newStage(t, aNode("a"))
	directory := filepath.Join(s.c.flexDirectory, "k8s~disk")
	answer := func(command, text string) {
		if err := os.WriteFile(filepath.Join(directory, command), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	calls := func() []string {
		text, _ := os.ReadFile(filepath.Join(directory, "calls"))
		_ = os.Remove(filepath.Join(directory, "calls"))
		return strings.Split(strings.TrimSpace(string(text)), "\n")
	}
	pod := aPod("pod", "a")
	pod.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
		FlexVolume: &corev1.FlexVolumeSource{Driver: "k8s/disk", FSType: "ext4", ReadOnly: true, Options: map[string]string{"id": "7"}},
	}}}
	s.Store(t, pod)
	s.pass(soon)
	s.is() // the driver is not installed
	if err := os.MkdirAll(directory, 0o755); err != nil {
		t.Fatal(err)
	}
	answer("init", `{"status": "Success", "capabilities": {"attach": true}}`)
	answer("attach", `{"status": "Failure", "message": "broken"}`)
	if err := os.WriteFile(filepath.Join(directory, "disk"), []byte(flexScript), 0o755); err != nil { //nolint:gosec // it is to be executed
		t.Fatal(err)
	}
	s.c.retry(s.Context(), s.Context())
	s.run()
	options := `{"id":"7","kubernetes.io/fsType":"ext4","kubernetes.io/pvOrVolumeName":"data","kubernetes.io/readwrite":"ro"}`
	if got, want := calls(), []string{"init", "getvolumename " + options, "attach " + options + " a"}; !slices.Equal(got, want) {
		t.Errorf("calls are %q, want %q", got, want)
	}
	s.WantEvents(t, `Warning FailedAttachVolume AttachVolume.Attach failed for volume "data" : attach command failed, status: Failure, reason: broken`)
	answer("attach", `{"status": "Success", "device": "/dev/sdx"}`)
	s.pass(firstBackoff + soon)
	calls()
	s.is("data@a wanted attached listed")
	if got := controllertest.MustStored[*corev1.Node](t, s.Env, "", "a").Status.VolumesAttached; len(got) != 1 || got[0] != (corev1.AttachedVolume{Name: "k8s/disk/data", DevicePath: "/dev/sdx"}) {
		t.Errorf("the node shows %v", got)
	}

	answer("isattached", `{"status": "Success", "attached": false}`)
	s.c.verify(s.Context(), s.Context())
	s.pass(soon)
	if got, want := calls(), []string{"isattached " + options + " a", "attach " + options + " a"}; !slices.Equal(got, want) {
		t.Errorf("calls are %q, want %q", got, want)
	}
	s.Remove(t, pod)
	controllertest.Change(t, s.Env, "", "a", uses())
	s.pass(soon)
	s.is()
	if got, want := calls(), []string{"detach data a"}; !slices.Equal(got, want) { // the driver does not support it
		t.Errorf("calls are %q, want %q", got, want)
	}
}

// flexStage is a stage with a FlexVolume driver and a pod that has a volume of it.
func flexStage(t *testing.T, name, folder string) (s *stage, pod *corev1.Pod, directory string) {
	t.Helper()
	s = newStage(t, aNode("a"))
	directory = filepath.Join(s.c.flexDirectory, folder)
	if err := os.MkdirAll(directory, 0o755); err != nil {
		t.Fatal(err)
	}
	for file, text := range map[string]string{
		filepath.Base(name): flexScript,
		"init":              `{"status": "Success"}`,
		"attach":            `{"status": "Success", "device": "/dev/sdx"}`,
	} {
		if err := os.WriteFile(filepath.Join(directory, file), []byte(text), 0o755); err != nil { //nolint:gosec // it is to be executed
			t.Fatal(err)
		}
	}
	pod = aPod("pod", "a")
	pod.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{FlexVolume: &corev1.FlexVolumeSource{Driver: name}}}}
	return s, pod, directory
}

// The name of a volume of a driver without a vendor does not tell which part is the driver.
//
// Pins ATT-47.
func TestAFlexVolumeOfADriverWithoutVendorIsDetached(t *testing.T) {
	s, pod, directory := flexStage(t, "plain", "plain")
	s.Store(t, pod)
	s.pass(soon)
	controllertest.Change(t, s.Env, "", "a", uses())
	s.Remove(t, pod)
	s.pass(soon)
	s.is()
	calls, err := os.ReadFile(filepath.Join(directory, "calls"))
	if err != nil || !strings.HasSuffix(string(calls), "\ndetach data a\n") {
		t.Errorf("calls are %q, %v", calls, err)
	}
}

// A node has not been told of a volume before a restart. It is told with the path of the device.
//
// Pins ATT-84.
func TestTheDeviceOfAFlexVolumeSurvivesARestart(t *testing.T) {
	s, pod, _ := flexStage(t, "k8s/disk", "k8s~disk")
	allow := s.Refuse("patch nodes/status a", apierrors.NewInternalError(errRefused))
	s.Store(t, pod)
	s.pass(soon)
	s.is("data@a wanted attached listed")
	s.restart()
	allow()
	s.pass(soon)
	if got := controllertest.MustStored[*corev1.Node](t, s.Env, "", "a").Status.VolumesAttached; len(got) != 1 || got[0].DevicePath != "/dev/sdx" {
		t.Errorf("the node shows %v", got)
	}
}

// A driver is removed between an attach that fails and the next one.
//
// Pins ATT-94.
func TestTheAttachOfAFlexVolumeWhoseDriverIsGone(t *testing.T) {
	s, pod, directory := flexStage(t, "k8s/disk", "k8s~disk")
	if err := os.WriteFile(filepath.Join(directory, "attach"), []byte(`{"status": "Failure", "message": "broken"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	s.Store(t, pod)
	s.run()
	s.WantEvents(t, `Warning FailedAttachVolume AttachVolume.Attach failed for volume "data" : attach command failed, status: Failure, reason: broken`)
	if err := os.Remove(filepath.Join(directory, "disk")); err != nil {
		t.Fatal(err)
	}
	s.pass(firstBackoff + time.Millisecond)
	s.WantEvents(t, `Warning FailedAttachVolume AttachVolume.FindAttachablePluginBySpec failed for volume "data" `)
	if got, want := s.Series(t, "storage_operation_duration_seconds"),
		[]string{"migrated=false operation_name=volume_attach status=fail-unknown volume_plugin=k8s/disk 2"}; !slices.Equal(got, want) {
		t.Errorf("counted are %q, want %q", got, want)
	}
	if len(s.placeQueue.keys) != 1 {
		t.Errorf("queued are %v, want the place for its next try", s.placeQueue.keys)
	}
}

// A process that a driver has begun keeps its output open. Neither the end of the driver nor that of the right to write
// waits for it.
//
// Pins ATT-93.
func TestWhatAFlexDriverLeavesIsNotWaitedFor(t *testing.T) {
	directory := t.TempDir()
	path, left := filepath.Join(directory, "disk"), filepath.Join(directory, "left")
	script := "#!/bin/sh\nsleep 1000 &\necho $! > " + left + ".new\nmv " + left + ".new " + left + "\n" +
		"if [ $1 = attach ]; then wait; fi\necho '{\"status\": \"Success\", \"device\": \"/dev/sdx\"}'\n"
	if err := os.WriteFile(path, []byte(script), 0o755); err != nil { //nolint:gosec // it is to be executed
		t.Fatal(err)
	}
	end := func() {
		text, _ := os.ReadFile(left)
		if pid, err := strconv.Atoi(strings.TrimSpace(string(text))); err == nil {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		_ = os.Remove(left)
	}
	t.Cleanup(end)
	d := &flexDriver{path: path, unsupported: map[string]bool{}}
	if answer, err := d.call(t.Context(), "init"); err != nil || answer.Device != "/dev/sdx" {
		t.Errorf("it answers %+v, %v", answer, err)
	}
	end()
	ctx, fence := context.WithCancel(t.Context())
	defer fence()
	answered := make(chan error, 1)
	go func() {
		_, err := d.call(ctx, "attach")
		answered <- err
	}()
	controllertest.Eventually(t, "the driver runs", func() bool { _, err := os.Stat(left); return err == nil })
	fence()
	controllertest.Eventually(t, "the call ends", func() bool { return len(answered) > 0 })
	if err := <-answered; err == nil {
		t.Error("no error")
	}
}

// Pins ATT-47.
func TestWhereFlexDriversAre(t *testing.T) {
	directory := t.TempDir()
	for _, path := range []string{"vendor~driver/driver", "plain/plain", ".hidden/.hidden", "empty/other"} {
		path = filepath.Join(directory, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	f := newFlexDrivers(directory)
	for name, want := range map[string]bool{
		"vendor/driver": true, "plain": true, "vendor~driver": false, "vendor/other": false, ".hidden": false,
		"empty": false, "../plain": false, "a/b/c": false, "": false,
	} {
		if _, _, got := f.installed(name); got != want {
			t.Errorf("%q is installed: %v, want %v", name, got, want)
		}
	}
}

// Pins ATT-50, ATT-51, ATT-53, ATT-54, ATT-76 and ATT-86.
func TestMetrics(t *testing.T) {
	inline := aPod("inline", "a")
	inline.Spec.Volumes = []corev1.Volume{
		{Name: "csi", VolumeSource: corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{Driver: "other"}}},
		{Name: "nfs", VolumeSource: corev1.VolumeSource{NFS: &corev1.NFSVolumeSource{}}},
	}
	finished := aPod("finished", "b", "v")
	finished.Status.Phase = corev1.PodSucceeded
	s := newStage(t, aNode("a", func(n *corev1.Node) {
		n.Status.VolumesAttached = []corev1.AttachedVolume{{Name: "kubernetes.io/csi/unknown^x"}}
		n.Status.VolumesInUse = []corev1.UniqueVolumeName{"kubernetes.io/csi/unknown^x"}
	}), aNode("b"), aVolume("v", once), aClaim("v"), aPod("pod", "a", "v"), inline, finished)
	s.pass(soon)
	want := func(metric string, want ...string) {
		t.Helper()
		if got := s.Series(t, metric); !slices.Equal(got, want) {
			t.Errorf("%s is %q, want %q", metric, got, want)
		}
	}
	const total, inUse, took = "attachdetach_controller_total_volumes", "storage_count_attachable_volumes_in_use", "storage_operation_duration_seconds"
	want(total, "plugin_name=kubernetes.io/csi:csi.example.com state=actual_state_of_world 1",
		"plugin_name=kubernetes.io/csi:csi.example.com state=desired_state_of_world 1")
	want(inUse, "node=a volume_plugin=kubernetes.io/csi:csi.example.com 1", "node=a volume_plugin=kubernetes.io/csi:other 1",
		"node=b volume_plugin=kubernetes.io/csi:csi.example.com 1")
	want(took, "migrated=false operation_name=volume_attach status=success volume_plugin=kubernetes.io/csi:csi.example.com 1")
	controllertest.Change(t, s.Env, "", "a", uses())
	s.Remove(t, aPod("pod", "a", "v"), inline, finished)
	s.pass(soon)
	want(total)
	want(inUse)
	want(took, "migrated=false operation_name=volume_attach status=success volume_plugin=kubernetes.io/csi:csi.example.com 1",
		"migrated=false operation_name=volume_detach status=success volume_plugin=kubernetes.io/csi 1",
		"migrated=false operation_name=volume_detach status=success volume_plugin=kubernetes.io/csi:csi.example.com 1")
}
