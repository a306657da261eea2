// Package scalar reads and writes single values as decoders of YAML and JSON leave them.
package scalar

import (
	"fmt"
	"math"
	"time"
)

// Float returns a value as a number, if it is one.
func Float(value any) (float64, bool) {
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

// Duration returns a value as a duration, if it is one; a number counts nanoseconds.
func Duration(value any) (time.Duration, bool) {
	switch v := value.(type) {
	case string:
		d, err := time.ParseDuration(v)
		return d, err == nil
	case int64:
		return time.Duration(v), true
	}
	return 0, false
}

// FormatNumber writes a number without an exponent where that can be read.
func FormatNumber(f float64) string {
	if f == math.Trunc(f) && math.Abs(f) < 1e15 {
		return fmt.Sprintf("%.0f", f)
	}
	return fmt.Sprintf("%g", f)
}
