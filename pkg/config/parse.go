package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"kcmd.dev/pkg/config/v1beta1"
)

// MaxFileBytes is the largest file that is parsed.
const MaxFileBytes = 1 << 20

// needed is what a file that says nothing is told.
const needed = "a configuration needs at least\n  apiVersion: " + v1beta1.APIVersion + "\n  kind: " + v1beta1.Kind

// guard rejects, before parsing, bytes that cannot be a configuration. It returns
// the bytes to parse, or false after reporting why there are none.
func guard(data []byte, r *report) ([]byte, bool) {
	if len(data) > MaxFileBytes {
		r.errorf(Position{1, 1}, "", "the file has %d bytes: a configuration has at most %d", len(data), MaxFileBytes)
		return nil, false
	}
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	if len(bytes.TrimSpace(data)) == 0 {
		r.errorf(Position{1, 1}, "", "an empty file is not a configuration: %s", needed)
		return nil, false
	}
	if n := countSeparators(data); n > maxSeparators {
		r.errorf(Position{1, 1}, "", "the file has more than %d separators of values: a configuration has at most %d values", maxSeparators, maxValues)
		return nil, false
	}
	clean := true
	for at := (cursor{data: data}); !at.done(); {
		position, char, size := at.next()
		switch {
		case char == utf8.RuneError && size == 1:
			r.errorf(position, "", "invalid UTF-8 byte 0x%02x: the file must be UTF-8 text", at.previous(size)[0])
			clean = false
		case char == 0:
			r.errorf(position, "", "NUL byte: the file must be UTF-8 text")
			clean = false
		case char < ' ' && char != '\t' && char != '\n' && char != '\r', char == 0x7f:
			r.errorf(position, "", "control character U+%04X is not allowed", char)
			clean = false
		}
	}
	return data, clean
}

const (
	// separating are the characters of which YAML needs one for each value.
	separating = ",:-?[{\n"
	// maxSeparators bounds what the parser has to keep in memory; texts and keys may have
	// such characters too.
	maxSeparators = 5 * maxValues
)

// countSeparators counts the separating characters outside of lines that are comments.
func countSeparators(data []byte) int {
	n := 0
	for line := range bytes.Lines(data) {
		if bytes.HasPrefix(bytes.TrimLeft(line, " "), []byte("#")) {
			continue
		}
		for _, c := range line {
			if strings.IndexByte(separating, c) >= 0 {
				n++
			}
		}
	}
	return n
}

// cursor walks through text by characters and knows the position of each.
type cursor struct {
	data   []byte
	offset int
	line   int
	column int
}

func (c *cursor) done() bool { return c.offset >= len(c.data) }

func (c *cursor) next() (Position, rune, int) {
	position := Position{c.line + 1, c.column + 1}
	char, size := utf8.DecodeRune(c.data[c.offset:])
	c.offset += size
	c.column++
	if char == '\n' {
		c.line, c.column = c.line+1, 0
	}
	return position, char, size
}

func (c *cursor) previous(size int) []byte { return c.data[c.offset-size : c.offset] }

// parse returns the one document of the file, or nil after reporting why there
// is none.
func parse(data []byte, r *report) *yaml.Node {
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	first, err := nextDocument(decoder)
	if errors.Is(err, io.EOF) || (err == nil && isNothing(first)) {
		r.errorf(Position{1, 1}, "", "a file without content is not a configuration: %s", needed)
		return nil
	}
	if err != nil {
		reportSyntax(data, err, r)
		return nil
	}
	second, err := nextDocument(decoder)
	switch {
	case errors.Is(err, io.EOF), err == nil && isNothing(second):
		return first.Content[0]
	case err != nil:
		reportSyntax(data, err, r)
	default:
		r.errorf(Position{second.Line, second.Column}, "",
			"a second document starts here: a configuration is one document, remove the --- and what follows")
	}
	return nil
}

// nextDocument shields the caller from a panic of the parser: the bytes are
// whatever someone wrote into a file.
func nextDocument(decoder *yaml.Decoder) (node *yaml.Node, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("yaml: the text cannot be parsed: %v", p)
		}
	}()
	node = &yaml.Node{}
	return node, decoder.Decode(node)
}

func isNothing(document *yaml.Node) bool {
	return len(document.Content) == 0 ||
		(document.Content[0].Kind == yaml.ScalarNode && document.Content[0].ShortTag() == "!!null" && document.Content[0].Anchor == "")
}

var syntaxMessage = regexp.MustCompile(`^yaml: (?:line (\d+): )?(.*)$`)

// reportSyntax gives a parser error the position it lacks. The parser names a
// line at most, and for errors of its grammar (not of its scanner) the one before.
func reportSyntax(data []byte, err error, r *report) {
	match := syntaxMessage.FindStringSubmatch(strings.ReplaceAll(err.Error(), "\n", " "))
	if match == nil {
		r.errorf(Position{1, 1}, "", "not valid YAML: %v", err)
		return
	}
	message := match[2]
	line := 1
	if n, convErr := strconv.Atoi(match[1]); convErr == nil {
		line = n
		if strings.HasPrefix(message, "did not find expected") {
			line++
		}
	}
	lines := strings.Split(string(data), "\n")
	if name, ok := strings.CutPrefix(message, "unknown anchor '"); ok {
		name, _, _ = strings.Cut(name, "'")
		r.errorf(find(lines, "*"+name), "", "not valid YAML: no anchor &%s is defined before this alias", name)
		return
	}
	line = min(max(line, 1), len(lines))
	if tab, ok := tabNear(lines, line); ok {
		r.errorf(tab, "", "tab character in the indentation: YAML is indented with spaces")
		return
	}
	r.errorf(Position{line, firstColumn(lines[line-1])}, "", "not valid YAML: %s", message)
}

// tabNear looks for a tab in the indentation of the line the parser stopped at
// and of its neighbours.
func tabNear(lines []string, line int) (Position, bool) {
	for _, n := range []int{line, line + 1, line - 1} {
		if n < 1 || n > len(lines) {
			continue
		}
		text := lines[n-1]
		indentation := text[:len(text)-len(strings.TrimLeft(text, " \t"))]
		if column := strings.IndexByte(indentation, '\t'); column >= 0 {
			return Position{n, column + 1}, true
		}
	}
	return Position{}, false
}

func firstColumn(line string) int {
	trimmed := strings.TrimLeft(line, " ")
	if strings.TrimSpace(trimmed) == "" {
		return 1
	}
	return len(line) - len(trimmed) + 1
}

func find(lines []string, text string) Position {
	for i, line := range lines {
		if column := strings.Index(line, text); column >= 0 {
			return Position{i + 1, utf8.RuneCountInString(line[:column]) + 1}
		}
	}
	return Position{1, 1}
}
