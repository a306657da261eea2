package check

import (
	"fmt"
	"io"
	"regexp"
	"strings"

	"kcmd.dev/pkg/cli/terminal"
	"kcmd.dev/pkg/config/plan"
	"kcmd.dev/pkg/config/problem"
)

// Text writes the report for people: results to out, problems to problems.
func (r *Report) Text(out, problems io.Writer, colors terminal.Colors) {
	for _, p := range r.all() {
		fmt.Fprintln(problems, paint(p, colors))
	}
	for _, c := range r.Configurations {
		if c.Valid && !r.comparing {
			fmt.Fprintf(out, "%s is %s\n", c.label, colors.Green("valid"))
		}
	}
	if r.Note != "" {
		fmt.Fprintln(problems, "note: "+r.Note)
	}
	if r.Comparison != nil {
		fmt.Fprint(out, paintPlan(r.Comparison.Plan.String(), colors))
	}
	switch {
	case r.Skipped == 1:
		fmt.Fprintln(out, "1 other document was skipped")
	case r.Skipped > 1:
		fmt.Fprintf(out, "%d other documents were skipped\n", r.Skipped)
	}
}

// all are the problems of the report: those of files, then those of configurations. Those of
// the old configuration are warnings.
func (r *Report) all() problem.Errors {
	all := append(problem.Errors{}, r.Problems...)
	for _, c := range r.Configurations {
		for _, p := range c.Problems {
			if c.Old {
				p.Severity = problem.SeverityWarning
			}
			all = append(all, p)
		}
	}
	return all
}

// paint renders a problem as its Error method does, with its place and what is wrong
// standing out.
func paint(p problem.Error, colors terminal.Colors) string {
	place := problem.Error{File: p.File, Position: p.Position}.Error()
	rest := strings.TrimPrefix(p.Error(), place)
	if word, message, found := strings.Cut(rest, "warning: "); found && p.Severity == problem.SeverityWarning {
		return colors.Bold(place) + word + colors.Yellow("warning:") + " " + message
	}
	if p.Path == "" {
		return colors.Bold(place) + rest
	}
	return colors.Bold(place) + colors.Red(p.Path+":") + strings.TrimPrefix(rest, p.Path+":")
}

var planLine = regexp.MustCompile(`^((?:lease )?\S+ +)(stop|restart|start)( |$)`)

func paintPlan(text string, colors terminal.Colors) string {
	lines := strings.SplitAfter(text, "\n")
	for i, line := range lines {
		match := planLine.FindStringSubmatch(strings.TrimSuffix(line, "\n"))
		if match == nil {
			continue
		}
		word := map[plan.Action]func(string) string{
			plan.Stop: colors.Red, plan.Restart: colors.Yellow, plan.Start: colors.Green,
		}[plan.Action(match[2])]
		lines[i] = match[1] + word(match[2]) + line[len(match[1])+len(match[2]):]
	}
	return strings.Join(lines, "")
}

var (
	// GitHub's runner reads a command up to the end of the line.
	messageEscapes  = strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A")
	propertyEscapes = strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A", ":", "%3A", ",", "%2C")
)

// GitHub writes annotations for a workflow of GitHub Actions: one per problem at its
// place, and the plan as a notice.
func (r *Report) GitHub(out io.Writer) {
	for _, p := range r.all() {
		var properties []string
		add := func(name, value string) { properties = append(properties, name+"="+propertyEscapes.Replace(value)) }
		if p.File != "" {
			add("file", p.File)
		}
		if p.Line > 0 {
			add("line", fmt.Sprint(p.Line))
			add("col", fmt.Sprint(p.Column))
		}
		title := p.Path
		if title == "" {
			title = "configuration of kube-controller-manager"
		}
		add("title", title)
		fmt.Fprintf(out, "::%s %s::%s\n", p.Severity, strings.Join(properties, ","), messageEscapes.Replace(p.Message))
	}
	if r.Note != "" {
		fmt.Fprintf(out, "::notice title=Comparison with an invalid configuration::%s\n", messageEscapes.Replace(r.Note))
	}
	if c := r.Comparison; c != nil {
		title := fmt.Sprintf("Effect of a change from %s to %s", c.Old, c.New)
		fmt.Fprintf(out, "::notice title=%s::%s\n",
			propertyEscapes.Replace(title), messageEscapes.Replace(strings.TrimSuffix(c.Plan.String(), "\n")))
	}
}
