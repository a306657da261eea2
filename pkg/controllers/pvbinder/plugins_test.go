package pvbinder

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/storage/volume"

	"kcmd.dev/test/controllertest"
	"kcmd.dev/test/must"
)

// builtIn are the plugins that the controller has.
func builtIn(t *testing.T) plugins {
	t.Helper()
	c := must.Get(newController(controllertest.New(t).Env, defaults()))(t)
	return c.plugins
}

func TestProvisionerFor(t *testing.T) {
	known := builtIn(t)
	for name, tc := range map[string]struct{ provisioner, internal, external, err string }{
		"PVB-66: a CSI driver":           {provisioner: "csi.example.com", external: "csi.example.com"},
		"PVB-66, PVB-13: a migrated one": {provisioner: "kubernetes.io/aws-ebs", external: "ebs.csi.aws.com"},
		"PVB-66, PVB-6: host-path":       {provisioner: "kubernetes.io/host-path", internal: "kubernetes.io/host-path"},
		"PVB-66, PVB-7: nfs":             {provisioner: "kubernetes.io/nfs", err: "no provisionable volume plugin matched"},
		"PVB-66: no provisioner":         {provisioner: volume.NotSupportedProvisioner, err: "no volume plugin matched name: kubernetes.io/no-provisioner"},
		"PVB-66, PVB-12: a former one":   {provisioner: "kubernetes.io/rbd", err: "no volume plugin matched name: kubernetes.io/rbd"},
		"PVB-12, PVB-8: fc":              {provisioner: "kubernetes.io/fc", err: "no volume plugin matched name: kubernetes.io/fc"},
		"PVB-12, PVB-9: iscsi":           {provisioner: "kubernetes.io/iscsi", err: "no volume plugin matched name: kubernetes.io/iscsi"},
		"PVB-12, PVB-10: csi":            {provisioner: "kubernetes.io/csi", err: "no volume plugin matched name: kubernetes.io/csi"},
	} {
		t.Run(name, func(t *testing.T) {
			internal, external, err := known.provisionerFor(aClass("c", tc.provisioner))
			if got := nameOf(internal); got != tc.internal || external != tc.external || errorText(err) != tc.err {
				t.Errorf("got %q, %q, %v", got, external, err)
			}
		})
	}
}

func TestDeleterFor(t *testing.T) {
	known := builtIn(t)
	const bySpec = `error getting deleter volume plugin for volume "v": `
	flex := func(v *pv) {
		v.Spec.PersistentVolumeSource = corev1.PersistentVolumeSource{FlexVolume: &corev1.FlexPersistentVolumeSource{Driver: "a/b"}}
	}
	ebs := func(v *pv) {
		v.Spec.PersistentVolumeSource = corev1.PersistentVolumeSource{AWSElasticBlockStore: &corev1.AWSElasticBlockStoreVolumeSource{VolumeID: "x"}}
	}
	for name, tc := range map[string]struct {
		volume        *pv
		internal, err string
	}{
		"PVB-84: of a CSI driver":              {volume: aVolume("v", provisionedBy("csi.example.com"), onHostPath("/tmp/x"))},
		"PVB-84: by name":                      {volume: aVolume("v", provisionedBy("kubernetes.io/host-path")), internal: "kubernetes.io/host-path"},
		"PVB-84, PVB-101: of a former plugin":  {volume: aVolume("v", provisionedBy("kubernetes.io/rbd")), err: "no volume plugin matched name: kubernetes.io/rbd"},
		"PVB-84, PVB-7: of nfs, by name":       {volume: aVolume("v", provisionedBy("kubernetes.io/nfs")), err: "no deletable volume plugin matched"},
		"PVB-84: static, CSI":                  {volume: aVolume("v")},
		"PVB-84: static, migrated":             {volume: aVolume("v", onHostPath("/tmp/x"), noted(volume.AnnMigratedTo, ""))},
		"PVB-84, PVB-6: static, hostPath":      {volume: aVolume("v", onHostPath("/tmp/x")), internal: "kubernetes.io/host-path"},
		"PVB-84: static, nfs":                  {volume: aVolume("v", onNFS), err: bySpec + "no deletable volume plugin matched"},
		"PVB-84: static, local":                {volume: aVolume("v", onLocal), err: bySpec + "no volume plugin matched"},
		"PVB-84, PVB-102: static, of a cloud":  {volume: aVolume("v", ebs), err: bySpec + "no volume plugin matched"},
		"PVB-84, PVB-11: static, a flexVolume": {volume: aVolume("v", flex), err: bySpec + "no volume plugin matched"},
	} {
		t.Run(name, func(t *testing.T) {
			internal, err := known.deleterFor(tc.volume)
			if got := nameOf(internal); got != tc.internal || errorText(err) != tc.err {
				t.Errorf("got %q, %v", got, err)
			}
		})
	}
}

