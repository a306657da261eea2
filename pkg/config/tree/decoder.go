package tree

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Parse returns the first document of a text that has content, in YAML or JSON, without limits. Positions are those
// of the text.
func Parse(data []byte) (*yaml.Node, error) {
	decoder := newDecoder(data)
	for {
		node, err := decoder.next()
		switch {
		case errors.Is(err, errEscape) && decoder.allowSlash(data):
		case err != nil || !isNothing(node):
			return node, err
		}
	}
}

// errEscape is the error of the parser about an escape in double quotes.
var errEscape = errors.New("found unknown escape character")

// decoder reads the documents of a text.
//
// The parser does not know the escape \/, which JSON and YAML 1.2 have. It is replaced before the
// text is parsed, by an escape that the text does not have and that is as long, so that positions
// stay, and the scalars are corrected afterwards.
type decoder struct {
	yaml *yaml.Decoder
	// stand stands for \/, if it has a letter.
	stand standIn
}

func newDecoder(data []byte) *decoder { return &decoder{yaml: yaml.NewDecoder(bytes.NewReader(data))} }

// next turns a panic of the parser into an error: the bytes are untrusted.
func (d *decoder) next() (node *yaml.Node, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("yaml: the text cannot be parsed: %v", p)
		}
	}()
	node = &yaml.Node{}
	err = d.yaml.Decode(node)
	if err != nil && strings.HasSuffix(err.Error(), errEscape.Error()) {
		err = escapeError{err}
	}
	if err == nil && d.stand.letter != 0 {
		d.correct(node)
	}
	return node, err
}

// escapeError is an errEscape with the words of the parser.
type escapeError struct{ error }

func (e escapeError) Is(target error) bool { return target == errEscape }

// standIn is an escape of one letter, and the character that it stands for.
type standIn struct {
	letter byte
	char   string
}

// standIns are escapes that hardly any text has.
var standIns = []standIn{{'P', "\u2029"}, {'L', "\u2028"}, {'N', "\u0085"}, {'v', "\v"}, {'a', "\a"}}

// allowSlash starts over with \/ replaced, once. It is false if there is nothing to replace.
func (d *decoder) allowSlash(data []byte) bool {
	if d.stand.letter != 0 || !bytes.Contains(data, []byte(`\/`)) {
		return false
	}
	for _, stand := range standIns {
		if bytes.Contains(data, []byte{'\\', stand.letter}) || bytes.Contains(data, []byte(stand.char)) {
			continue
		}
		d.stand = stand
		d.yaml = yaml.NewDecoder(bytes.NewReader(withoutSlashes(data, stand.letter)))
		return true
	}
	return false
}

// withoutSlashes replaces every \/ whose backslash is not itself escaped.
func withoutSlashes(data []byte, letter byte) []byte {
	out := bytes.Clone(data)
	backslashes := 0
	for i, char := range out {
		switch {
		case char == '\\':
			backslashes++
			continue
		case char == '/' && backslashes%2 == 1:
			out[i] = letter
		}
		backslashes = 0
	}
	return out
}

// correct gives scalars and comments the text that they have in the file.
func (d *decoder) correct(node *yaml.Node) {
	written := strings.NewReplacer(`\`+string(rune(d.stand.letter)), `\/`)
	if node.Style&yaml.DoubleQuotedStyle != 0 {
		node.Value = strings.ReplaceAll(node.Value, d.stand.char, "/")
	} else {
		node.Value = written.Replace(node.Value)
	}
	node.HeadComment = written.Replace(node.HeadComment)
	node.LineComment = written.Replace(node.LineComment)
	node.FootComment = written.Replace(node.FootComment)
	for _, child := range node.Content {
		d.correct(child)
	}
}
