package fromflags

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
)

// FromCommandLine makes a configuration from text that has a command line in it: a unit
// file of systemd or its ExecStart line, a line of ps, a line of a script, or the content
// of /proc/<pid>/cmdline.
func FromCommandLine(text string) (*Result, error) {
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
	words, err := split(execStart(text))
	if err != nil {
		return nil, err
	}
	args, err := arguments(words)
	if err != nil {
		return nil, err
	}
	for _, arg := range args {
		if i := strings.IndexByte(arg, '$'); i >= 0 {
			return nil, fmt.Errorf("what the variable in %q stands for is not known here: replace it by its value", arg)
		}
	}
	return args, nil
}

// execStart is the command of a unit file, with lines that end in a backslash joined;
// any other text is returned as it is.
func execStart(text string) string {
	text = strings.ReplaceAll(text, "\r\n", "\n")
	for {
		before, after, found := strings.Cut(text, "\\\n")
		if !found {
			break
		}
		text = before + " " + after
	}
	for line := range strings.Lines(text) {
		command, found := strings.CutPrefix(strings.TrimSpace(line), "ExecStart=")
		if found && strings.Contains(command, program) {
			return strings.TrimLeft(command, "-@:+!")
		}
	}
	return text
}

// arguments drops everything up to the name of the program.
func arguments(words []string) ([]string, error) {
	i := slices.IndexFunc(words, isProgram)
	switch {
	case i >= 0:
		return words[i+1:], nil
	case len(words) > 0 && strings.HasPrefix(words[0], "-"):
		return words, nil
	}
	return nil, fmt.Errorf("no command line of %s in it", program)
}

func isProgram(word string) bool { return filepath.Base(word) == program }

// split splits a command line into words as a shell does. What follows a redirection, a
// pipe, a semicolon or an ampersand is no argument.
func split(text string) ([]string, error) {
	s := splitter{}
	for _, char := range text {
		if !s.next(char) {
			break
		}
	}
	if s.quote != 0 || s.escaped {
		return nil, errors.New("the command line ends within quotes or after a backslash")
	}
	s.end()
	return s.words, nil
}

// splitter splits text at white space outside of quotes.
type splitter struct {
	words   []string
	word    strings.Builder
	inWord  bool
	quote   rune // the one that is open, or 0
	escaped bool
}

// next takes one character; it returns false when the command has ended.
func (s *splitter) next(char rune) bool {
	switch {
	case s.escaped:
		s.escaped = false
		s.add(char)
	case char == '\\' && s.quote != '\'':
		s.escaped, s.inWord = true, true
	case s.quote != 0:
		if char == s.quote {
			s.quote = 0
			return true
		}
		s.add(char)
	case char == '\'' || char == '"':
		s.quote, s.inWord = char, true
	case strings.ContainsRune(" \t\r\n", char):
		s.end()
	case strings.ContainsRune("|;&<>", char):
		s.redirection()
		return false
	default:
		s.add(char)
	}
	return true
}

func (s *splitter) add(char rune) {
	s.word.WriteRune(char)
	s.inWord = true
}

func (s *splitter) end() {
	if s.inWord {
		s.words = append(s.words, s.word.String())
	}
	s.word.Reset()
	s.inWord = false
}

// redirection drops the number of a stream in front of a redirection, as in 2>&1.
func (s *splitter) redirection() {
	if text := s.word.String(); text == "1" || text == "2" {
		s.word.Reset()
		s.inWord = false
	}
}
