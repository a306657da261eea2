package decode

import (
	"cmp"
	"fmt"
	"math"
	"math/big"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	logsapi "k8s.io/component-base/logs/api/v1"

	"kcmd.dev/pkg/config/fieldpath"
	"kcmd.dev/pkg/config/problem"
	"kcmd.dev/pkg/config/tree"
)

var (
	durationType    = reflect.TypeFor[metav1.Duration]()
	logDurationType = reflect.TypeFor[logsapi.TimeOrMetaDuration]()
	quantityType    = reflect.TypeFor[resource.QuantityValue]()
)

func (s *shaper) scalar(value *tree.Node, t reflect.Type, path string) (any, bool) {
	if value.Kind != tree.Scalar {
		return s.mismatch(value, path, wanted(t))
	}
	switch t.Kind() {
	case reflect.String:
		return s.text(value, path)
	case reflect.Bool:
		return s.boolean(value, path)
	case reflect.Float32, reflect.Float64:
		return s.float(value, t, path)
	}
	return s.integer(value, t, path)
}

func wanted(t reflect.Type) string {
	switch t.Kind() {
	case reflect.String:
		return "a string"
	case reflect.Bool:
		return "true or false"
	case reflect.Float32, reflect.Float64:
		return "a number"
	}
	return "a whole number"
}

func (s *shaper) text(value *tree.Node, path string) (any, bool) {
	text, ok := value.Value.(string)
	if rule := s.rules[fieldpath.General(path)]; !ok && rule.Enum != nil && !slices.Contains(rule.Enum, value.Text) {
		s.report.Errorf(value.At, path, "must be one of %s, not %s", rule.Allowed(), value.Describe())
		return nil, false
	}
	if !ok {
		s.report.Errorf(value.At, path, "must be a string, not %s: write %q", value.Describe(), problem.Shorten(value.Text))
		return nil, false
	}
	if tree.IsTemplate(text) {
		s.report.Warnf(value.At, path, tree.NotRendered, problem.Quote(text))
	}
	return text, true
}

func (s *shaper) boolean(value *tree.Node, path string) (any, bool) {
	b, ok := value.Value.(bool)
	if !ok {
		return s.mismatch(value, path, "true or false")
	}
	if !tree.IsBoolean(value.Text) {
		s.report.Warnf(value.At, path, "%s is read as %t: write %t", value.Text, b, b)
	}
	return b, true
}

func (s *shaper) float(value *tree.Node, t reflect.Type, path string) (any, bool) {
	if s.ambiguous(value, path) {
		return nil, false
	}
	var f float64
	switch v := value.Value.(type) {
	case int64:
		f = float64(v)
	case uint64:
		f = float64(v)
	case float64:
		f = v
	default:
		return s.mismatch(value, path, "a number")
	}
	if math.IsNaN(f) || math.IsInf(f, 0) || (t.Kind() == reflect.Float32 && math.Abs(f) > math.MaxFloat32) {
		return s.mismatch(value, path, "a finite number")
	}
	return f, true
}

// octal is a number that YAML 1.1 reads in base 8 and YAML 1.2 in base 10.
var octal = regexp.MustCompile(`^[-+]?0[0-9_]+$`)

// ambiguous reports a number that people read otherwise than the parser.
func (s *shaper) ambiguous(value *tree.Node, path string) bool {
	if _, isText := value.Value.(string); isText || !octal.MatchString(value.Text) {
		return false
	}
	sign, digits := "", strings.ReplaceAll(value.Text, "_", "")
	if strings.HasPrefix(digits, "-") {
		sign = "-"
	}
	digits = strings.TrimLeft(digits, "+-0")
	s.report.Errorf(value.At, path,
		"must not begin with 0: %s is octal in YAML 1.1 and decimal in YAML 1.2, did you mean %s?",
		problem.Shorten(value.Text), problem.Shorten(sign+cmp.Or(digits, "0")))
	return true
}

