package sharing

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"
	"unsafe"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/randfill"

	"kcmd.dev/test/must"
)

// parts is a struct with one part of each kind.
type parts struct {
	Text     string
	Pointer  *inner
	Slice    []inner
	Map      map[string]string
	Lists    map[string][]string
	List     corev1.ResourceList
	Quantity *resource.Quantity
	Time     *metav1.Time
	Number   float64
	Object   runtime.RawExtension
	Self     *parts
}

type inner struct {
	Name  string
	Flags []bool
}

// clone returns an equal string in memory of its own.
func clone(s string) string { return string([]byte(s)) }

func full() *parts {
	return &parts{
		Text:     clone("text"),
		Pointer:  &inner{clone("pointer"), []bool{true}},
		Slice:    []inner{{clone("first"), []bool{true}}, {clone("second"), []bool{false}}},
		Map:      map[string]string{"a": "b"},
		Lists:    map[string][]string{"a": {"b"}},
		List:     corev1.ResourceList{"cpu": resource.MustParse("100m")},
		Quantity: ptr.To(resource.MustParse("1Gi")),
		Time:     &metav1.Time{Time: time.Unix(1, 0)},
		Number:   1.5,
		Object:   runtime.RawExtension{Raw: []byte("{}")},
		Self:     &parts{Text: clone("inside")},
	}
}

func TestEqualPartsAreShared(t *testing.T) {
	own, other := full(), full()
	if !Of[parts]()(own, other) {
		t.Error("equal values count as different")
	}
	if !identical(unsafe.Pointer(own), unsafe.Pointer(other), unsafe.Sizeof(*own)) {
		t.Errorf("not all parts are shared: %+v and %+v", own, other)
	}
}

func TestOnlyEqualPartsAreShared(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*parts)
		shared func(own, other *parts) bool // what is shared all the same
	}{
		"a string":              {func(p *parts) { p.Text = "other" }, func(a, b *parts) bool { return a.Pointer == b.Pointer }},
		"a part of a pointer":   {func(p *parts) { p.Pointer.Name = "other" }, func(a, b *parts) bool { return &a.Pointer.Flags[0] == &b.Pointer.Flags[0] }},
		"an element of a slice": {func(p *parts) { p.Slice[0].Name = "other" }, func(a, b *parts) bool { return &a.Slice[1].Flags[0] == &b.Slice[1].Flags[0] }},
		"a shorter slice":       {func(p *parts) { p.Slice = p.Slice[:1] }, func(a, b *parts) bool { return &a.Slice[0].Flags[0] == &b.Slice[0].Flags[0] }},
		"a longer slice":        {func(p *parts) { p.Slice = append(p.Slice, inner{}) }, func(a, b *parts) bool { return &a.Slice[1].Flags[0] == &b.Slice[1].Flags[0] }},
		"an empty slice":        {func(p *parts) { p.Slice = []inner{} }, nil},
		"no slice":              {func(p *parts) { p.Slice = nil }, nil},
		"a map":                 {func(p *parts) { p.Map["a"] = "c" }, nil},
		"an empty map":          {func(p *parts) { p.Map = map[string]string{} }, nil},
		"no map":                {func(p *parts) { p.Map = nil }, nil},
		"a map of slices":       {func(p *parts) { p.Lists["a"] = nil }, nil},
		"a resource":            {func(p *parts) { p.List["cpu"] = resource.MustParse("200m") }, nil},
		"another resource":      {func(p *parts) { p.List["memory"] = resource.MustParse("1") }, nil},
		"a quantity":            {func(p *parts) { *p.Quantity = resource.MustParse("2Gi") }, nil},
		"a quantity's format":   {func(p *parts) { *p.Quantity = resource.MustParse("1073741824") }, nil},
		"a time":                {func(p *parts) { p.Time.Time = p.Time.Add(time.Second) }, nil},
		"no time":               {func(p *parts) { p.Time = nil }, nil},
		"a number":              {func(p *parts) { p.Number = 2 }, nil},
		"bytes":                 {func(p *parts) { p.Object.Raw = []byte("[]") }, nil},
		"an object":             {func(p *parts) { p.Object.Object = &corev1.Pod{} }, nil},
		"a part of its own kind": {func(p *parts) { p.Self.Self = &parts{} }, func(a, b *parts) bool {
			return unsafe.StringData(a.Self.Text) == unsafe.StringData(b.Self.Text)
		}},
	} {
		for _, reversed := range []bool{false, true} {
			t.Run(fmt.Sprint(name, ", the other one ", reversed), func(t *testing.T) {
				own, other, want, before := full(), full(), full(), full()
				if reversed {
					tc.change(other)
					tc.change(before)
				} else {
					tc.change(own)
					tc.change(want)
				}
				if Of[parts]()(own, other) {
					t.Error("they count as equal")
				}
				if !reflect.DeepEqual(own, want) {
					t.Errorf("it is %+v, want %+v", own, want)
				}
				if !reflect.DeepEqual(other, before) {
					t.Errorf("the other one is %+v, want %+v", other, before)
				}
				if tc.shared != nil && !tc.shared(own, other) {
					t.Error("equal parts are not shared")
				}
			})
		}
	}
}

