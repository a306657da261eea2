package upstream

import (
	"encoding/json"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/kube-controller-manager/config/v1alpha1"

	"kcmd.dev/pkg/config"
	"kcmd.dev/pkg/config/problem"
	"kcmd.dev/pkg/config/upstream/conversion"
	"kcmd.dev/pkg/config/v1beta1"
)

var update = flag.Bool("update", false, "write the converted file in testdata instead of comparing it")

func readTestFile(t *testing.T, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestConvertFileKeepsComments(t *testing.T) {
	const golden = "handwritten.converted.yaml"
	out, notes, err := ConvertFile("f.yaml", readTestFile(t, "handwritten.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(filepath.Join("testdata", golden), out, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(string(readTestFile(t, golden)), string(out)); diff != "" {
		t.Errorf("%s (-want +got):\n%s", golden, diff)
	}
	left := Note{Field: "KubeCloudShared.ExternalCloudVolumePlugin", Message: "blue is left out: has no effect in Kubernetes 1.36"}
	if !slices.Contains(notes, left) {
		t.Errorf("notes %v, want also %v", notes, left)
	}
}

// What stands above the first line of a file is about the file.
func TestConvertFileKeepsTheCommentAtTheTop(t *testing.T) {
	const text = "# Ours since 2021.\napiVersion: kubecontrollermanager.config.k8s.io/v1alpha1\nkind: KubeControllerManagerConfiguration\n"
	out, _, err := ConvertFile("f.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	if want := "# Ours since 2021.\napiVersion: config.kcmd.dev/v1beta1\n"; !strings.HasPrefix(string(out), want) {
		t.Errorf("the file is\n%s", out)
	}
}

func TestConvertFileMeansTheSame(t *testing.T) {
	for _, name := range []string{"configz-kubeadm-1.36.json", "handwritten.yaml"} {
		t.Run(name, func(t *testing.T) {
			read, err := config.Load(name, readTestFile(t, name))
			if err != nil {
				t.Fatal(err)
			}
			out, _, err := ConvertFile(name, readTestFile(t, name))
			if err != nil {
				t.Fatal(err)
			}
			converted, err := config.Load(name, out)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(read.Config, converted.Config); diff != "" {
				t.Errorf("the file read as it is differs from the converted one (-read +converted):\n%s", diff)
			}
		})
	}
}

// An entry of the list that is not taken over is a note at the top of the file; any other is
// written, that of a controller which is off by default too.
func TestConvertFileSaysLoudlyWhatIsNotTakenOver(t *testing.T) {
	for name, taken := range map[string]bool{"token-cleaner-controller": true, "service-lb-controller": false} {
		out, _, err := ConvertFile("f.yaml", []byte("kubecontrollermanager.config.k8s.io: {Generic: {Controllers: [\"*\", "+name+"]}}\n"))
		if err != nil {
			t.Fatal(err)
		}
		loud := strings.Contains(string(out), "# NOTE Generic.Controllers[1]: "+name+" never runs in upstream 1.36, and is not enabled\n")
		written := strings.Contains(string(out), name+":\n    enabled: true")
		if loud == taken || written != taken {
			t.Errorf("taken over: %t, the file is\n%s", taken, out)
		}
	}
}

func TestConvertFileReportsWhereTheMistakesAre(t *testing.T) {
	const text = "kubecontrollermanager.config.k8s.io:\n  Generic: {Controllers: [a]}\n  Genric: {}\n"
	_, _, err := ConvertFile("f.yaml", []byte(text))
	want := "f.yaml:2:27: Generic.Controllers[0]: \"a\" is not in the list of known controllers\nf.yaml:3:3: Genric: unknown field, did you mean \"Generic\"?"
	if err == nil || err.Error() != want {
		t.Errorf("error\n%v\nwant\n%s", err, want)
	}
	_, _, err = ConvertFile("f.yaml", []byte("apiVersion: config.kcmd.dev/v1beta1\nkind: KubeControllerManagerConfiguration\n"))
	if err == nil || !strings.Contains(err.Error(), "not a configuration of upstream") {
		t.Errorf("a file of our own: %v", err)
	}
}

// configz is a configuration as /configz of upstream answers it.
func configz(t *testing.T, in *v1alpha1.KubeControllerManagerConfiguration) []byte {
	t.Helper()
	typed := *in
	typed.APIVersion, typed.Kind = conversion.APIVersion, conversion.Kind
	data, err := json.Marshal(map[string]any{conversion.Group: &typed})
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestConfigzIsReadBackAsTheSame(t *testing.T) {
	cfg := v1beta1.NewDefault()
	*cfg.Controllers.Deployment.ConcurrentSyncs = 7
	doc, err := config.Load("configz", configz(t, FromHub(cfg)))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(cfg, doc.Config); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestWhatIsRefusedIsNamedWithWhatUpstreamDoesWithIt(t *testing.T) {
	in := conversion.NewDefault()
	in.DeploymentController.ConcurrentDeploymentSyncs = 0
	in.PersistentVolumeBinderController.PVClaimBinderSyncPeriod.Duration = -1
	_, err := config.LoadV1alpha1("configz", configz(t, in))
	var problems problem.Errors
	if !errors.As(err, &problems) {
		t.Fatalf("error %v", err)
	}
	text := problems.Error()
	for _, want := range []string{
		"DeploymentController.ConcurrentDeploymentSyncs: must be 1 to 1000, not 0 (upstream accepts any number; with 0 it starts no workers, and the controller does nothing)",
		"PersistentVolumeBinderController.PVClaimBinderSyncPeriod: must be 1s to 24h, not -1ns (upstream checks all volumes without a pause)",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in\n%s", want, text)
		}
	}
}

func TestDefaultsOfUpstreamAreValid(t *testing.T) {
	doc, err := config.LoadV1alpha1("configz", configz(t, conversion.NewDefault()))
	if err != nil {
		t.Fatal(err)
	}
	if qps := *doc.Config.ClientConnection.QPS; qps != 20 || len(doc.Notes) == 0 {
		t.Errorf("qps %v, notes %v", qps, doc.Notes)
	}
}

// Whatever is in a file, reading it ends, and what was read is the same after being
// written as upstream would and read again.
func FuzzLoadUpstream(f *testing.F) {
	for _, name := range []string{"configz-kubeadm-1.36.json", "handwritten.yaml"} {
		data, err := os.ReadFile(filepath.Join("testdata", name))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		doc, err := config.LoadV1alpha1("fuzz", data)
		if err != nil {
			return
		}
		there := FromHub(doc.Config)
		back, err := config.LoadV1alpha1("configz", configz(t, there))
		if err != nil {
			t.Fatalf("reading back %+v: %v", there, err)
		}
		if diff := cmp.Diff(there, FromHub(back.Config)); diff != "" {
			t.Errorf("the second time it is something else:\n%s", diff)
		}
		if _, _, err := ConvertFile("fuzz", data); err != nil {
			t.Errorf("it is read, but not converted: %v", err)
		}
	})
}
