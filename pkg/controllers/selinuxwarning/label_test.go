package selinuxwarning

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func TestLabels(t *testing.T) {
	for name, tc := range map[string]struct {
		options corev1.SELinuxOptions
		want    label
	}{
		"SEL-18: none":       {corev1.SELinuxOptions{}, label{}},
		"SEL-18: level":      {corev1.SELinuxOptions{Level: "s0:c1,c2"}, label{":::s0:c1,c2", "", "", "", "s0:c1,c2"}},
		"SEL-18: all":        {corev1.SELinuxOptions{User: "u", Role: "r", Type: "t", Level: "s0"}, label{"u:r:t:s0", "u", "r", "t", "s0"}},
		"SEL-18: type":       {corev1.SELinuxOptions{Type: "t"}, label{"::t:", "", "", "t", ""}},
		"SEL-21d: in a part": {corev1.SELinuxOptions{User: "u:r"}, label{"u:r:::", "u", "r", "", ":"}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := labelOf(&tc.options); got != tc.want {
				t.Errorf("got %+v", got)
			}
		})
	}
}

// Pins SEL-21d.
func TestLabelsInConflict(t *testing.T) {
	const full = "system_u:system_r:container_t:s0:c1,c2"
	for name, tc := range map[string]struct {
		a, b string
		want bool
	}{
		"SEL-21d: both empty":                   {"", "", false},
		"SEL-21d: equal":                        {full, full, false},
		"SEL-21d: a level and none":             {"", ":::s0:c1", true},
		"SEL-21d, SEL-36: all and none":         {"", full, true},
		"SEL-21d: only the level is asked for":  {full, ":::s0:c1,c2", false},
		"SEL-21d: another level":                {full, ":::s0:c98,c99", true},
		"SEL-21d: different parts":              {"system_u::container_t", ":system_r::", false},
		"SEL-21d: no level":                     {"", "a:b:c", false},
		"SEL-21d: user":                         {"a_u:r:t:s0", "b_u:r:t:s0", true},
		"SEL-21d: role":                         {"u:a_r:t:s0", "u:b_r:t:s0", true},
		"SEL-21d: type":                         {"u:r:conflict_t:s0", "u:r:container_t:s0", true},
		"SEL-21d: user of one":                  {":r:t:s0", "u:r:t:s0", false},
		"SEL-21d: role of one":                  {"u::t:s0", "u:r:t:s0", false},
		"SEL-21d: type of one":                  {"u:r::s0", "u:r:t:s0", false},
		"SEL-21d, SEL-41: the level has colons": {":::::", "", true},
		"SEL-21d: the level with categories":    {":::s0:c1:c2", ":::s0:c1", true},
	} {
		t.Run(name, func(t *testing.T) {
			if a, b := parse(tc.a), parse(tc.b); a.conflictsWith(b) != tc.want || b.conflictsWith(a) != tc.want {
				t.Errorf("%+v and %+v: %v, %v", a, b, a.conflictsWith(b), b.conflictsWith(a))
			}
		})
	}
	if got := parse(":::::").level; got != "::" {
		t.Errorf("the level is %q", got)
	}
}

func TestValues(t *testing.T) {
	const recursive, mount = corev1.SELinuxChangePolicyRecursive, corev1.SELinuxChangePolicyMountOption
	asked := func(text string, policy corev1.PodSELinuxChangePolicy) request { return request{parse(text), policy} }
	for name, tc := range map[string]struct {
		request   request
		mountable bool
		want      value
	}{
		"SEL-20: a label":                        {asked(":::s0", mount), true, asked(":::s0", mount)},
		"SEL-20: recursive":                      {asked(":::s0", recursive), true, asked("", recursive)},
		"SEL-20, SEL-37: no label":               {asked("", mount), true, asked("", recursive)},
		"SEL-20, SEL-19: not mounted with one":   {asked(":::s0", mount), false, asked("", recursive)},
		"SEL-20: recursive, and not mounted":     {asked(":::s0", recursive), false, asked("", recursive)},
		"SEL-20: recursive, and without a label": {asked("", recursive), true, asked("", recursive)},
	} {
		t.Run(name, func(t *testing.T) {
			if got := tc.request.on(tc.mountable); got != tc.want {
				t.Errorf("got %+v, want %+v", got, tc.want)
			}
		})
	}
}
