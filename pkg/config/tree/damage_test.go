package tree

import (
	"strings"
	"testing"
	"unicode/utf16"

	"kcmd.dev/pkg/config/problem"
)

const head = "apiVersion: config.kcmd.dev/v1beta1\nkind: KubeControllerManagerConfiguration\n"

// utf16Of encodes a text, the low byte first if little is set.
func utf16Of(text string, little bool) string {
	var out strings.Builder
	for _, unit := range utf16.Encode([]rune(text)) {
		high, low := byte(unit>>8), byte(unit)
		if little {
			high, low = low, high
		}
		out.WriteByte(high)
		out.WriteByte(low)
	}
	return out.String()
}

// A file that was damaged as a whole gets one message, which says how.
func TestDamagedFiles(t *testing.T) {
	const template = " is part of a template that was not rendered: use the output of the template"
	const utf16le, zeros = "the file is UTF-16LE: it must be UTF-8 text, convert it with iconv -f UTF-16LE -t UTF-8", ": the file must be UTF-8 text; was it written completely?"
	tests := []struct{ name, file, want string }{
		{"UTF-16 with a mark", "\xff\xfe" + utf16Of(head, true), "1:1: the file is UTF-16: it must be UTF-8 text, convert it with iconv -f UTF-16 -t UTF-8"},
		{"big-endian UTF-16 with a mark", "\xfe\xff" + utf16Of(head, false), "1:1: the file is UTF-16: it must be UTF-8 text, convert it with iconv -f UTF-16 -t UTF-8"},
		{"UTF-16", utf16Of(head, true), "1:1: " + utf16le},
		{"big-endian UTF-16", utf16Of(head, false), "1:1: " + strings.ReplaceAll(utf16le, "LE", "BE")},
		{"UTF-32", "\xff\xfe\x00\x00a\x00\x00\x00", "1:1: the file is UTF-32: it must be UTF-8 text, convert it with iconv -f UTF-32 -t UTF-8"},
		{"zeros at the end", head + strings.Repeat("\x00", 4096), "3:1: NUL byte, the first of 4096" + zeros},
		{"zeros in two places", "\x00" + head + "\x00", "1:1: NUL byte, the first of 2" + zeros},
		{"only zeros", strings.Repeat("\x00", 512), "1:1: NUL byte, the first of 512" + zeros},
		{
			"a conflict", head + "<<<<<<< HEAD\nlogging: {verbosity: 1}\n=======\nlogging: {verbosity: 2}\n>>>>>>> branch\n",
			"3:1: merge conflict marker: resolve the conflict in lines 3 to 7",
		},
		{
			"a conflict with its base", "logging:\r\n<<<<<<< ours\r\n  verbosity: 1\r\n||||||| base\r\n  verbosity: 0\r\n=======\r\n  verbosity: 2\r\n>>>>>>> theirs\r\n",
			"2:1: merge conflict marker: resolve the conflict in lines 2 to 8",
		},
		{
			"two conflicts", "<<<<<<< a\nx: 1\n=======\nx: 2\n>>>>>>> b\ny: 1\n<<<<<<< a\nz: 1\n=======\nz: 2\n>>>>>>> b\n",
			"1:1: merge conflict marker: resolve the conflict in lines 1 to 5",
		},
		{"a leftover marker", head + "=======\n", "3:1: merge conflict marker: remove this line"},
		{"a value of a template", head + "logging: {verbosity: {{ .Values.v }}}\n", "3:22: logging.verbosity: {{ … }}" + template},
		{"a block of a template", head + "{{- if .Values.x }}\nlogging: {}\n{{- end }}\n", "3:1: {{- if .Values.x }}" + template},
		{"an include", head + "logging:\n  {{ include \"logging\" . | nindent 2 }}\n", "4:3: logging: {{ … }}" + template},
		{"another language", head + "logging:\n  verbosity: {% raw %}\n", "4:14: {% raw %}" + template},
		{"the name of a template in a comment", head + "# {{ .Values.v }}\nlogging: {verbosity: 2\n", "4:10: not valid YAML: did not find expected ',' or '}'"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			r := &problem.Report{}
			Read([]byte(test.file), r)
			if got := r.Errors().Error(); strings.TrimSpace(got) != test.want {
				t.Errorf("problems are\n%s\nwant\n%s", got, test.want)
			}
		})
	}
}

