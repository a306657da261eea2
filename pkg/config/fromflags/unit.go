package fromflags

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

var unitSetting = regexp.MustCompile(`(?m)^\s*(\[Service\]|ExecStart=)`)

// isUnit reports whether text is a unit file of systemd, or lines of one.
func isUnit(text string) bool { return unitSetting.MatchString(text) }

// unit is what a unit file of systemd says about a command.
type unit struct {
	command     string
	environment map[string]string
	// files are the EnvironmentFiles, which are on the machine of the unit.
	files []string
	// unread are those of them that cannot be read here.
	unread []string
}

// unitArguments returns the arguments of the program in a unit file, with the variables that
// the unit itself sets, and those in its EnvironmentFiles as far as they are on this machine.
func unitArguments(text string) ([]string, error) {
	u, err := readUnit(text)
	if err != nil {
		return nil, err
	}
	if u.command == "" {
		return nil, fmt.Errorf("the unit has no ExecStart of %s", program)
	}
	if u.command, err = resolved(unescaped(u.command)); err != nil {
		return nil, fmt.Errorf("reading ExecStart: %w", err)
	}
	u.readFiles()
	words, err := command(u.expand(u.command))
	if err != nil {
		return nil, err
	}
	hint := ""
	if len(u.unread) > 0 {
		hint = ", which " + strings.Join(u.unread, " or ") + " may set"
	}
	return known(words, hint)
}

// readUnit reads the settings of a unit. A setting with an empty value clears those before it.
func readUnit(text string) (unit, error) {
	u := unit{environment: map[string]string{}}
	for _, line := range unitLines(text) {
		name, value, _ := strings.Cut(line, "=")
		value = strings.TrimSpace(value)
		switch strings.TrimSpace(name) {
		case "ExecStart":
			if value == "" || strings.Contains(value, program) {
				u.command = strings.TrimLeft(value, "-@:+!")
			}
		case "EnvironmentFile":
			u.files = append(u.files, strings.TrimPrefix(value, "-"))
			if value == "" {
				u.files = nil
			}
		case "Environment":
			if value == "" {
				clear(u.environment)
			}
			if err := u.assign(value); err != nil {
				return unit{}, fmt.Errorf("reading Environment=%s: %w", value, err)
			}
		}
	}
	return u, nil
}

// assign sets the variables of a setting. One whose value is not known here is not set.
func (u *unit) assign(text string) error {
	commands, err := (&splitter{rest: []rune(unescaped(text)), plain: true}).split()
	if err != nil {
		return err
	}
	for _, assignment := range slices.Concat(commands...) {
		name, value, _ := strings.Cut(assignment, "=")
		if value, err := resolved(value); err != nil {
			delete(u.environment, name)
		} else {
			u.environment[name] = value
		}
	}
	return nil
}

// specifier is what systemd replaces in the settings of a unit, but not in the files that the unit names.
var specifier = regexp.MustCompile(`%[%A-Za-z]`)

// resolved replaces %% by %. What stands for anything else is known on the machine of the unit only.
func resolved(text string) (string, error) {
	for _, name := range specifier.FindAllString(text, -1) {
		if name != "%%" {
			return "", fmt.Errorf("the value of the specifier %s is not known here: replace it with its value", name)
		}
	}
	return strings.ReplaceAll(text, "%%", "%"), nil
}

// unitLines joins lines that end in a backslash, and drops comments, which systemd also allows
// between such lines.
func unitLines(text string) []string {
	var out []string
	continued := false
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "#") || strings.HasPrefix(line, ";") {
			continue
		}
		part, more := strings.CutSuffix(line, "\\")
		if continued {
			out[len(out)-1] += " " + part
		} else {
			out = append(out, part)
		}
		continued = more
	}
	return out
}

// readFiles reads the EnvironmentFiles, which override what the unit sets, and each other.
func (u *unit) readFiles() {
	for _, pattern := range u.files {
		names, err := filepath.Glob(pattern)
		if err != nil || len(names) == 0 {
			names = []string{pattern}
		}
		for _, name := range names {
			text, err := readSmall(name)
			if err != nil || u.readFile(text) != nil {
				u.unread = append(u.unread, name)
			}
		}
	}
}

// maxEnvironment is the largest EnvironmentFile that is read, in bytes.
const maxEnvironment = 1 << 20

