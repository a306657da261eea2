package tree

import (
	"bytes"
	"regexp"
	"strings"
	"unicode/utf8"

	"kcmd.dev/pkg/config/problem"
)

// otherEncoding names the encoding of a text that is not UTF-8, as iconv calls it; it is empty if
// the text may be UTF-8. Without a byte order mark, it goes by the zeros between the letters.
func otherEncoding(data []byte) string {
	for _, mark := range []struct{ bytes, name string }{
		{"\xff\xfe\x00\x00", "UTF-32"}, {"\x00\x00\xfe\xff", "UTF-32"}, {"\xff\xfe", "UTF-16"}, {"\xfe\xff", "UTF-16"},
	} {
		if bytes.HasPrefix(data, []byte(mark.bytes)) {
			return mark.name
		}
	}
	const shown = 4 // letters of ASCII, as every configuration begins with
	if len(data) < 2*shown {
		return ""
	}
	even, odd := 0, 0
	for i := 0; i < 2*shown; i += 2 {
		if data[i] == 0 {
			even++
		}
		if data[i+1] == 0 {
			odd++
		}
	}
	switch {
	case even == 0 && odd == shown:
		return "UTF-16LE"
	case even == shown && odd == 0:
		return "UTF-16BE"
	}
	return ""
}

// zeros are the NUL bytes of a file. A file whose blocks were never written has thousands.
type zeros struct {
	first problem.Position
	count int
}

func (z *zeros) add(at problem.Position) {
	if z.count == 0 {
		z.first = at
	}
	z.count++
}

func (z *zeros) report(r *problem.Report) {
	switch {
	case z.count == 1:
		r.Errorf(z.first, "", "NUL byte: the file must be UTF-8 text")
	case z.count > 1:
		r.Errorf(z.first, "", "NUL byte, the first of %d: the file must be UTF-8 text; was it written completely?", z.count)
	}
}

var (
	conflictMarker = regexp.MustCompile(`^(<{7}|={7}|>{7}|\|{7})( .*)?$`)
	templateAction = regexp.MustCompile(`\{\{.*?\}\}|\{\{|\{%.*?%\}|<%.*?%>`)
)

// reportDamage reports what made a file invalid YAML if a tool left it there. It is false if
// nothing is found.
func reportDamage(lines []string, r *problem.Report) bool {
	return reportConflict(lines, r) || reportTemplate(lines, r)
}

// reportConflict reports the markers of a merge that was not finished.
func reportConflict(lines []string, r *problem.Report) bool {
	first, last := 0, 0
	for i, line := range lines {
		if !conflictMarker.MatchString(strings.TrimSuffix(line, "\r")) {
			continue
		}
		if first == 0 {
			first = i + 1
		}
		last = i + 1
		if strings.HasPrefix(line, ">") {
			break
		}
	}
	switch {
	case first == 0:
		return false
	case first == last:
		r.Errorf(problem.Position{Line: first, Column: 1}, "", "merge conflict marker: remove this line")
	default:
		r.Errorf(problem.Position{Line: first, Column: 1}, "",
			"merge conflict marker: resolve the conflict in lines %d to %d", first, last)
	}
	return true
}

// reportTemplate reports the first action of a template that was not rendered.
func reportTemplate(lines []string, r *problem.Report) bool {
	for i, line := range lines {
		if strings.HasPrefix(strings.TrimSpace(line), "#") {
			continue
		}
		if at := templateAction.FindStringIndex(line); at != nil {
			position := problem.Position{Line: i + 1, Column: utf8.RuneCountInString(line[:at[0]]) + 1}
			r.Errorf(position, "", NotRendered, problem.Shorten(line[at[0]:at[1]]))
			return true
		}
	}
	return false
}

// IsTemplate reports whether a text has an action of a template in it.
func IsTemplate(text string) bool {
	before, _, found := strings.Cut(text, "}}")
	return found && strings.Contains(before, "{{")
}

// NotRendered is the format of the message about an action of a template.
const NotRendered = "%s is part of a template that was not rendered: use the output of the template"
