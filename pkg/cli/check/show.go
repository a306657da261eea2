package check

import (
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"strings"

	"sigs.k8s.io/yaml"

	"kcmd.dev/pkg/cli/terminal"
	"kcmd.dev/pkg/config"
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
	if r.Comparison != nil {
		fmt.Fprint(out, paintPlan(r.Comparison.Plan.String(), colors))
	}
	switch {
	case r.Skipped == 1:
		fmt.Fprintln(out, "1 document is something else and was skipped")
	case r.Skipped > 1:
		fmt.Fprintf(out, "%d documents are something else and were skipped\n", r.Skipped)
	}
}

// all are the problems of the report: those of files, then those of configurations.
func (r *Report) all() config.Errors {
	all := append(config.Errors{}, r.Problems...)
	for _, c := range r.Configurations {
		all = append(all, c.Problems...)
	}
	return all
}

// paint renders a problem as its Error method does, with its place and what is wrong
// standing out.
func paint(p config.Error, colors terminal.Colors) string {
	place := config.Error{File: p.File, Position: p.Position}.Error()
	rest := strings.TrimPrefix(p.Error(), place)
	if word, message, found := strings.Cut(rest, "warning: "); found && p.Severity == config.SeverityWarning {
		return colors.Bold(place) + word + colors.Yellow("warning:") + " " + message
	}
	if p.Path == "" {
		return colors.Bold(place) + rest
	}
	return colors.Bold(place) + colors.Red(p.Path+":") + strings.TrimPrefix(rest, p.Path+":")
}

var planLine = regexp.MustCompile(`^(\S+ +)(stop|restart|start)( |$)`)

func paintPlan(plan string, colors terminal.Colors) string {
	lines := strings.SplitAfter(plan, "\n")
	for i, line := range lines {
		match := planLine.FindStringSubmatch(strings.TrimSuffix(line, "\n"))
		if match == nil {
			continue
		}
		word := map[config.Action]func(string) string{
			config.Stop: colors.Red, config.Restart: colors.Yellow, config.Start: colors.Green,
		}[config.Action(match[2])]
		lines[i] = match[1] + word(match[2]) + line[len(match[1])+len(match[2]):]
	}
	return strings.Join(lines, "")
}

// JSON writes the report for programs.
func (r *Report) JSON(out io.Writer) error {
	encoder := json.NewEncoder(out)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(r); err != nil {
		return fmt.Errorf("writing the report: %w", err)
	}
	return nil
}

// YAML writes what JSON writes as YAML.
func (r *Report) YAML(out io.Writer) error {
	data, err := yaml.Marshal(r)
	if err != nil {
		return fmt.Errorf("writing the report: %w", err)
	}
	_, err = out.Write(data)
	return err
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
	if c := r.Comparison; c != nil {
		title := fmt.Sprintf("What a change from %s to %s does", c.Old, c.New)
		fmt.Fprintf(out, "::notice title=%s::%s\n", propertyEscapes.Replace(title), messageEscapes.Replace(strings.TrimSuffix(c.Plan.String(), "\n")))
	}
}
