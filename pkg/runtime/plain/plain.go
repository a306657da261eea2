// Package plain makes texts that others have written safe to show on a terminal. The API server
// repeats in its errors what users and webhooks said, and a terminal obeys what it is sent: it can
// be told to hide lines, to forge them, or to change its title.
package plain

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Text returns a text in which every control character except line breaks and tabs is replaced by
// U+FFFD, which is as wide.
func Text(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) && r != '\n' && r != '\t' {
			return utf8.RuneError
		}
		return r
	}, text)
}
