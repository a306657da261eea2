package fromflags

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
)

// FromCommandLine makes a configuration from text that has a command line in it: a unit
// file of systemd or its ExecStart line, a line of ps, a script, or the content of
// /proc/<pid>/cmdline. A manifest is read as FromManifest reads it.
func FromCommandLine(text string) (*Result, error) {
	if isManifest(text) {
		return FromManifest([]byte(text))
	}
	args, err := commandLine(text)
	if err != nil {
		return nil, err
	}
	return Convert(args)
}

// commandLine returns the arguments after the name of the program.
func commandLine(text string) ([]string, error) {
	if strings.Contains(text, "\x00") {
		return arguments(strings.Split(strings.TrimSuffix(text, "\x00"), "\x00"))
	}
	text = strings.ReplaceAll(text, "\r\n", "\n")
	if isUnit(text) {
		return unitArguments(text)
	}
	words, err := command(strings.ReplaceAll(text, "\\\n", " "))
	if err != nil {
		return nil, err
	}
	return known(words, "")
}

// command returns the words of the command that runs the program; of the first one if none does.
func command(text string) ([]string, error) {
	commands, err := split(text)
	if err != nil {
		return nil, err
	}
	for _, words := range commands {
		if inner, ok := shellCommand(words); ok {
			if words, err := command(inner); err == nil && runs(words) {
				return words, nil
			}
		}
		if runs(words) {
			return words, nil
		}
	}
	if len(commands) == 0 {
		return nil, nil
	}
	return commands[0], nil
}

// runs reports whether a command runs the program, and does not only name it as test, echo and grep do.
func runs(words []string) bool { return programAt(words) >= 0 }

// programAt is the place of the program in a command that runs it: it is followed by a flag or by
// what a shell replaces, or it is the command itself. It is -1 if there is none.
func programAt(words []string) int {
	for i, word := range words[:max(0, len(words)-1)] {
		if next := words[i+1]; isProgram(word) && next != "" && strings.ContainsRune("-$`", rune(next[0])) {
			return i
		}
	}
	i := slices.IndexFunc(words, func(word string) bool {
		return !strings.Contains(word, "=") && !slices.Contains(prefixes, filepath.Base(word))
	})
	if i < 0 || !isProgram(words[i]) {
		return -1
	}
	return i
}

// prefixes are the words of a shell that the command which it runs follows.
var prefixes = []string{"exec", "env", "nohup", "then", "else", "do", "{", "!"}

// known returns the arguments, of which none may have a variable. hint ends the error.
func known(words []string, hint string) ([]string, error) {
	if !runs(words) && !areFlags(words) {
		return nil, errNone
	}
	args, err := arguments(words)
	if err != nil {
		return nil, err
	}
	for _, arg := range args {
		if strings.ContainsAny(arg, "$`") || strings.Contains(arg, "<(") {
			return nil, fmt.Errorf("the value of the variable in %q is not known here: replace it with its value%s", arg, hint)
		}
	}
	return args, nil
}

// errNone is the error for what neither runs the program nor consists of its flags.
var errNone = errors.New("contains no command line of " + program)

// arguments drops everything up to the name of the program.
func arguments(words []string) ([]string, error) {
	if areFlags(words) {
		return words, nil
	}
	i := programAt(words)
	if i < 0 {
		i = slices.IndexFunc(words, isProgram)
	}
	if i < 0 {
		return nil, errNone
	}
	return words[i+1:], nil
}

// areFlags reports whether words are flags without a program in front of them.
func areFlags(words []string) bool { return len(words) > 0 && strings.HasPrefix(words[0], "-") }

// isProgram reports whether a word is the program, and neither a flag nor an assignment whose value
// ends like it.
func isProgram(word string) bool {
	return filepath.Base(word) == program && !strings.HasPrefix(word, "-") && !strings.Contains(word, "=")
}

// split splits text into commands, and each into words, as a shell does. A pipe, a semicolon, an
// ampersand or a parenthesis ends a command, and so does a line after which no flag follows, unless the command is
// nothing but flags. A redirection is no argument. What a shell would replace by the output of a command stays in its
// word.
func split(text string) ([][]string, error) { return (&splitter{rest: []rune(text)}).split() }

