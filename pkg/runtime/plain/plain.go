// Package plain makes texts that others have written safe to show on a terminal. The API server
// repeats in its errors what users and webhooks said, and a terminal obeys what it is sent: it can
// be told to hide lines, to forge them, to change its title, or to show words in another order.
package plain

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Text returns a text in which every control character except line breaks and tabs, and every character that
// controls the direction of text, is replaced by U+FFFD.
func Text(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) && r != '\n' && r != '\t' || unicode.Is(unicode.Bidi_Control, r) {
			return utf8.RuneError
		}
		return r
	}, text)
}
