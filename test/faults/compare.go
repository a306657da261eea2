package faults

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kcmd.dev/pkg/config/v1beta1"
)

// event is one that a manager has sent, without its times and numbers.
type event struct {
	// kind is what many events may have in common: who sent it about which object, and why.
	kind    string
	message string
}

// combined begins the message of an event that stands for many of its kind.
const combined = "(combined from similar events): "

// events returns those of managers since a moment.
func (p *play) events(ctx context.Context, since time.Time) ([]event, error) {
	var all []event
	for _, namespace := range []string{p.world.namespace, metav1.NamespaceDefault} {
		list, err := p.world.admin.CoreV1().Events(namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return nil, fmt.Errorf("listing events: %w", err)
		}
		for i := range list.Items {
			e := &list.Items[i]
			sender := cmp.Or(e.Source.Component, e.ReportingController)
			if e.CreationTimestamp.Add(time.Second).Before(since) || slices.Contains(others, sender) {
				continue
			}
			kind := fmt.Sprintf("%s about %s %s %s: %s %s", sender, e.InvolvedObject.APIVersion, e.InvolvedObject.Kind, e.InvolvedObject.Name, e.Type, e.Reason)
			if e.Related != nil {
				kind += fmt.Sprintf(", related to %s %s", e.Related.Kind, e.Related.Name)
			}
			message := quoted.ReplaceAllString(p.seen.public(e.Message), `"$1*"`)
			all = append(all, event{p.seen.public(kind), message})
		}
	}
	return all, nil
}

// quoted matches a name that the API server made up, also for an object that it did not create then: no watch shows that.
var quoted = regexp.MustCompile(`"([a-z0-9.-]+-)[` + alphabet + `]{5}"`)

// others are components that send events and are no manager.
var others = []string{"default-scheduler", "kubelet", "kwok", "kwok-controller", "ipallocator-repair-controller"}

// compare returns what differs between the end that upstream's manager came to and another one.
func compare(want, got *ending) []string {
	all := slices.Concat(differences(want.final, got.final), got.unasked, turnover(&want.history, &got.history))
	// A manager combines events of a kind when it has sent some, and two have sent less each.
	var many []string
	for _, e := range slices.Concat(want.events, got.events) {
		if strings.HasPrefix(e.message, combined) {
			many = append(many, e.kind)
		}
	}
	missing := func(from, in []event, what string) {
		for _, e := range from {
			text := fmt.Sprintf("%s: event of %s: %s", what, e.kind, e.message)
			if !slices.Contains(many, e.kind) && !slices.Contains(in, e) && !slices.Contains(all, text) {
				all = append(all, text)
			}
		}
	}
	missing(want.events, got.events, "missing")
	missing(got.events, want.events, "too much")
	return all
}

// turnover returns what was created or deleted more or less often than with upstream's manager.
func turnover(want, got *history) (all []string) {
	for _, of := range []struct {
		done      string
		want, got map[string]int
	}{{"created", want.created, got.created}, {"deleted", want.deleted, got.deleted}} {
		keys := map[string]int{}
		maps.Copy(keys, of.want)
		maps.Copy(keys, of.got)
		for _, key := range slices.Sorted(maps.Keys(keys)) {
			if of.got[key] != of.want[key] {
				all = append(all, fmt.Sprintf("%d %s were %s, not %d", of.got[key], key, of.done, of.want[key]))
			}
		}
	}
	return all
}

// takeover begins a change that came of a takeover, and says by whom.
var takeover = regexp.MustCompile(`^(before step \d+), by [^:]+`)

// beyond returns the differences that are not among some others, no matter who took over.
func beyond(differences, others []string) []string {
	anonymous := func(difference string) string { return takeover.ReplaceAllString(difference, "$1") }
	return slices.DeleteFunc(differences, func(d string) bool {
		return slices.ContainsFunc(others, func(o string) bool { return anonymous(o) == anonymous(d) })
	})
}

// unexplained returns the differences that no rule of a specification explains. alone says that ours is the only manager.
func (s *Scenario) unexplained(differences []string, alone bool) []string {
	explains := func(rules map[string]string, difference string) bool {
		for pattern := range rules {
			if regexp.MustCompile(pattern).MatchString(difference) {
				return true
			}
		}
		return false
	}
	return slices.DeleteFunc(differences, func(d string) bool {
		return explains(s.Differs, d) || explains(s.Chance, d) && !(alone && isSurplus(d))
	})
}

// counted matches a difference that turnover returns.
var counted = regexp.MustCompile(`^(\d+) \S+ were (?:created|deleted), not (\d+)$`)

// isSurplus reports whether a difference is that there is more than with upstream's manager.
func isSurplus(difference string) bool {
	if n := counted.FindStringSubmatch(difference); n != nil {
		got, _ := strconv.Atoi(n[1])
		want, _ := strconv.Atoi(n[2])
		return got > want
	}
	return strings.HasPrefix(difference, "too much: ")
}

// hasUnderstudy reports whether upstream's manager can play a scenario: it has neither our clock nor our cloud.
func (s *Scenario) hasUnderstudy() bool {
	c := v1beta1.NewDefault()
	s.configure(c)
	return s.Clock == nil && !s.Leaps && c.Cloud.Provider == "" && s.Stalls == ""
}