func (s *splitter) split() ([][]string, error) {
	for len(s.rest) > 0 {
		char := s.rest[0]
		s.rest = s.rest[1:]
		s.next(char)
	}
	if s.quote != 0 || s.escaped {
		return nil, errors.New("the command line ends within quotes or after a backslash")
	}
	s.endCommand()
	return s.commands, nil
}

// splitter splits text at white space outside of quotes.
type splitter struct {
	rest     []rune
	commands [][]string
	words    []string
	word     strings.Builder
	inWord   bool
	quote    rune // the one that is open, or 0
	escaped  bool
	target   bool // the next word is where a redirection leads
	plain    bool // only white space, quotes and backslashes have a meaning, as to systemd
	depth    int  // of the parentheses of $(command), <(command) and >(command)
}

// next takes one character.
func (s *splitter) next(char rune) {
	switch {
	case s.escaped:
		s.escape(char)
	case char == '\\' && s.quote != '\'':
		s.escaped, s.inWord = true, true
	case char == s.quote:
		s.quote = 0
	case s.quote != 0:
		s.add(char)
	case char == '\'' || char == '"':
		s.quote, s.inWord = char, true
	default:
		s.unquoted(char)
	}
}

// escape takes a character after a backslash. Within double quotes, a shell keeps a backslash in front of a
// character that has no meaning there.
func (s *splitter) escape(char rune) {
	s.escaped = false
	if s.quote == '"' && !strings.ContainsRune("\"\\$`\n", char) {
		s.add('\\')
	}
	s.add(char)
}

// unquoted takes a character that may have a meaning to a shell.
func (s *splitter) unquoted(char rune) {
	switch {
	case s.plain && !strings.ContainsRune(" \t\r\n", char), s.inSubstitution(char):
		s.add(char)
	case char == '#' && !s.inWord:
		end := slices.Index(s.rest, '\n')
		if end < 0 {
			end = len(s.rest)
		}
		s.rest = s.rest[end:]
	case char == '\n':
		if s.end(); !areFlags(s.words) && !s.flagFollows() {
			s.endCommand()
		}
	case strings.ContainsRune(" \t\r\n", char):
		s.end()
	case strings.ContainsRune("<>", char):
		s.redirection()
	case strings.ContainsRune("|;&()", char):
		s.endCommand()
	default:
		s.add(char)
	}
}

// inSubstitution reports whether a character belongs to what a shell replaces, and follows its parentheses.
func (s *splitter) inSubstitution(char rune) bool {
	switch {
	case char == '(' && (s.depth > 0 || s.substitutes()):
		s.depth++
	case s.depth > 0:
		if char == ')' {
			s.depth--
		}
	default:
		return strings.ContainsRune("<>", char) && len(s.rest) > 0 && s.rest[0] == '('
	}
	return true
}

// substitutes reports whether a parenthesis that follows begins what a shell replaces.
func (s *splitter) substitutes() bool {
	word := s.word.String()
	return strings.HasSuffix(word, "$") || strings.HasSuffix(word, "<") || strings.HasSuffix(word, ">")
}

// flagFollows reports whether the next word begins with a hyphen: some print a flag per line, also with comments between
// them.
func (s *splitter) flagFollows() bool {
	inComment := false
	for _, char := range s.rest {
		switch {
		case inComment:
			inComment = char != '\n'
		case char == '#':
			inComment = true
		case !strings.ContainsRune(" \t\r\n", char):
			return char == '-'
		}
	}
	return false
}

func (s *splitter) add(char rune) {
	s.word.WriteRune(char)
	s.inWord = true
}

func (s *splitter) end() {
	if s.inWord && !s.target {
		s.words = append(s.words, s.word.String())
	}
	s.target = s.target && !s.inWord
	s.word.Reset()
	s.inWord = false
}

func (s *splitter) endCommand() {
	s.end()
	s.target = false
	if len(s.words) > 0 {
		s.commands = append(s.commands, s.words)
	}
	s.words = nil
}

// redirection drops the number of a stream in front of it, and what follows it, as in 2>&1
// and in >> file.
func (s *splitter) redirection() {
	if text := s.word.String(); text == "0" || text == "1" || text == "2" {
		s.word.Reset()
		s.inWord = false
	}
	s.end()
	for len(s.rest) > 0 && strings.ContainsRune("<>&", s.rest[0]) {
		s.rest = s.rest[1:]
	}
	s.target = true
}