// readSmall reads a regular file of a limited size.
func readSmall(name string) (string, error) {
	info, err := os.Stat(name)
	switch {
	case err != nil:
		return "", err
	case !info.Mode().IsRegular() || info.Size() > maxEnvironment:
		return "", fmt.Errorf("%s is not a regular file of at most %d bytes", name, maxEnvironment)
	}
	data, err := os.ReadFile(name)
	return string(data), err
}

// readFile reads assignments, one a line. Quotes are those of a shell.
func (u *unit) readFile(text string) error {
	for _, line := range unitLines(strings.ReplaceAll(text, "\r\n", "\n")) {
		name, value, found := strings.Cut(line, "=")
		if !found {
			continue
		}
		value = strings.TrimSpace(value)
		if strings.ContainsAny(value, `"'\`) {
			s := splitter{rest: []rune(value), plain: true}
			for len(s.rest) > 0 {
				char := s.rest[0]
				s.rest = s.rest[1:]
				if s.quote == 0 && !s.escaped && strings.ContainsRune(" \t", char) {
					s.add(char) // white space ends nothing here
					continue
				}
				s.next(char)
			}
			if s.quote != 0 {
				return fmt.Errorf("the value of %s ends within quotes", name)
			}
			value = s.word.String()
		}
		u.environment[strings.TrimSpace(strings.TrimPrefix(name, "export "))] = value
	}
	return nil
}

var unitVariable = regexp.MustCompile(`\$\$|\$\{([A-Za-z_][A-Za-z0-9_]*)\}|\$([A-Za-z_][A-Za-z0-9_]*)`)

// expand replaces the variables that are known. The value of ${NAME} stays in the word that it is
// in, whatever it holds. $NAME becomes as many words as the value has, and so does one within
// quotes of a shell's command: the value is inserted before the text is split.
func (u unit) expand(text string) string {
	var out strings.Builder
	end := 0
	for _, match := range unitVariable.FindAllStringIndex(text, -1) {
		name := text[match[0]:match[1]]
		value, ok := u.environment[strings.Trim(name, "${}")]
		switch {
		case !ok:
			value = name
		case strings.HasPrefix(name, "${"):
			value = quoted(value, openQuote(text[:match[0]]))
		}
		out.WriteString(text[end:match[0]] + value)
		end = match[1]
	}
	return out.String() + text[end:]
}

// unitEscape is what systemd replaces in the settings of a unit, whatever the quotes around it.
var unitEscape = regexp.MustCompile(
	`\\(?:x[0-9A-Fa-f]{2}|[0-7]{3}|u[0-9A-Fa-f]{4}|U[0-9A-Fa-f]{8}|[abfnrtvs\\'"])`)

// unescaped replaces the escapes of systemd by the characters that they stand for, written as a shell does.
func unescaped(text string) string {
	var out strings.Builder
	end := 0
	for _, match := range unitEscape.FindAllStringIndex(text, -1) {
		out.WriteString(text[end:match[0]])
		out.WriteString(quoted(character(text[match[0]:match[1]]), openQuote(out.String())))
		end = match[1]
	}
	return out.String() + text[end:]
}

// character is what an escape of systemd stands for.
func character(escape string) string {
	switch escape[1] {
	case '\\', '\'', '"':
		return escape[1:]
	case 's':
		return " "
	}
	if char, err := strconv.Unquote(`"` + escape + `"`); err == nil {
		return char
	}
	return escape
}

// quoted is a text of which no character has a meaning where it is inserted: within these quotes, or
// outside of any, which is 0.
func quoted(text string, quote rune) string {
	switch quote {
	case '\'':
		return strings.ReplaceAll(text, "'", `'\''`)
	case '"':
		return inDoubleQuotes.Replace(text)
	}
	return wordBreaks.Replace(text)
}

var inDoubleQuotes = strings.NewReplacer(`\`, `\\`, `"`, `\"`)

// wordBreaks escapes what has a meaning when text is split into words.
var wordBreaks = strings.NewReplacer(" ", `\ `, "\t", "\\\t", `\`, `\\`, `"`, `\"`, "'", `\'`, "#", `\#`, ";", `\;`,
	"|", `\|`, "&", `\&`, "<", `\<`, ">", `\>`, "(", `\(`, ")", `\)`)

// openQuote is the quote that is open where a text ends, or 0.
func openQuote(text string) rune {
	s := splitter{rest: []rune(text)}
	for len(s.rest) > 0 {
		char := s.rest[0]
		s.rest = s.rest[1:]
		s.next(char)
	}
	return s.quote
}
