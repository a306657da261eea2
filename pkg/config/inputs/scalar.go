package inputs

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"kcmd.dev/pkg/config/problem"
)

// textMap maps the characters of a scalar to where they are written. Styles of YAML differ in
// what they do to white space; all other characters appear in the order of the value. So the
// two texts are followed side by side, without white space, and if they agree up to the end
// of the value, each of its characters has its place.
type textMap struct {
	// lines are, by line of the value, the places of what is no white space.
	lines [][]placed
}

// placed is one character: its column in the value, and where it is written.
type placed struct {
	column int
	at     problem.Position
}

// newTextMap returns a map without lines if the value is not found as it should be
// written.
func newTextMap(scalar *yaml.Node, source []byte) *textMap {
	written := &written{source: newCursor(source, scalar.Line, scalar.Column), style: scalar.Style}
	if !written.open(scalar) {
		return &textMap{}
	}
	m := &textMap{}
	for line := range strings.SplitSeq(scalar.Value, "\n") {
		var row []placed
		column := 0
		for _, char := range line {
			column++
			if isSpace(char) {
				continue
			}
			at, got, ok := written.next()
			if !ok || got != char {
				return &textMap{}
			}
			row = append(row, placed{column, at})
		}
		m.lines = append(m.lines, row)
	}
	return m
}

func isSpace(char rune) bool { return char == ' ' || char == '\t' || char == '\n' || char == '\r' }

// place finds the place of a position in the value. White space keeps its distance
// from the character next to it; a line that holds only white space has no place.
func (m *textMap) place(p problem.Position) (problem.Position, bool) {
	if p.Line < 1 || p.Line > len(m.lines) || len(m.lines[p.Line-1]) == 0 {
		return problem.Position{}, false
	}
	row := m.lines[p.Line-1]
	i, found := slices.BinarySearchFunc(row, p.Column, func(a placed, column int) int {
		return cmp.Compare(a.column, column)
	})
	if !found && i > 0 {
		i--
	}
	near := row[i]
	return problem.Position{Line: near.at.Line, Column: max(1, near.at.Column+p.Column-near.column)}, true
}

// written reads the characters of a scalar as they are written.
type written struct {
	source *cursor
	style  yaml.Style
}

// open goes to the first character; it is false if the scalar does not begin where it
// should.
func (w *written) open(scalar *yaml.Node) bool {
	w.source.skipProperties()
	first, ok := w.source.peek()
	if !ok {
		return scalar.Value == ""
	}
	switch {
	case w.style&(yaml.LiteralStyle|yaml.FoldedStyle) != 0:
		if first != '|' && first != '>' {
			return false
		}
		w.source.skipLine()
	case w.style&yaml.DoubleQuotedStyle != 0:
		w.source.take()
		return first == '"'
	case w.style&yaml.SingleQuotedStyle != 0:
		w.source.take()
		return first == '\''
	}
	return true
}

// next is the next character that is no white space.
func (w *written) next() (problem.Position, rune, bool) {
	for {
		at := w.source.at
		char, ok := w.source.take()
		if !ok {
			return at, 0, false
		}
		switch {
		case w.style&yaml.DoubleQuotedStyle != 0 && char == '\\':
			char, ok = w.escaped()
		case w.style&yaml.DoubleQuotedStyle != 0 && char == '"':
			return at, 0, false
		case w.style&yaml.SingleQuotedStyle != 0 && char == '\'':
			char, ok = w.source.take()
			ok = ok && char == '\''
		}
		if !ok {
			return at, 0, false
		}
		if !isSpace(char) {
			return at, char, true
		}
	}
}

// simpleEscapes are the escapes of one letter; a line break and a space stand for
// themselves.
var simpleEscapes = map[rune]rune{
	'0': 0, 'a': '\a', 'b': '\b', 't': '\t', 'n': '\n', 'v': '\v', 'f': '\f', 'r': '\r', 'e': 0x1b,
	'N': 0x85, '_': 0xa0, 'L': 0x2028, 'P': 0x2029,
}

// escaped reads what follows a backslash.
func (w *written) escaped() (rune, bool) {
	letter, ok := w.source.take()
	if !ok {
		return 0, false
	}
	if char, ok := simpleEscapes[letter]; ok {
		return char, true
	}
	switch letter {
	case 'x':
		return w.hexadecimal(2)
	case 'u':
		return w.hexadecimal(4)
	case 'U':
		return w.hexadecimal(8)
	}
	return letter, true
}

func (w *written) hexadecimal(digits int) (rune, bool) {
	var number strings.Builder
	for range digits {
		digit, ok := w.source.take()
		if !ok {
			return 0, false
		}
		number.WriteRune(digit)
	}
	n, err := strconv.ParseUint(number.String(), 16, 32)
	return rune(n), err == nil
}

// cursor reads text by characters and knows the position of each.
type cursor struct {
	rest []rune
	at   problem.Position
}

// newCursor stands at a position of the text, at its end if there is no such position.
func newCursor(data []byte, line, column int) *cursor {
	text := strings.TrimPrefix(string(data), "\ufeff")
	c := &cursor{at: problem.Position{Line: 1, Column: 1}}
	for c.at.Line < line {
		_, after, found := strings.Cut(text, "\n")
		if !found {
			return c
		}
		text = after
		c.at.Line++
	}
	c.rest = []rune(text)
	for c.at.Column < column {
		if _, ok := c.take(); !ok {
			return c
		}
	}
	return c
}

func (c *cursor) peek() (rune, bool) {
	if len(c.rest) == 0 {
		return 0, false
	}
	return c.rest[0], true
}

func (c *cursor) take() (rune, bool) {
	char, ok := c.peek()
	if !ok {
		return 0, false
	}
	c.rest = c.rest[1:]
	c.at.Column++
	if char == '\n' {
		c.at = problem.Position{Line: c.at.Line + 1, Column: 1}
	}
	return char, true
}

// skipProperties skips anchors and tags.
func (c *cursor) skipProperties() {
	for char, ok := c.peek(); ok && (char == '&' || char == '!'); char, ok = c.peek() {
		for ; ok && !isSpace(char); char, ok = c.peek() {
			c.take()
		}
		for ; ok && isSpace(char); char, ok = c.peek() {
			c.take()
		}
	}
}

func (c *cursor) skipLine() {
	for {
		if char, ok := c.take(); !ok || char == '\n' {
			return
		}
	}
}
