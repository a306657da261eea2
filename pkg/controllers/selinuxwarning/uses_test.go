package selinuxwarning

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// printed prints conflicts as "label a=x b=y".
func printed(conflicts []conflict) []string {
	var all []string
	for _, c := range conflicts {
		property := map[string]string{labelProperty: "label", policyProperty: "policy"}[c.property]
		all = append(all, fmt.Sprintf("%s %s=%s %s=%s", property, c.pod.Name, c.value, c.with.Name, c.other))
	}
	return all
}

type model struct{ *uses }

func key(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: "ns", Name: name}
}

// set has a pod use a volume. The text is that of the label, or "Recursive".
func (m model) set(pod, volume, text string, mountable bool) []string {
	r := request{label: parse(text), policy: corev1.SELinuxChangePolicyMountOption}
	if text == "Recursive" {
		r = request{label: parse(":::s0"), policy: corev1.SELinuxChangePolicyRecursive}
	}
	driver, _, _ := strings.Cut(volume, "^")
	conflicts, _ := m.uses.set(key(pod), types.UID(pod), use{volume, driver, r}, func() (bool, error) { return mountable, nil })
	return printed(conflicts)
}

// active returns all conflicts, in order.
func (m model) active() []string {
	all := printed(m.conflicts().UnsortedList())
	slices.Sort(all)
	return all
}

func (m model) want(t *testing.T, what string, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: got %q, want %q", what, got, want)
	}
}

func (m model) wantEmpty(t *testing.T) {
	t.Helper()
	if len(m.pods)+len(m.volumes)+len(m.ofDriver)+len(m.inConflict) != 0 {
		t.Errorf("left over: %+v", m.uses)
	}
}

const a, b = ":::s0:c1", ":::s0:c2"

// Pins SEL-21b, SEL-21c, SEL-22 and SEL-38.
func TestConflictsComeAndGo(t *testing.T) {
	m := model{newUses()}
	between := func(x, y string) []string {
		return []string{"label " + x + "=" + a + " " + y + "=" + b, "label " + y + "=" + b + " " + x + "=" + a}
	}
	m.want(t, "a new volume", m.set("p", "d^1", a, true))
	m.want(t, "the same label", m.set("q", "d^1", a, true))
	m.want(t, "another label", m.set("r", "d^1", b, true),
		"label r="+b+" p="+a, "label p="+a+" r="+b, "label r="+b+" q="+a, "label q="+a+" r="+b)
	m.want(t, "again", m.set("r", "d^1", b, true))
	m.want(t, "another volume", m.set("s", "d^2", b, true))
	all := slices.Sorted(slices.Values(append(between("p", "r"), between("q", "r")...)))
	m.want(t, "active", m.active(), all...)
	m.want(t, "the label has changed", m.set("q", "d^1", b, true), "label q="+b+" p="+a, "label p="+a+" q="+b)
	m.want(t, "active then", m.active(), slices.Sorted(slices.Values(append(between("p", "r"), between("p", "q")...)))...)
	m.remove(key("unknown"))
	m.remove(key("s"))
	m.remove(key("r"))
	m.want(t, "one is gone", m.active(), between("p", "q")...)
	m.remove(key("p"))
	m.want(t, "both are gone", m.active())
	m.remove(key("q"))
	m.wantEmpty(t)
}

// Pins SEL-21c, SEL-28 and SEL-36.
func TestBothPropertiesAreCompared(t *testing.T) {
	for name, tc := range map[string]struct {
		first, second string
		want          []string
	}{
		"SEL-36: recursive and a level":       {"Recursive", a, []string{"policy q=MountOption p=Recursive", "policy p=Recursive q=MountOption", "label q=" + a + " p=", "label p= q=" + a}},
		"SEL-36: recursive and no level":      {"Recursive", "u:r:t:", []string{"policy q=MountOption p=Recursive", "policy p=Recursive q=MountOption"}},
		"SEL-36: both recursive":              {"Recursive", "Recursive", nil},
		"SEL-37: no label and a level":        {"", a, []string{"policy q=MountOption p=Recursive", "policy p=Recursive q=MountOption", "label q=" + a + " p=", "label p= q=" + a}},
		"SEL-37: no label and recursive":      {"", "Recursive", nil},
		"SEL-21c, SEL-21d: labels that agree": {"u:r:t:s0:c1", a, nil},
	} {
		t.Run(name, func(t *testing.T) {
			m := model{newUses()}
			m.set("p", "d^1", tc.first, true)
			m.want(t, "conflicts", m.set("q", "d^1", tc.second, true), tc.want...)
		})
	}
}

