package plain

import "testing"

func TestText(t *testing.T) {
	for text, want := range map[string]string{
		"denied: größe > 3 – ok\n\tsecond line\n": "denied: größe > 3 – ok\n\tsecond line\n",
		"\x1b[2Jx":       "\uFFFD[2Jx", // clears the screen
		"a\rb\bc\x7f":    "a\uFFFDb\uFFFDc\uFFFD",
		"\u009b2J\u0085": "\uFFFD2J\uFFFD", // C1: ESC [ in one character, and next line
		"\x9b2J":         "\uFFFD2J",       // the same as a byte
		"a\u202edcb":     "a\uFFFDdcb",     // reads as abcd
		"שלום":           "שלום",
	} {
		if got := Text(text); got != want {
			t.Errorf("%q becomes %q, want %q", text, got, want)
		}
	}
}
