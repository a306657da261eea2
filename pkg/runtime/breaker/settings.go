package breaker

import (
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"kcmd.dev/pkg/config/v1beta1"
)

// settings are what the configuration says.
type settings struct {
	stops      bool // rather than to warn
	window     time.Duration
	share      int // percentage
	minimum    int
	exempt     map[schema.GroupResource]bool
	allowUntil time.Time
	allowance  string // as written
}

// settingsOf returns the settings of a configuration that comes into force now, nil if the breaker
// is off. A time that is too far ahead allows nothing, until another one is written: a process
// starts with it all the same, since its clock may be wrong. before are those in force, if any.
func settingsOf(b v1beta1.DeletionBreaker, before *settings, now time.Time) *settings {
	if b.Mode == v1beta1.DeletionsDisabled {
		return nil
	}
	s := &settings{
		stops:      b.Mode == v1beta1.DeletionsStop,
		window:     b.Window.Duration,
		share:      int(*b.Share),
		minimum:    int(*b.Minimum),
		exempt:     map[schema.GroupResource]bool{},
		allowUntil: b.AllowedUntil(),
		allowance:  b.AllowUntil,
	}
	switch {
	case before != nil && before.allowance == s.allowance:
		s.allowUntil = before.allowUntil
	case s.allowUntil.After(now.Add(v1beta1.MaxAllowance)):
		s.allowUntil = time.Time{}
	}
	for _, r := range b.ExemptResources {
		s.exempt[schema.GroupResource{Group: r.Group, Resource: r.Resource}] = true
	}
	return s
}

// limit is how many of a number of objects may be deleted within a window.
func (s *settings) limit(objects int) int { return max(s.minimum, objects*s.share/100) }

// allowed reports whether nothing is counted, by what the operator has allowed.
func (s *settings) allowed(now time.Time) bool { return now.Before(s.allowUntil) }

// keeps reports whether a kind that was stopped stays so.
func (s *settings) keeps(of schema.GroupResource, stop Stop, now time.Time) bool {
	return s != nil && s.stops && !s.exempt[of] && !s.allowed(now) && stop.Deleted+stop.Next > s.limit(stop.Objects)
}
