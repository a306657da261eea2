package faults

import (
	"slices"
	"testing"
)

func TestEndsAreCompared(t *testing.T) {
	t.Parallel()
	const created = "replicaset-controller about apps/v1 ReplicaSet web: Normal SuccessfulCreate"
	one := object{"pods/web-*", `{"phase":"Running"}`}
	ended := func(final state, messages ...string) *ending {
		e := &ending{final: final}
		for _, message := range messages {
			e.events = append(e.events, event{created, message})
		}
		return e
	}
	for name, test := range map[string]struct {
		want, got *ending
		differ    []string
	}{
		"the same": {want: ended(state{one}, "Created pod: web-*"), got: ended(state{one}, "Created pod: web-*")},
		"an event that came more often": {
			want: ended(state{one}, "Created pod: web-*"), got: ended(state{one}, "Created pod: web-*", "Created pod: web-*"),
		},
		"an object, and events": {
			want: ended(state{one}, "Created pod: web-*"),
			got:  ended(nil, "made web-*", "made web-*"),
			differ: []string{
				`missing: pods/web-* {"phase":"Running"}`,
				"missing: event of " + created + ": Created pod: web-*",
				"too much: event of " + created + ": made web-*",
			},
		},
		"an event of a kind that one of them combined": {
			want: ended(state{one}, combined+"made web-*"), got: ended(state{one}, "made web-*"),
		},
		"what a takeover changed": {
			want: ended(state{one}), got: &ending{final: state{one}, unasked: []string{"pods/web-* differs"}},
			differ: []string{"pods/web-* differs"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if differ := compare(test.want, test.got); !slices.Equal(differ, test.differ) {
				t.Errorf("they differ by %q, want %q", differ, test.differ)
			}
		})
	}
}

func TestWhatComesAndGoesIsCounted(t *testing.T) {
	t.Parallel()
	counted := func(created, deleted map[string]int) *ending {
		return &ending{history: history{created: created, deleted: deleted}}
	}
	want := counted(map[string]int{"pods/web-*": 3, "jobs/web": 1}, map[string]int{"pods/web-*": 1})
	got := counted(map[string]int{"pods/web-*": 4, "jobs/web": 1}, map[string]int{"pods/web-*": 1, "jobs/web": 1})
	differ := []string{"4 pods/web-* were created, not 3", "1 jobs/web were deleted, not 0"}
	if found := compare(want, got); !slices.Equal(found, differ) {
		t.Errorf("the turnover differs by %q, want %q", found, differ)
	}
	if found := compare(want, want); len(found) > 0 {
		t.Errorf("the turnover of the same differs by %q", found)
	}
}

func TestOnlyDifferencesOfRulesAreExplained(t *testing.T) {
	t.Parallel()
	s := &Scenario{
		Differs: map[string]string{"^missing: event .*MissingJob": "CRON-52"},
		Chance:  map[string]string{"revisions/web were created": "STS-84", "already exists$": "EPHV-28"},
	}
	differ := []string{
		"missing: event of cronjob-controller: MissingJob", "missing: jobs/web", "2 revisions/web were created, not 10", "10 revisions/web were created, not 9",
		"missing: event of ephemeral_volume: a already exists", "too much: event of ephemeral_volume: a already exists",
	}
	for alone, want := range map[bool][]string{
		false: {"missing: jobs/web"},
		true:  {"missing: jobs/web", "10 revisions/web were created, not 9", "too much: event of ephemeral_volume: a already exists"},
	} {
		if left := s.unexplained(slices.Clone(differ), alone); !slices.Equal(left, want) {
			t.Errorf("unexplained is %q, want %q", left, want)
		}
	}
}

func TestChangesByRestartsOfUpstreamAreNoDifference(t *testing.T) {
	t.Parallel()
	differ := []string{"before step 2, by kcmd: jobs/web differs", "before step 3, by kcmd: jobs/web differs", "missing: jobs/web"}
	others := []string{"before step 2, by " + string(again) + ": jobs/web differs", "missing: jobs/other"}
	want := []string{"before step 3, by kcmd: jobs/web differs", "missing: jobs/web"}
	if left := beyond(differ, others); !slices.Equal(left, want) {
		t.Errorf("beyond the others is %q, want %q", left, want)
	}
}
