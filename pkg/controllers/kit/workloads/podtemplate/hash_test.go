package podtemplate

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/dump"
	"k8s.io/utils/ptr"
)

func template(image string) *corev1.PodTemplateSpec {
	return &corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "web"}},
		Spec: corev1.PodSpec{
			Containers:    []corev1.Container{{Name: "web", Image: image}},
			RestartPolicy: corev1.RestartPolicyAlways,
		},
	}
}

// fnv1a is the published algorithm (http://www.isthe.com/chongo/tech/comp/fnv/), apart
// from the library that the code under test uses.
func fnv1a(data string) uint32 {
	sum := uint32(2166136261)
	for i := range len(data) {
		sum ^= uint32(data[i])
		sum *= 16777619
	}
	return sum
}

func encode(sum uint32) string {
	const alphabet = "bcdfghjklmnpqrstvwxz2456789"
	var decimal []byte
	for {
		decimal = append([]byte{byte('0' + sum%10)}, decimal...)
		sum /= 10
		if sum == 0 {
			break
		}
	}
	for i, digit := range decimal {
		decimal[i] = alphabet[int(digit)%len(alphabet)]
	}
	return string(decimal)
}

// Pins WL-68.
func TestTemplateHashIsFNV1aOfTheDumpedValue(t *testing.T) {
	tmpl := template("nginx")
	for name, tc := range map[string]struct {
		count  *int32
		suffix string
	}{
		"never collided":     {nil, ""},
		"zero is not absent": {ptr.To[int32](0), "\x00\x00\x00\x00\x00\x00\x00\x00"},
		"one collision":      {ptr.To[int32](1), "\x01\x00\x00\x00\x00\x00\x00\x00"},
		"little endian":      {ptr.To[int32](0x01020304), "\x04\x03\x02\x01\x00\x00\x00\x00"},
	} {
		t.Run(name, func(t *testing.T) {
			want := encode(fnv1a(dump.ForHash(*tmpl) + tc.suffix))
			if got := Hash(tmpl, tc.count); got != want {
				t.Errorf("Hash() = %q, want %q", got, want)
			}
		})
	}
}

func TestTemplateHashDependsOnContentOnly(t *testing.T) {
	if a, b := Hash(template("nginx"), nil), Hash(template("nginx"), nil); a != b {
		t.Errorf("equal templates hash to %q and %q", a, b)
	}
	if a, b := Hash(template("nginx"), nil), Hash(template("httpd"), nil); a == b {
		t.Errorf("different templates both hash to %q", a)
	}
	many := template("nginx")
	for _, key := range strings.Split("a b c d e f g h i j", " ") {
		many.Labels[key] = key
	}
	first := Hash(many, nil)
	for range 20 {
		if again := Hash(many, nil); again != first {
			t.Fatalf("the order of map keys changed the hash from %q to %q", first, again)
		}
	}
}

// The dump prints the fields of the Go types. If this test fails after an update of
// k8s.io/api, ReplicaSets made by the older release keep their names, and new ones are
// named as kube-controller-manager of the new minor version names them.
// Pins WL-70.
func TestTemplateHashOfThisAPIVersion(t *testing.T) {
	if got, want := Hash(template("nginx"), nil), "774988df77"; got != want {
		t.Errorf("Hash() = %q, want %q", got, want)
	}
}
