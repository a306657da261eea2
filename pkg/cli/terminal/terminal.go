// Package terminal detects whether output goes to a terminal, and colours it if so.
package terminal

import (
	"fmt"
	"io"
	"os"

	"golang.org/x/term"
)

// When is when output has colours.
type When string

// Auto means on a terminal, unless the environment variable NO_COLOR is set.
const (
	Auto   When = "auto"
	Always When = "always"
	Never  When = "never"
)

// ParseWhen reads the value of a flag.
func ParseWhen(text string) (When, error) {
	switch w := When(text); w {
	case Auto, Always, Never:
		return w, nil
	}
	return "", fmt.Errorf("must be %s, %s or %s, not %q", Auto, Always, Never, text)
}

// Colors colours text, or leaves it as it is.
type Colors struct{ on bool }

// ColorsFor returns how to colour what is written to out. noColor is the value of the
// environment variable NO_COLOR: anything but empty means no colours.
func ColorsFor(when When, out io.Writer, noColor string) Colors {
	return Colors{on: when == Always || (when == Auto && noColor == "" && Is(out))}
}

// Is reports whether out is a terminal.
func Is(out io.Writer) bool {
	file, ok := out.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}

// Clear is what moves to the top of an empty screen.
const Clear = "\x1b[H\x1b[2J\x1b[3J"

func (c Colors) paint(code, text string) string {
	if !c.on || text == "" {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

// Red is for what is wrong.
func (c Colors) Red(text string) string { return c.paint("31", text) }

// Yellow is for what needs attention.
func (c Colors) Yellow(text string) string { return c.paint("33", text) }

// Green is for what is good.
func (c Colors) Green(text string) string { return c.paint("32", text) }

// Bold is for what leads the eye.
func (c Colors) Bold(text string) string { return c.paint("1", text) }

// Faint is for what matters least.
func (c Colors) Faint(text string) string { return c.paint("2", text) }
