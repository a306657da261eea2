package config

import (
	"fmt"
	"math"
	"regexp"
	"strings"
	"time"

	"kcmd.dev/pkg/config/v1beta1"
)

// Rule says what one field may hold on its own. The validator and the JSON Schema read
// the same rules.
type Rule struct {
	// Path is the field. In a list, [] stands for every index.
	Path string
	// Required says that an element of a list must set the field.
	Required bool

	// At most one of the following is set.

	// Number limits a numeric field.
	Number *NumberRange
	// Duration limits a duration.
	Duration *DurationRange
	// Enum lists the strings that are allowed.
	Enum []string
	// Pattern limits a string.
	Pattern *Pattern
	// List limits a list as a whole.
	List *ListSize
	// Keys limits the keys of a map.
	Keys *Pattern
}

// NumberRange is Min <= value <= Max.
type NumberRange struct {
	Min, Max float64
}

// DurationRange is Min <= value <= Max, or zero when ZeroAllowed.
type DurationRange struct {
	Min, Max time.Duration
	// ZeroAllowed admits 0s below Min; ZeroMeans says in a word what it does.
	ZeroAllowed bool
	ZeroMeans   string
}

// Pattern is a regular expression, a length, and both in words.
type Pattern struct {
	Regexp    *regexp.Regexp
	MaxLength int
	Words     string
}

// ListSize is the number of elements a list may have.
type ListSize struct {
	Min, Max int // Max 0 means any number
	// Unique says that no two elements are the same.
	Unique bool
}

func byPath(rules []Rule) map[string]Rule {
	out := map[string]Rule{}
	for _, rule := range rules {
		out[rule.Path] = rule
	}
	return out
}

// Allowed says in words what the rule admits.
func (r Rule) Allowed() string {
	switch {
	case r.Number != nil:
		return fmt.Sprintf("%s to %s", formatNumber(r.Number.Min), formatNumber(r.Number.Max))
	case r.Duration != nil:
		return r.Duration.words()
	case r.Enum != nil:
		return strings.Join(r.Enum, ", ")
	case r.Pattern != nil:
		return r.Pattern.words()
	case r.Keys != nil:
		return r.Keys.words()
	case r.List != nil:
		return r.List.words()
	}
	return "anything"
}

func (p *Pattern) words() string { return fmt.Sprintf("at most %d %s", p.MaxLength, p.Words) }

func (p *Pattern) admits(text string) bool {
	return len(text) <= p.MaxLength && p.Regexp.MatchString(text)
}

func (l *ListSize) words() string {
	switch {
	case l.Max == 0 && l.Min > 0:
		return fmt.Sprintf("a list of at least %d", l.Min)
	case l.Max > 0:
		return fmt.Sprintf("a list of at most %d", l.Max)
	}
	return "a list without duplicates"
}

func (d *DurationRange) words() string {
	text := fmt.Sprintf("%s to %s", v1beta1.FormatDuration(d.Min), v1beta1.FormatDuration(d.Max))
	if d.Max == unlimited {
		text = v1beta1.FormatDuration(d.Min) + " or more"
	}
	if !d.ZeroAllowed {
		return text
	}
	if d.Min == 0 {
		return fmt.Sprintf("%s, where 0s means %s", text, d.ZeroMeans)
	}
	return fmt.Sprintf("0s (%s), or %s", d.ZeroMeans, text)
}

func (d *DurationRange) admits(value time.Duration) bool {
	return (value == 0 && d.ZeroAllowed) || (value >= d.Min && value <= d.Max)
}

// admits says whether a decoded scalar satisfies the rule, and if not, why; with suggest
// also what was probably meant.
func (r Rule) admits(value any, suggest bool) (string, bool) {
	switch {
	case r.Number != nil:
		n, ok := asFloat(value)
		if !ok || (n >= r.Number.Min && n <= r.Number.Max) {
			return "", true
		}
		return fmt.Sprintf("must be %s, not %s", r.Allowed(), formatNumber(n)), false
	case r.Duration != nil:
		d, ok := asDuration(value)
		if !ok || r.Duration.admits(d) {
			return "", true
		}
		return fmt.Sprintf("must be %s, not %s", r.Allowed(), v1beta1.FormatDuration(d)), false
	case r.Enum != nil:
		return r.admitsWord(value, suggest)
	}
	text, ok := value.(string)
	if !ok || r.Pattern == nil || r.Pattern.admits(text) {
		return "", true
	}
	return fmt.Sprintf("must be %s, not %s", r.Allowed(), shorten(text)), false
}

func (r Rule) admitsWord(value any, suggest bool) (string, bool) {
	text, ok := value.(string)
	if !ok {
		return "", true
	}
	for _, allowed := range r.Enum {
		if text == allowed {
			return "", true
		}
	}
	message := fmt.Sprintf("must be one of %s, not %s", r.Allowed(), shorten(text))
	if !suggest {
		return message, false
	}
	if best := nearest(text, r.Enum); best != "" {
		message += fmt.Sprintf(", did you mean %q?", best)
	}
	return message, false
}

func asFloat(value any) (float64, bool) {
	switch v := value.(type) {
	case int64:
		return float64(v), true
	case uint64:
		return float64(v), true
	case float64:
		return v, true
	}
	return 0, false
}

func asDuration(value any) (time.Duration, bool) {
	switch v := value.(type) {
	case string:
		d, err := time.ParseDuration(v)
		return d, err == nil
	case int64:
		return time.Duration(v), true
	}
	return 0, false
}

func formatNumber(f float64) string {
	if f == math.Trunc(f) && math.Abs(f) < 1e15 {
		return fmt.Sprintf("%.0f", f)
	}
	return fmt.Sprintf("%g", f)
}