func nameOf(p plugin) string {
	if p == nil {
		return ""
	}
	return p.Name()
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// Pins PVB-84a.
func TestHostPathDeletes(t *testing.T) {
	root := filepath.Join(t.TempDir(), "tmp", "volumes") // contains /tmp/, which is not anchored
	path := filepath.Join(root, "data")
	if err := os.MkdirAll(filepath.Join(path, "deep"), 0o750); err != nil {
		t.Fatal(err)
	}
	for range 2 { // a directory that is missing is no failure
		if err := (hostPath{}).Delete(t.Context(), aVolume("v", onHostPath(path))); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := os.Stat(path); !os.IsNotExist(err) {
		t.Errorf("the directory: %v", err)
	}
	if _, err := os.Stat(root); err != nil {
		t.Errorf("the root: %v", err)
	}
	for path, want := range map[string]string{
		"/tmp/": "host_path deleter only supports /tmp/.+ but received provided /tmp/",
		"/data": "host_path deleter only supports /tmp/.+ but received provided /data",
	} {
		if err := (hostPath{}).Delete(t.Context(), aVolume("v", onHostPath(path))); errorText(err) != want {
			t.Errorf("%s: %v", path, err)
		}
	}
	if err := (hostPath{}).Delete(t.Context(), aVolume("v")); errorText(err) != `failed to create deleter for volume "v": spec.PersistentVolumeSource.HostPath is nil` {
		t.Errorf("another source: %v", err)
	}
}

// Pins PVB-68.
func TestHostPathProvisions(t *testing.T) {
	p := hostPath{root: filepath.Join(t.TempDir(), "volumes"), provisions: true}
	made, err := p.Provision(t.Context(), provisionRequest{Claim: aClaim()})
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(made.Source.HostPath.Path)
	if err != nil || info.Mode().Perm() != 0o750 || filepath.Dir(made.Source.HostPath.Path) != p.root {
		t.Errorf("made %v, %v", info, err)
	}
	if made.Annotations["kubernetes.io/createdby"] != "hostpath-dynamic-provisioner" {
		t.Errorf("annotations %v", made.Annotations)
	}
	if _, err := p.Provision(t.Context(), provisionRequest{Claim: aClaim(claimBlock)}); errorText(err) != "kubernetes.io/host-path does not support block volume provisioning" {
		t.Errorf("for a block volume: %v", err)
	}
	if err := (hostPath{}).Enabled(); errorText(err) != `provisioning in volume plugin "kubernetes.io/host-path" is disabled` {
		t.Errorf("when disabled: %v", err)
	}
}

// Pins PVB-104.
func TestRecyclerPod(t *testing.T) {
	template := defaultTemplate()
	template.GenerateName, template.Namespace = "x-", "somewhere"
	pods := recyclerPods{template: template, minimum: time.Minute, increment: 30 * time.Second}
	for name, tc := range map[string]struct {
		plugin   recycler
		volume   *pv
		deadline int64
		source   corev1.VolumeSource
	}{
		"PVB-85b, PVB-23: hostPath":       {hostPath{pods: pods}, aVolume("v", onHostPath("/data")), 150, corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/data"}}},
		"PVB-85b, PVB-20: nfs":            {nfs{pods: pods}, aVolume("v", onNFS, ofSize("3500Mi")), 90, corev1.VolumeSource{NFS: &corev1.NFSVolumeSource{Server: "server", Path: "/share"}}},
		"PVB-85b, PVB-19, PVB-22: little": {nfs{pods: pods}, aVolume("v", onNFS, ofSize("1Gi")), 60, corev1.VolumeSource{NFS: &corev1.NFSVolumeSource{Server: "server", Path: "/share"}}},
		"PVB-85b: much":                   {hostPath{pods: pods}, aVolume("v", onHostPath("/data"), ofSize("68Pi")), 2139095040, corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/data"}}},
		"PVB-129: more than may be":       {hostPath{pods: pods}, aVolume("v", onHostPath("/data"), ofSize("100Pi")), math.MaxInt32, corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/data"}}},
		"PVB-129: more than there can be": {hostPath{pods: pods}, aVolume("v", onHostPath("/data"), ofSize("500Pi")), math.MaxInt32, corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/data"}}},
		"PVB-129: very much":              {hostPath{pods: pods}, aVolume("v", onHostPath("/data"), ofSize("1Ei")), math.MaxInt32, corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/data"}}},
	} {
		t.Run(name, func(t *testing.T) {
			pod := tc.plugin.RecyclerPod(tc.volume)
			if pod.Name != "recycler-for-v" || pod.GenerateName != "" || pod.Namespace != "somewhere" || *pod.Spec.ActiveDeadlineSeconds != tc.deadline {
				t.Errorf("got %+v", pod)
			}
			if got := pod.Spec.Volumes[0].VolumeSource; got.String() != tc.source.String() {
				t.Errorf("got %+v", got)
			}
			if template.Name != "" || template.Spec.Volumes[0].HostPath != nil || template.Spec.Volumes[0].NFS != nil {
				t.Error("the template was modified")
			}
		})
	}
}

// Pins PVB-85b.
func TestDefaultTemplate(t *testing.T) {
	pod := defaultTemplate()
	container := pod.Spec.Containers[0]
	if pod.Namespace != "default" || pod.Spec.RestartPolicy != corev1.RestartPolicyNever || pod.Spec.Volumes[0].Name != "vol" ||
		container.Name != "pv-recycler" || container.Image != "registry.k8s.io/build-image/debian-base:bookworm-v1.0.6" ||
		container.VolumeMounts[0].Name != "vol" || container.VolumeMounts[0].MountPath != "/scrub" {
		t.Errorf("got %+v", pod)
	}
	if script := container.Args[1]; !strings.HasPrefix(script, "test -e /scrub && ") {
		t.Errorf("the script is %s", script)
	}
}

func TestTemplates(t *testing.T) {
	write := func(content string) string {
		path := filepath.Join(t.TempDir(), "pod.yaml")
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	empty := write("apiVersion: v1\nkind: Pod\n")
	for name, tc := range map[string]struct{ path, err string }{
		"PVB-124, PVB-18, PVB-21: a pod": {path: write("apiVersion: v1\nkind: Pod\nmetadata: {namespace: a}\nspec: {volumes: [{name: v}]}\n")},
		"PVB-124: without a volume":      {path: empty, err: "pod specification (" + empty + "): does not contain any volume(s)"},
		"PVB-124: no YAML":               {path: write("{"), err: "reading a pod that empties volumes from"},
		"PVB-124: no file":               {path: "/does/not/exist", err: "reading a pod that empties volumes: open"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, cfg := range []config{{nfsRecycler: recyclerConfig{template: tc.path}}, {hostPathRecycler: recyclerConfig{template: tc.path}}} {
				_, err := newController(controllertest.New(t).Env, cfg)
				if (tc.err == "") != (err == nil) || !strings.HasPrefix(errorText(err), tc.err) {
					t.Errorf("got %v", err)
				}
				if files := cfg.Files(); len(files) != 1 || files[0] != tc.path {
					t.Errorf("files are %q", files)
				}
			}
		})
	}
}

// No pod can be created without a namespace. Pins PVB-141.
func TestATemplateWithoutANamespace(t *testing.T) {
	file := filepath.Join(t.TempDir(), "pod.yaml")
	must.Succeed(t, os.WriteFile(file, []byte("apiVersion: v1\nkind: Pod\nspec: {volumes: [{name: v}]}\n"), 0o600))
	pods := must.Get(podsOf(recyclerConfig{template: file}))(t)
	pod := hostPath{pods: pods}.RecyclerPod(aVolume("v", onHostPath("/data")))
	if pod.Namespace != metav1.NamespaceDefault {
		t.Errorf("the pod is in the namespace %q", pod.Namespace)
	}
}
