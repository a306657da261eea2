package tree

import (
	"encoding/json"
	"errors"
	"io"
	"regexp"
	"sort"
	"strconv"
	"strings"
	"unicode/utf8"

	"kcmd.dev/pkg/config/problem"
)

var syntaxMessage = regexp.MustCompile(`^yaml: (?:line (\d+): )?(.*)$`)

// grammarMessage matches the errors of the grammar, as opposed to those of the scanner.
var grammarMessage = regexp.MustCompile(`^did not find expected (<|node content|key|'-' indicator|',')`)

// structureMessage matches the errors for which the parser names the line in which the block begins, and not that in which it
// stopped.
var structureMessage = regexp.MustCompile(`^did not find expected (key|'-' indicator)$`)

// maxSought is the size of the largest file that is parsed again and again to find where the parser stopped, in bytes.
const maxSought = 128 << 10

// stoppedAt is the line at which the parser stops with a message, from the given one on: the first lines of the file up to
// that one fail in the same way, and fewer do not. Lines begin with 1.
func stoppedAt(lines []string, from int, message string) int {
	text := strings.Join(lines, "\n")
	if len(text) > maxSought {
		return from
	}
	ends := make([]int, len(lines)) // of lines, in bytes
	for i, end := 0, 0; i < len(lines); i++ {
		end += len(lines[i]) + 1
		ends[i] = min(end, len(text))
	}
	more := sort.Search(len(lines)-from, func(more int) bool {
		err := parserError([]byte(text[:ends[from-1+more]]))
		return err != nil && strings.HasSuffix(err.Error(), message)
	})
	return from + more
}

