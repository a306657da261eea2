// Package rules holds what a single field may hold, as data. The validator, the JSON Schema
// and the reference are made from the same rules.
package rules

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"kcmd.dev/pkg/config/problem"
	"kcmd.dev/pkg/config/scalar"
	"kcmd.dev/pkg/config/v1beta1"
)

// Rule is what one field may hold on its own.
type Rule struct {
	// Path is the field. In a list, [] stands for every index.
	Path string
	// Required is set if an element of a list must set the field.
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
	// ZeroAllowed admits 0s below Min; ZeroMeans is its meaning in a word.
	ZeroAllowed bool
	ZeroMeans   string
}

// Pattern is a regular expression and a length.
type Pattern struct {
	Regexp    *regexp.Regexp
	MaxLength int
	// Words say what the expression matches: a URL such as https://10.0.0.1:6443.
	Words string
	// Nearly returns what was probably meant by a text that does not match; nil means the text
	// without the white space around it.
	Nearly func(text string) string
}

// ListSize is the number of elements a list may have.
type ListSize struct {
	Min, Max int // Max 0 means any number
	// Unique is set if no two elements may be the same.
	Unique bool
}

// Allowed describes what the rule admits.
func (r Rule) Allowed() string {
	switch {
	case r.Number != nil:
		return fmt.Sprintf("%s to %s", scalar.FormatNumber(r.Number.Min), scalar.FormatNumber(r.Number.Max))
	case r.Duration != nil:
		return r.Duration.describe()
	case r.Enum != nil:
		return strings.Join(r.Enum, ", ")
	case r.Pattern != nil:
		return r.Pattern.Describe()
	case r.Keys != nil:
		return r.Keys.Describe()
	case r.List != nil:
		return r.List.Describe()
	}
	return "anything"
}

// Describe states the pattern and the length in words.
func (p *Pattern) Describe() string {
	return fmt.Sprintf("%s, at most %d characters", p.Words, p.MaxLength)
}

// Refuse says what is wrong with a text; with suggest also what was probably meant.
func (p *Pattern) Refuse(text string, suggest bool) string {
	switch {
	case text == "":
		return fmt.Sprintf("must be %s, not empty", p.Words)
	case len(text) > p.MaxLength && p.Regexp.MatchString(text):
		return fmt.Sprintf("must have at most %d characters, not %d", p.MaxLength, len(text))
	}
	message := fmt.Sprintf("must be %s, not %s", p.Words, problem.Quote(text))
	nearly := strings.TrimSpace(text)
	if p.Nearly != nil {
		nearly = p.Nearly(nearly)
	}
	if suggest && nearly != "" && p.Admits(nearly) {
		message += fmt.Sprintf(", did you mean %q?", nearly)
	}
	return message
}

// Admits reports whether a text satisfies the pattern.
func (p *Pattern) Admits(text string) bool {
	return len(text) <= p.MaxLength && p.Regexp.MatchString(text)
}

// Describe states the size in words.
func (l *ListSize) Describe() string {
	switch {
	case l.Max == 0 && l.Min > 0:
		return fmt.Sprintf("a list of at least %s", elements(l.Min))
	case l.Max > 0:
		return fmt.Sprintf("a list of at most %s", elements(l.Max))
	}
	return "a list without duplicates"
}

func elements(n int) string {
	if n == 1 {
		return "1 element"
	}
	return fmt.Sprintf("%d elements", n)
}

func (d *DurationRange) describe() string {
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

// Admits reports whether a decoded scalar satisfies the rule. If not, the message states why;
// with suggest also what was probably meant.
func (r Rule) Admits(value any, suggest bool) (message string, ok bool) {
	switch {
	case r.Number != nil:
		n, ok := scalar.Float(value)
		if !ok || (n >= r.Number.Min && n <= r.Number.Max) {
			return "", true
		}
		return fmt.Sprintf("must be %s, not %s", r.Allowed(), scalar.FormatNumber(n)), false
	case r.Duration != nil:
		d, ok := scalar.Duration(value)
		if !ok || r.Duration.admits(d) {
			return "", true
		}
		return fmt.Sprintf("must be %s, not %s", r.Allowed(), v1beta1.FormatDuration(d)), false
	case r.Enum != nil:
		return r.admitsWord(value, suggest)
	}
	text, ok := value.(string)
	if !ok || r.Pattern == nil || r.Pattern.Admits(text) {
		return "", true
	}
	return r.Pattern.Refuse(text, suggest), false
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
	message := fmt.Sprintf("must be one of %s, not %s", r.Allowed(), problem.Quote(text))
	if !suggest {
		return message, false
	}
	if _, err := strconv.ParseFloat(strings.TrimPrefix(text, "v"), 64); err == nil {
		return message, false // no number is a slip of another one
	}
	if best := problem.Nearest(text, r.Enum); best != "" {
		message += fmt.Sprintf(", did you mean %q?", best)
	}
	return message, false
}