func (s *shaper) integer(value *tree.Node, t reflect.Type, path string) (any, bool) {
	if s.ambiguous(value, path) {
		return nil, false
	}
	n := value.Value
	if f, ok := n.(float64); ok && f == math.Trunc(f) && math.Abs(f) < 1<<53 {
		n = int64(f)
	}
	zero := reflect.New(t).Elem()
	switch v := n.(type) {
	case int64:
		if zero.CanInt() && !zero.OverflowInt(v) {
			return v, true
		}
		if zero.CanUint() && v >= 0 && !zero.OverflowUint(uint64(v)) {
			return v, true
		}
	case uint64:
		if zero.CanUint() && !zero.OverflowUint(v) {
			return v, true
		}
	default:
		if !isLarge(value) {
			return s.mismatch(value, path, "a whole number")
		}
	}
	lowest, highest := limits(t)
	allowed := lowest + " to " + highest
	if rule, ok := s.rules[fieldpath.General(path)]; ok {
		allowed = rule.Allowed()
	}
	s.report.Errorf(value.At, path, "must be %s, not %s", allowed, problem.Shorten(value.Text))
	return nil, false
}

// isLarge reports whether a value is a whole number of more than 64 bits.
func isLarge(value *tree.Node) bool {
	if _, quoted := value.Value.(string); quoted && !strings.HasPrefix(value.Text, "0") {
		return false // the parser reads large numbers in base 16, 8 and 2 as strings
	}
	_, ok := new(big.Int).SetString(value.Text, 0)
	f, isFloat := value.Value.(float64)
	return ok || isFloat && f == math.Trunc(f) && !math.IsInf(f, 0)
}

func limits(t reflect.Type) (lowest, highest string) {
	bits := t.Bits()
	if reflect.New(t).Elem().CanUint() {
		return "0", strconv.FormatUint(math.MaxUint64>>(64-bits), 10)
	}
	most := int64(math.MaxInt64 >> (64 - bits))
	return strconv.FormatInt(-most-1, 10), strconv.FormatInt(most, 10)
}

const durationWords = "a duration such as 500ms, 10s, 5m or 1h30m"

func (s *shaper) duration(value *tree.Node, t reflect.Type, path string) (any, bool) {
	if value.Kind != tree.Scalar {
		return s.mismatch(value, path, durationWords)
	}
	switch v := value.Value.(type) {
	case string:
		if _, err := time.ParseDuration(v); err == nil {
			return v, true
		}
		if tree.IsTemplate(v) {
			break
		}
		s.report.Errorf(value.At, path, "must be %s, not %s%s", durationWords, value.Describe(), durationHint(v))
		return nil, false
	case int64:
		if t == logDurationType {
			s.report.Warnf(value.At, path, "a number is read as nanoseconds: write %s", time.Duration(v))
			return v, true
		}
		s.report.Errorf(value.At, path, "must be %s, not the number %s%s",
			durationWords, problem.Shorten(value.Text), durationHint(value.Text))
		return nil, false
	}
	return s.mismatch(value, path, durationWords)
}

// longDuration is a duration of any length, in whole units.
var longDuration = regexp.MustCompile(`^[-+]?([0-9]+(ns|us|µs|ms|s|m|h))+$`)

// longUnit is a number with a unit that is written out, or apart from it.
var longUnit = regexp.MustCompile(`^([0-9]+)(?: ?(?i:(s)ec|(s)econd|(m)in|(m)inute|(h)r|(h)our)s?| ([smh]))$`)

// durationHint suggests the duration that a text which is none was probably meant to be: the text lacks the unit, has
// one that is written out, is in days, or is longer than the longest duration.
func durationHint(text string) string {
	unit := "s"
	if strings.HasSuffix(strings.TrimRight(text, "0123456789."), "h") {
		unit = "m" // 1h30 is 1h30m
	}
	if _, err := time.ParseDuration(text + unit); err == nil {
		return ": did you mean " + text + unit + "?"
	}
	if match := longUnit.FindStringSubmatch(text); match != nil {
		short := match[1] + strings.ToLower(strings.Join(match[2:], ""))
		if _, err := time.ParseDuration(short); err == nil {
			return ": did you mean " + short + "?"
		}
	}
	if days, found := strings.CutSuffix(text, "d"); found {
		if n, err := strconv.ParseUint(days, 10, 16); err == nil {
			return fmt.Sprintf(": did you mean %dh?", 24*n)
		}
	}
	if longDuration.MatchString(text) {
		return ": the longest one is 2562047h"
	}
	return ""
}

func (s *shaper) quantity(value *tree.Node, path string) (any, bool) {
	const words = "a quantity such as 0, 512Ki or 10Mi"
	if value.Kind != tree.Scalar {
		return s.mismatch(value, path, words)
	}
	if s.ambiguous(value, path) {
		return nil, false
	}
	if len(value.Text) <= 64 {
		if _, err := resource.ParseQuantity(value.Text); err == nil {
			return value.Text, true
		}
	}
	return s.mismatch(value, path, words)
}