// parserError is the first error of the parser in the documents of a text.
func parserError(data []byte) error {
	decoder := newDecoder(data)
	for {
		_, err := decoder.next()
		switch {
		case errors.Is(err, errEscape) && decoder.allowSlash(data):
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
	}
}

// reportSyntax gives a parser error the position it lacks. The parser names a
// line at most, and for errors of its grammar (not of its scanner) the one before.
func reportSyntax(data []byte, err error, r *problem.Report) {
	lines := strings.Split(string(data), "\n")
	if reportDamage(lines, r) || reportJSON(data, r) {
		return
	}
	match := syntaxMessage.FindStringSubmatch(strings.ReplaceAll(err.Error(), "\n", " "))
	if match == nil {
		r.Errorf(problem.Position{Line: 1, Column: 1}, "", "not valid YAML: %v", err)
		return
	}
	message := match[2]
	line := 1
	if n, convErr := strconv.Atoi(match[1]); convErr == nil {
		line = n
		if grammarMessage.MatchString(message) {
			line++
		}
	}
	if name, ok := strings.CutPrefix(message, "unknown anchor '"); ok {
		name, _, _ = strings.Cut(name, "'")
		r.Errorf(find(lines, "*"+name), "", "not valid YAML: no anchor &%s is defined before this alias", name)
		return
	}
	line = min(max(line, 1), len(lines))
	if message == "found incompatible YAML document" {
		r.Errorf(find(lines, "%YAML"), "", "not valid YAML: no other version than 1.1 can be declared: remove this line")
		return
	}
	if structureMessage.MatchString(message) {
		line = stoppedAt(lines, line, message)
		message += ": is this line indented like those that it belongs to?"
	}
	if tab, ok := tabNear(lines, line); ok {
		r.Errorf(tab, "", "tab character in the indentation: YAML is indented with spaces")
		return
	}
	r.Errorf(problem.Position{Line: line, Column: syntaxColumn(lines[line-1], message)}, "", "not valid YAML: %s", message)
}

var startsAsJSON = regexp.MustCompile(`^\s*\{\s*"`)

// reportJSON reports what is wrong with a file that is meant to be JSON: its parser knows the exact
// place.
func reportJSON(data []byte, r *problem.Report) bool {
	if !startsAsJSON.Match(data) {
		return false
	}
	var value any
	var syntax *json.SyntaxError
	if err := json.Unmarshal(data, &value); !errors.As(err, &syntax) {
		return false
	}
	before := string(data[:max(0, min(int(syntax.Offset)-1, len(data)))])
	line := strings.Count(before, "\n") + 1
	column := utf8.RuneCountInString(before[strings.LastIndexByte(before, '\n')+1:]) + 1
	r.Errorf(problem.Position{Line: line, Column: column}, "", "not valid JSON: %v", syntax)
	return true
}

// tabNear looks for a tab in the indentation of the line the parser stopped at
// and of its neighbours.
func tabNear(lines []string, line int) (problem.Position, bool) {
	for _, n := range []int{line, line + 1, line - 1} {
		if n < 1 || n > len(lines) {
			continue
		}
		text := lines[n-1]
		indentation := text[:len(text)-len(strings.TrimLeft(text, " \t"))]
		if column := strings.IndexByte(indentation, '\t'); column >= 0 {
			return problem.Position{Line: n, Column: column + 1}, true
		}
	}
	return problem.Position{}, false
}

// syntaxColumn is where in its line the parser stopped, as far as the message tells; else it is
// where the line begins.
func syntaxColumn(line, message string) int {
	m := marksOf(line)
	at := -1
	switch {
	case strings.Contains(message, "mapping values are not allowed"):
		at = m.secondColon
	case strings.Contains(message, "unexpected end of stream"), strings.Contains(message, "unexpected document indicator"):
		at = m.openQuote
	case strings.Contains(message, "cannot start any token"):
		at = m.reserved
	case strings.Contains(message, "unknown escape character"),
		strings.Contains(message, "did not find expected hexdecimal number"):
		at = m.escape
	case strings.Contains(message, "block sequence entries are not allowed"):
		at = m.dash
	case strings.HasPrefix(message, "did not find expected ','"),
		strings.HasPrefix(message, "did not find expected node content"):
		at = m.openBracket
	case strings.Contains(message, "expected alphabetic or numeric character"):
		at = m.sigil
	}
	if at < 0 {
		return firstColumn(line)
	}
	return utf8.RuneCountInString(line[:at]) + 1
}

// marks are the places in a line, in bytes, at which parsers stop; -1 where there is none.
type marks struct {
	secondColon int // the second colon that ends a key
	openQuote   int // a quote that is not closed
	escape      int // an escape in double quotes that does not exist
	reserved    int // a character with which no value can start
	dash        int // a dash after a key
	openBracket int // the last bracket that is not closed
	sigil       int // a * or & without a name
}

const validEscapes = "0abt\tnvfre \"/\\N_LPxuU"

func marksOf(line string) marks {
	s := scanner{marks: marks{-1, -1, -1, -1, -1, -1, -1}, starts: true}
	for i := 0; i < len(line); i++ {
		switch {
		case s.quote != 0:
			i = s.inQuotes(line, i)
		case line[i] == '#' && (i == 0 || line[i-1] == ' '):
			return s.end()
		default:
			s.plain(line, i)
		}
	}
	return s.end()
}

// scanner follows quotes and brackets along a line.
type scanner struct {
	marks
	quote    byte  // in which quotes, 0 for none
	opened   int   // where
	colons   int   // outside of quotes and brackets
	brackets []int // that are open
	starts   bool  // a value may start
}

func (s *scanner) end() marks {
	if s.quote != 0 {
		s.openQuote = s.opened
	}
	if n := len(s.brackets); n > 0 {
		s.openBracket = s.brackets[n-1]
	}
	return s.marks
}

// inQuotes reads a character in quotes and returns the index of the last byte that it read.
func (s *scanner) inQuotes(line string, i int) int {
	switch {
	case s.quote == '"' && line[i] == '\\' && i+1 < len(line):
		if s.escape < 0 && !strings.ContainsRune(validEscapes, rune(line[i+1])) {
			s.escape = i
		}
		return i + 1
	case s.quote == '\'' && strings.HasPrefix(line[i:], "''"):
		return i + 1
	case line[i] == s.quote:
		s.quote = 0
	}
	return i
}

// plain reads a character outside of quotes.
func (s *scanner) plain(line string, i int) {
	ends := i+1 == len(line) || line[i+1] == ' '
	starts := s.starts
	s.starts = line[i] == ' ' && starts
	switch c := line[i]; c {
	case '[', '{', ']', '}', ',':
		s.flow(c, i)
	case ':':
		if ends {
			s.colon(i)
		}
	default:
		if starts {
			s.start(c, i, ends)
		}
	}
}

// flow reads a bracket or a comma.
func (s *scanner) flow(c byte, i int) {
	switch open := len(s.brackets) > 0; {
	case c == '[' || c == '{':
		s.brackets, s.starts = append(s.brackets, i), true
	case c == ',':
		s.starts = open
	case open:
		s.brackets = s.brackets[:len(s.brackets)-1]
	}
}

// start reads the first character of a value.
func (s *scanner) start(c byte, i int, ends bool) {
	switch c {
	case '"', '\'':
		s.quote, s.opened = c, i
	case '@', '`', '%':
		s.reserved = first(s.reserved, i)
	case '*', '&':
		if ends {
			s.sigil = first(s.sigil, i)
		}
	case '-':
		if ends {
			s.starts = true
			if s.colons > 0 {
				s.dash = first(s.dash, i)
			}
		}
	}
}

// first is the earlier of two places; -1 is none.
func first(before, now int) int {
	if before >= 0 {
		return before
	}
	return now
}

func (s *scanner) colon(i int) {
	s.starts = true
	if len(s.brackets) > 0 {
		return
	}
	if s.colons++; s.colons == 2 {
		s.secondColon = i
	}
}

func firstColumn(line string) int {
	trimmed := strings.TrimLeft(line, " ")
	if strings.TrimSpace(trimmed) == "" {
		return 1
	}
	return len(line) - len(trimmed) + 1
}

func find(lines []string, text string) problem.Position {
	for i, line := range lines {
		if column := strings.Index(line, text); column >= 0 {
			return problem.Position{Line: i + 1, Column: utf8.RuneCountInString(line[:column]) + 1}
		}
	}
	return problem.Position{Line: 1, Column: 1}
}
