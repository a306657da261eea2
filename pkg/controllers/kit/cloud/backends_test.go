package cloud

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
)

// Either of two calls at a time may have the last word. Pins SLB-35.
func TestOverlappingCallsHaveAServiceProcessedAgain(t *testing.T) {
	service := func(name string) *corev1.Service {
		return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: name}}
	}
	for name, tc := range map[string]struct {
		// calls has the Services of the calls, in upper case where one begins, and in lower case where it ends.
		calls string
		want  string
	}{
		"one call":                            {"Xx", ""},
		"one after another":                   {"XxXx", ""},
		"two at a time":                       {"XXxx", "x"},
		"the first goes on":                   {"XXxXxx", "x"},
		"of two Services":                     {"XYxy", ""},
		"of two Services, of which one again": {"XYYyxy", "y"},
		"again later":                         {"XXxxXxXXxx", "xx"},
	} {
		t.Run(name, func(t *testing.T) {
			var b backends
			queued := ""
			var handler cache.ResourceEventHandler = cache.ResourceEventHandlerFuncs{
				AddFunc: func(obj any) { queued += obj.(*corev1.Service).Name },
			}
			b.again.Store(&handler)
			open := map[string][]func(){}
			for _, r := range tc.calls {
				switch key := string(r); key {
				case "X":
					open["x"] = append(open["x"], b.set(service("x")))
				case "Y":
					open["y"] = append(open["y"], b.set(service("y")))
				default:
					open[key][0]()
					open[key] = open[key][1:]
				}
			}
			if queued != tc.want || len(b.open) > 0 {
				t.Errorf("queued were %q, want %q, and %d Services are remembered", queued, tc.want, len(b.open))
			}
		})
	}
}
