package v1beta1

import (
	"strings"
	"time"
)

// FormatDuration formats a duration as a person would write it in a file, without the zero
// parts that time.Duration prints: 12h, not 12h0m0s.
func FormatDuration(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}
