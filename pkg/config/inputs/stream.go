package inputs

import (
	"bytes"

	"kcmd.dev/pkg/config/problem"
)

// piece is one document of a stream.
type piece struct {
	data []byte
	// line is the number of lines before it.
	line int
}

// at is a position in the stream.
func (p piece) at(inside problem.Position) problem.Position {
	return problem.Position{Line: inside.Line + p.line, Column: inside.Column}
}

// split cuts a stream at its markers. YAML allows no line that begins with a marker
// inside of a document, not even in quotes, so that no parser is needed, and a document
// that cannot be parsed does not hide the others. Comments and directives before a
// document belong to it; a piece that holds nothing else is left out.
func split(data []byte) []piece {
	var out []piece
	current := piece{}
	content := false // the document holds more than comments
	started := false // its marker was read
	flush := func(next int) {
		if content {
			out = append(out, current)
		}
		current, content, started = piece{line: next}, false, false
	}
	number := 0
	for line := range bytes.Lines(data) {
		switch {
		case isMarker(line, "---"):
			if content || started {
				flush(number)
			}
			started = true
			content = hasContent(line[len("---"):])
		case isMarker(line, "..."):
			current.data = append(current.data, line...)
			flush(number + 1)
			number++
			continue
		case hasContent(line) && (started || line[0] != '%'):
			content = true
		}
		current.data = append(current.data, line...)
		number++
	}
	flush(number)
	return out
}

func isMarker(line []byte, marker string) bool {
	rest, found := bytes.CutPrefix(line, []byte(marker))
	return found && (len(rest) == 0 || bytes.ContainsRune([]byte(" \t\r\n"), rune(rest[0])))
}

// hasContent reports whether a line is more than white space and a comment.
func hasContent(line []byte) bool {
	line = bytes.TrimSpace(line)
	return len(line) > 0 && line[0] != '#'
}