func TestSyntaxErrorsHaveAColumn(t *testing.T) {
	tests := []struct{ name, file, want string }{
		{"a version of YAML", "# a\n%YAML 1.2\n---\na: 1\n", "2:1: not valid YAML: no other version than 1.1 can be declared: remove this line"},
		{"two values", "a:\n  b: 1: 2\n", "2:7: not valid YAML: mapping values are not allowed in this context"},
		{"two values after a quote", "a:\n  \"b: c\": 1: 2\n", "2:12: not valid YAML: mapping values are not allowed in this context"},
		{"an open quote", "a: 1\nb: {c: 'it''s\n", "2:8: not valid YAML: found unexpected end of stream"},
		{"an apostrophe in a word", "a: it's\nb: \"x\n", "2:4: not valid YAML: found unexpected end of stream"},
		{"an escape", "a: 1\nü: \"\\\\ \\q\"\n", "2:8: not valid YAML: found unknown escape character"},
		{"a reserved character", "a: 1\nb: @x\n", "2:4: not valid YAML: found character that cannot start any token"},
		{"a backtick in a list", "a: 1\nb: [x, `y]\n", "2:8: not valid YAML: found character that cannot start any token"},
		{"an open brace", "a: 1\nb: {c: [1, 2], d: 3\ne: 4\n", "2:4: not valid YAML: did not find expected ',' or '}'"},
		{"a list behind a key", "a: 1\nb: - c\n", "2:4: not valid YAML: block sequence entries are not allowed in this context"},
		{"an alias without a name", "a: 1\nb: * x\n", "2:4: not valid YAML: did not find expected alphabetic or numeric character"},
		{
			"an indentation that no line above has", head + "controllers:\n  a:\n    b: 1\n    c: |\n      x\n       y\n   d:\n    b: 1\n",
			"9:4: not valid YAML: did not find expected key: is this line indented like those that it belongs to?",
		},
		{
			"an element of a list where a key is due", head + "a:\n  b: 1\n  - c\n",
			"5:3: not valid YAML: did not find expected key: is this line indented like those that it belongs to?",
		},
		{
			"a key where an element of a list is due", head + "a:\n  - b: 1\n    c: 2\n  - b: [3,\n   4]\n  c: 4\n",
			"8:3: not valid YAML: did not find expected '-' indicator: is this line indented like those that it belongs to?",
		},
		{
			"text after quotes", head + "a:\n  b: 1\n  c: \"x\" y\n",
			"5:3: not valid YAML: did not find expected key: is this line indented like those that it belongs to?",
		},
		{"JSON without a comma", "{\"a\": 1,\n \"b\": {\"c\": 2 \"d\": 3}}", "2:15: not valid JSON: invalid character '\"' after object key:value pair"},
		{"JSON that ends", "{\"a\": {\"b\": 1}", "1:14: not valid JSON: unexpected end of JSON input"},
		{"JSON without a quote", "{\n  \"a\": \"b,\n  \"c\": 1\n}\n", "2:11: not valid JSON: invalid character '\\n' in string literal"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			r := &problem.Report{}
			Read([]byte(test.file), r)
			if got := strings.TrimSpace(r.Errors().Error()); got != test.want {
				t.Errorf("problems are\n%s\nwant\n%s", got, test.want)
			}
		})
	}
}

// JSON may escape a slash. Other text with a backslash stays as it is.
func TestEscapedSlashes(t *testing.T) {
	tests := []struct{ name, file, want string }{
		{"JSON", `{"a": "x\/y\/\/z"}`, "x/y//z"},
		{"an escaped backslash", `{"a": "\\/\/\\\/"}`, `\//\/`},
		{"other escapes", `{"a": "\/\t\u00e4\\P"}`, "/\tä\\P"},
		{"YAML", "a: \"\\/x\"\nb: x\n", "/x"},
		{"beside single quotes", "a: 'x\\/y' # \\/\nb: \"\\/\"\n", `x\/y`},
		{"beside a plain word", "a: x\\/y\nb: \"\\/\"\n", `x\/y`},
		{"beside a block", "a: |-\n  \"x\\/y\"\nb: \"\\/\"\n", `"x\/y"`},
		{"beside a rare escape", "{\"a\": \"\\/\u2029\\P\"}", "/\u2029\u2029"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			r := &problem.Report{}
			root := Read([]byte(test.file), r)
			if root == nil {
				t.Fatal(r.Errors())
			}
			if got := root.Get("a").Value; got != test.want {
				t.Errorf("the value is %q, want %q", got, test.want)
			}
		})
	}
	r := &problem.Report{}
	root := Read([]byte(`{"a": "\/", "b": 1}`), r)
	if root == nil || root.Get("b").At != (problem.Position{Line: 1, Column: 18}) {
		t.Errorf("the value after an escape is %+v (%v), want it in column 18", root, r.Errors())
	}
	r = &problem.Report{}
	if root := Read([]byte("a: \"\\/ \\q\"\n"), r); root != nil || !strings.Contains(r.Errors().Error(), "unknown escape character") {
		t.Errorf("an escape that does not exist leads to %+v (%v)", root, r.Errors())
	}
}
