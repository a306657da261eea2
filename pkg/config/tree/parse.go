package tree

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"kcmd.dev/pkg/config/problem"
	"kcmd.dev/pkg/config/v1beta1"
)

// MaxFileBytes is the largest file that is parsed.
const MaxFileBytes = 1 << 20

// needed ends the error about a file without content.
const needed = "a configuration needs at least\n  apiVersion: " + v1beta1.APIVersion + "\n  kind: " + v1beta1.Kind

// Read parses the file; it returns nil only after having reported an error.
func Read(data []byte, r *problem.Report) *Node {
	data, ok := guard(data, r)
	if !ok {
		return nil
	}
	node := parse(data, r)
	if node == nil {
		return nil
	}
	b := &builder{report: r}
	root := b.build(node, "", 1, false)
	if root == nil || b.stopped {
		return nil
	}
	if root.Kind != Map {
		r.Errorf(root.At, "", "the file must be a mapping, not %s: %s", root.Describe(), needed)
		return nil
	}
	return root
}

// guard rejects, before parsing, bytes that cannot be a configuration. It returns
// the bytes to parse, or false after reporting why there are none.
func guard(data []byte, r *problem.Report) ([]byte, bool) {
	if len(data) > MaxFileBytes {
		r.Errorf(problem.Position{Line: 1, Column: 1}, "", "the file has %d bytes: a configuration has at most %d",
			len(data), MaxFileBytes)
		return nil, false
	}
	if name := otherEncoding(data); name != "" {
		r.Errorf(problem.Position{Line: 1, Column: 1}, "",
			"the file is %s: it must be UTF-8 text, convert it with iconv -f %s -t UTF-8", name, name)
		return nil, false
	}
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	if len(bytes.TrimSpace(data)) == 0 {
		r.Errorf(problem.Position{Line: 1, Column: 1}, "", "an empty file is not a configuration: %s", needed)
		return nil, false
	}
	if n := countSeparators(data); n > maxSeparators {
		r.Errorf(problem.Position{Line: 1, Column: 1}, "",
			"the file has more than %d value separators: a configuration has at most %d values", maxSeparators, maxValues)
		return nil, false
	}
	clean := true
	var zeros zeros
	for at := (cursor{data: data}); !at.done(); {
		position, char, size := at.next()
		switch {
		case char == utf8.RuneError && size == 1:
			r.Errorf(position, "", "invalid UTF-8 byte 0x%02x: the file must be UTF-8 text", at.previous(size)[0])
			clean = false
		case char == 0:
			zeros.add(position)
			clean = false
		case char < ' ' && char != '\t' && char != '\n' && char != '\r', char == 0x7f:
			r.Errorf(position, "", "control character U+%04X is not allowed", char)
			clean = false
		}
	}
	zeros.report(r)
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

func (c *cursor) next() (problem.Position, rune, int) {
	position := problem.Position{Line: c.line + 1, Column: c.column + 1}
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
// is none. Documents without content do not count.
func parse(data []byte, r *problem.Report) *yaml.Node {
	decoder := newDecoder(data)
	var only *yaml.Node
	for {
		document, err := decoder.next()
		if errors.Is(err, errEscape) && decoder.allowSlash(data) {
			only = nil // it starts over
			continue
		}
		switch {
		case errors.Is(err, io.EOF):
			if only == nil {
				r.Errorf(problem.Position{Line: 1, Column: 1}, "", "a file without content is not a configuration: %s", needed)
			}
			return only
		case err != nil:
			reportSyntax(data, err, r)
			return nil
		case isNothing(document):
		case only != nil:
			r.Errorf(problem.Position{Line: document.Line, Column: document.Column}, "",
				"a second document starts here: a configuration is one document, remove the --- and what follows")
			return nil
		default:
			only = document.Content[0]
		}
	}
}

func isNothing(document *yaml.Node) bool {
	if len(document.Content) == 0 {
		return true
	}
	root := document.Content[0]
	return root.Kind == yaml.ScalarNode && root.ShortTag() == "!!null" && root.Anchor == ""
}