// hidden has a field that nobody outside knows the meaning of.
type hidden struct{ text string }

func TestWhatIsHiddenIsSharedByBytesOnly(t *testing.T) {
	a, b := hidden{clone("text")}, hidden{clone("text")}
	share := Of[hidden]()
	if share(&a, &b) || unsafe.StringData(a.text) == unsafe.StringData(b.text) {
		t.Error("a field that is not exported is compared")
	}
	if same := a; !share(&same, &a) {
		t.Error("a copy counts as different")
	}
}

// Objects are what they were after they have shared parts with others that are equal, or lack a part of their fields,
// or have other values throughout.
func TestSharingChangesNothing(t *testing.T) {
	changesNothing[corev1.Pod](t)
	changesNothing[corev1.Node](t)
	changesNothing[corev1.Service](t)
	changesNothing[corev1.PersistentVolume](t)
	changesNothing[corev1.PersistentVolumeClaim](t)
	changesNothing[appsv1.ReplicaSet](t)
	changesNothing[appsv1.StatefulSet](t)
	changesNothing[batchv1.CronJob](t)
}

func changesNothing[T any](t *testing.T) {
	t.Helper()
	share := Of[T]()
	for seed := range int64(8) {
		text := random[T](t, seed)
		others := map[string][]byte{"equal": text, "different": random[T](t, seed+1000)}
		for n := range uint64(5) {
			incomplete := decode[T](t, thinned(t, text, rand.New(rand.NewPCG(uint64(seed), n))))
			others[fmt.Sprint("incomplete ", n)] = []byte(encode(t, incomplete))
		}
		for name, is := range others {
			own, other := decode[T](t, text), decode[T](t, is)
			if equal := share(own, other); equal != (string(text) == string(is)) {
				t.Errorf("%T of seed %d: one that is %s counts as equal: %v", own, seed, name, equal)
			}
			if diff := cmp.Diff(string(text), encode(t, own)); diff != "" {
				t.Errorf("%T of seed %d was changed by one that is %s: %s", own, seed, name, diff)
			}
			if diff := cmp.Diff(string(is), encode(t, other)); diff != "" {
				t.Errorf("%T of seed %d: the one that is %s was changed: %s", own, seed, name, diff)
			}
		}
	}
}

// random is an object with random content, as JSON.
func random[T any](t *testing.T, seed int64) []byte {
	t.Helper()
	object := new(T)
	randfill.NewWithSeed(seed).NilChance(0.3).NumElements(1, 3).MaxDepth(20).Funcs(
		func(q *resource.Quantity, c randfill.Continue) {
			*q = *resource.NewQuantity(c.Int63n(1000), resource.BinarySI)
		},
		func(at *metav1.Time, c randfill.Continue) { at.Time = time.Unix(1+c.Int63n(1<<30), 0) },
		func(at *metav1.MicroTime, c randfill.Continue) { at.Time = time.Unix(1+c.Int63n(1<<30), 0) },
		func(v *intstr.IntOrString, c randfill.Continue) { *v = intstr.FromInt32(c.Int31()) },
		func(*[]metav1.ManagedFieldsEntry, randfill.Continue) {},
		func(*runtime.RawExtension, randfill.Continue) {},
	).Fill(object)
	return []byte(encode(t, decode[T](t, []byte(encode(t, object))))) // empty lists and the like are not encoded
}

// thinned is an object without one in ten of its fields.
func thinned(t *testing.T, text []byte, r *rand.Rand) []byte {
	t.Helper()
	var tree map[string]any
	must.Succeed(t, json.Unmarshal(text, &tree))
	var thin func(value any)
	thin = func(value any) {
		switch value := value.(type) {
		case map[string]any:
			for _, name := range slices.Sorted(maps.Keys(value)) {
				if r.IntN(10) == 0 {
					delete(value, name)
					continue
				}
				thin(value[name])
			}
		case []any:
			for _, element := range value {
				thin(element)
			}
		}
	}
	thin(tree)
	return must.Get(json.Marshal(tree))(t)
}

func decode[T any](t *testing.T, text []byte) *T {
	t.Helper()
	object := new(T)
	must.Succeed(t, json.Unmarshal(text, object))
	return object
}

func encode(t *testing.T, object any) string {
	t.Helper()
	return string(must.Get(json.Marshal(object))(t))
}
