package rootca

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/cert"

	"kcmd.dev/pkg/controller"
	"kcmd.dev/test/must"
)

func certificate(t testing.TB) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	ca := must.Get(cert.NewSelfSignedCACert(cert.Config{CommonName: "ca"}, key))(t)
	pem, err := cert.EncodeCertificates(ca)
	if err != nil {
		t.Fatal(err)
	}
	return pem
}

// Pins ROOTCA-3, ROOTCA-4 and ROOTCA-44.
func TestLoadBundle(t *testing.T) {
	// The comment must survive: the bytes of the file are published, not what was parsed.
	pem := append([]byte("# internal CA\n"), certificate(t)...)
	key := []byte("-----BEGIN EC PRIVATE KEY-----\nAAAA\n-----END EC PRIVATE KEY-----\n")
	dir := t.TempDir()
	write := func(name string, content []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for name, tc := range map[string]struct {
		file   string
		inline []byte
		want   string
		fails  bool
	}{
		"bytes of the file":             {file: write("ca.crt", pem), inline: []byte("inline"), want: string(pem)},
		"no file, the CA of the client": {inline: []byte("inline"), want: "inline"},
		"no file, no CA of the client":  {want: ""},
		"missing file":                  {file: filepath.Join(dir, "nothing"), fails: true},
		"file without a certificate":    {file: write("junk", []byte("junk")), fails: true},
		"file with a key":               {file: write("both", append(certificate(t), key...)), fails: true},
		"client with a key":             {inline: key, fails: true},
		"empty file":                    {file: write("empty", nil), fails: true},
		"missing file is not fallen by": {file: filepath.Join(dir, "nothing"), inline: pem, fails: true},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := controller.Env{ClusterCA: tc.inline}.CABundle(tc.file)
			if (err != nil) != tc.fails {
				t.Fatalf("CABundle = %v, want failure %v", err, tc.fails)
			}
			if tc.fails && tc.file != "" && !strings.HasPrefix(err.Error(), "error parsing root-ca-file at "+tc.file+": ") {
				t.Errorf("error %q does not name the file", err)
			}
			if string(got) != tc.want {
				t.Errorf("bundle = %q, want %q", got, tc.want)
			}
		})
	}
}

func configMap(change func(*corev1.ConfigMap)) *corev1.ConfigMap {
	cm := newConfigMap("a", "bundle")
	cm.ResourceVersion = "1"
	if change != nil {
		change(cm)
	}
	return cm
}

// Pins ROOTCA-16 and ROOTCA-43.
func TestCorrect(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*corev1.ConfigMap)
		want   bool
	}{
		"as created":                 {nil, true},
		"ROOTCA-25: own description": {func(cm *corev1.ConfigMap) { cm.Annotations[descriptionAnnotation] = "mine" }, true},
		"labels":                     {func(cm *corev1.ConfigMap) { cm.Labels = map[string]string{"a": "b"} }, true},
		"ROOTCA-30: binary data":     {func(cm *corev1.ConfigMap) { cm.BinaryData = map[string][]byte{"a": nil} }, true},
		"empty description":          {func(cm *corev1.ConfigMap) { cm.Annotations[descriptionAnnotation] = "" }, false},
		"ROOTCA-26: no annotations":  {func(cm *corev1.ConfigMap) { cm.Annotations = nil }, false},
		"emptied bundle":             {func(cm *corev1.ConfigMap) { cm.Data[bundleKey] = "" }, false},
		"another bundle":             {func(cm *corev1.ConfigMap) { cm.Data[bundleKey] = "old" }, false},
		"extra key":                  {func(cm *corev1.ConfigMap) { cm.Data["extra"] = "" }, false},
		"no data":                    {func(cm *corev1.ConfigMap) { cm.Data = nil }, false},
		"bundle under other key":     {func(cm *corev1.ConfigMap) { cm.Data = map[string]string{"x": "bundle"} }, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := correct(configMap(tc.change), "bundle"); got != tc.want {
				t.Errorf("correct = %v, want %v", got, tc.want)
			}
		})
	}
	if !correct(configMap(func(cm *corev1.ConfigMap) { cm.Data["extra"] = "" }), "") {
		t.Error("a bundle is replaced by none")
	}
	if correct(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{descriptionAnnotation: "x"}}}, "") {
		t.Error("an empty bundle must still be published as an entry")
	}
}

// Pins ROOTCA-17.
func TestCorrectedReplacesDataAndDescriptionOnly(t *testing.T) {
	immutable := true
	before := configMap(func(cm *corev1.ConfigMap) {
		cm.Data = map[string]string{bundleKey: "old", "extra": "x"}
		cm.Annotations = map[string]string{descriptionAnnotation: "mine", "other": "kept"}
		cm.Labels = map[string]string{"kept": "too"}
		cm.BinaryData = map[string][]byte{"b": {1}}
		cm.Immutable = &immutable
	})
	untouched := before.DeepCopy()
	want := before.DeepCopy()
	want.Data = map[string]string{bundleKey: "bundle"}
	want.Annotations[descriptionAnnotation] = description

	if diff := cmp.Diff(want, corrected(before, "bundle")); diff != "" {
		t.Errorf("corrected (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(untouched, before); diff != "" {
		t.Errorf("the cached object was changed:\n%s", diff)
	}
	if got := corrected(&corev1.ConfigMap{}, "bundle"); !correct(got, "bundle") {
		t.Errorf("corrected = %v, which is not correct", got)
	}
}

// Pins ROOTCA-18.
func TestDescriptionIsTheWellKnownText(t *testing.T) {
	const want = `Contains a CA bundle that can be used to verify the kube-apiserver when using internal endpoints such as the internal service IP or kubernetes.default.svc. No other usage is guaranteed across distributions of Kubernetes clusters.`
	if description != want {
		t.Errorf("description = %q, want %q", description, want)
	}
}

// Pins ROOTCA-36.
func TestLeaving(t *testing.T) {
	now := metav1.Now()
	for name, tc := range map[string]struct {
		ns   corev1.Namespace
		want bool
	}{
		"active":          {corev1.Namespace{Status: corev1.NamespaceStatus{Phase: corev1.NamespaceActive}}, false},
		"phase not set":   {corev1.Namespace{}, false},
		"terminating":     {corev1.Namespace{Status: corev1.NamespaceStatus{Phase: corev1.NamespaceTerminating}}, true},
		"being deleted":   {corev1.Namespace{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: &now}}, true},
		"deleted, active": {corev1.Namespace{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: &now}, Status: corev1.NamespaceStatus{Phase: corev1.NamespaceActive}}, true},
	} {
		t.Run(name, func(t *testing.T) {
			if got := leaving(&tc.ns); got != tc.want {
				t.Errorf("leaving = %v, want %v", got, tc.want)
			}
		})
	}
}

func terminatingRefusal() error {
	err := apierrors.NewForbidden(corev1.Resource("configmaps"), configMapName, errors.New("namespace is being terminated"))
	err.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
	return err
}