// Pins SEL-28.
func TestConflictsOverSeveralVolumes(t *testing.T) {
	m := model{newUses()}
	for _, volume := range []string{"d^1", "d^2"} {
		m.set("p", volume, a, true)
		m.set("q", volume, b, true)
	}
	want := []string{"label p=" + a + " q=" + b, "label q=" + b + " p=" + a}
	m.want(t, "active", m.active(), want...)
	m.set("q", "d^1", a, true)
	m.want(t, "one is left", m.active(), want...)
	m.set("q", "d^2", a, true)
	m.want(t, "none is left", m.active())
}

// Pins SEL-35 and SEL-50.
func TestAVolumeIsJudgedAnewAsAWhole(t *testing.T) {
	m := model{newUses()}
	for pod, text := range map[string]string{"p": a, "q": a, "r": b, "s": "Recursive"} {
		m.want(t, "not mounted with a label", m.set(pod, "d^1", text, false))
	}
	m.want(t, "the driver changes", m.set("q", "d^1", a, true),
		"label p="+a+" r="+b, "label r="+b+" p="+a,
		"policy p=MountOption s=Recursive", "policy s=Recursive p=MountOption", "label p="+a+" s=", "label s= p="+a,
		"label q="+a+" r="+b, "label r="+b+" q="+a,
		"policy q=MountOption s=Recursive", "policy s=Recursive q=MountOption", "label q="+a+" s=", "label s= q="+a,
		"policy r=MountOption s=Recursive", "policy s=Recursive r=MountOption", "label r="+b+" s=", "label s= r="+b)
	for pod, text := range map[string]string{"p": a, "r": b, "s": "Recursive"} {
		m.want(t, "the others follow", m.set(pod, "d^1", text, true))
	}
	m.want(t, "the driver changes back", m.set("r", "d^1", b, false))
	m.want(t, "active", m.active())
}

// Pins SEL-11, SEL-34 and SEL-46.
func TestPodsOfADriver(t *testing.T) {
	m := model{newUses()}
	m.set("p", "d^1", a, true)
	m.set("q", "d^2", a, false)
	m.set("q", "d^1", a, true)
	m.set("r", "e^1", a, true)
	names := func(driver string) []string {
		var all []string
		for _, pod := range m.of(driver) {
			all = append(all, pod.Name)
		}
		slices.Sort(all)
		return all
	}
	m.want(t, "d", names("d"), "p", "q")
	m.want(t, "e", names("e"), "r")
	m.want(t, "none", names("none"))
	m.remove(key("q"))
	m.want(t, "one is gone", names("d"), "p")
}

// Pins SEL-33.
func TestAPodThatTakesANameUsesNothingBefore(t *testing.T) {
	m := model{newUses()}
	m.set("p", "d^1", a, true)
	m.set("q", "d^1", b, true)
	m.keepOnly(key("p"), "p")
	m.want(t, "the same pod", m.active(), "label p="+a+" q="+b, "label q="+b+" p="+a)
	m.keepOnly(key("p"), "second")
	m.want(t, "another pod", m.active())
	if m.has(key("p"), "p") || !m.has(key("q"), "q") || m.has(key("q"), "second") {
		t.Error("the wrong pods are known")
	}
}

// A pod that joins costs as much as its volume has values, not pods.
func BenchmarkJoin(bench *testing.B) {
	for _, pods := range []int{10, 10_000} {
		bench.Run(fmt.Sprintf("pods=%d", pods), func(bench *testing.B) {
			m := model{newUses()}
			for n := range pods {
				m.set(fmt.Sprint("pod-", n), "d^1", a, true)
			}
			bench.ReportAllocs()
			for bench.Loop() {
				m.set("p", "d^1", a, true)
				m.remove(key("p"))
			}
		})
	}
}
