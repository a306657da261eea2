package fromflags

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"kcmd.dev/pkg/config"
	"kcmd.dev/pkg/config/upstream/conversion"
	"kcmd.dev/pkg/config/v1beta1"
)

// Note is something about a conversion that its user should know. Its Field is the flag,
// with its hyphens.
type Note = conversion.Note

// Result is a converted command line.
type Result struct {
	// File is the configuration as a file.
	File []byte
	// Config is the same, complete.
	Config *v1beta1.KubeControllerManagerConfiguration
	// Notes are about the flags that are not simply taken over, in the order of
	// upstream's --help.
	Notes []Note
}

// program is the name of the program whose flags are read.
const program = "kube-controller-manager"

// Convert makes a configuration from a command line, with or without the name of the
// program in front. The error is that of upstream for a command line that upstream
// refuses; otherwise it is of type conversion.Errors and names every flag whose value
// cannot be converted.
func Convert(args []string) (*Result, error) {
	if len(args) > 0 && filepath.Base(args[0]) == program {
		args = args[1:]
	}
	flags, o := newFlags()
	if err := parse(flags, args); err != nil {
		return nil, err
	}
	c := &converter{flags: flags, options: o, fields: map[string]string{}, comments: map[string][]string{}}
	return c.convert()
}

// parse parses the flags; its errors are those of upstream, with a suggestion for a flag
// that does not exist.
func parse(flags *pflag.FlagSet, args []string) error {
	err := flags.Parse(args)
	var unknown *pflag.NotExistError
	if errors.As(err, &unknown) {
		var names []string
		flags.VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
		if best := config.Nearest(unknown.GetSpecifiedName(), names); best != "" {
			return fmt.Errorf("%w, did you mean --%s?", err, best)
		}
		return err
	}
	if err != nil {
		return err
	}
	for _, arg := range flags.Args() {
		if arg != "" {
			return fmt.Errorf("%q does not take any arguments, got %q", program, flags.Args())
		}
	}
	return nil
}

// converter makes a file from parsed flags.
type converter struct {
	flags   *pflag.FlagSet
	options *options
	out     *v1beta1.KubeControllerManagerConfiguration
	notes   []Note
	errs    conversion.Errors
	// fields are, by the v1beta1 field, the flags that decided.
	fields   map[string]string
	comments map[string][]string
}

func (c *converter) convert() (*Result, error) {
	if c.options.help || c.options.version == "true" || c.options.version == "raw" {
		return nil, errors.New("a command line with --help or --version runs nothing: there is nothing to convert")
	}
	c.readMigration()
	c.serviceRanges()
	c.limits()
	if len(c.errs) > 0 {
		return nil, c.errs
	}
	if err := c.convertUpstream(); err != nil {
		return nil, err
	}
	c.takeDirect()
	c.takeSpecial()
	if len(c.errs) > 0 {
		return nil, c.errs
	}
	written, err := conversion.File{Config: c.out}.Written()
	if err != nil {
		return nil, err
	}
	c.describe(written)
	return c.finish()
}

// limits lifts the limits of requests that no flag sets: upstream's default is none here.
func (c *converter) limits() {
	if c.given("kube-api-qps") || c.given("kube-api-burst") {
		return
	}
	c.options.upstream.Generic.ClientConnection.QPS = conversion.Unlimited
	c.note("kube-api-qps", false, "is not given, so that there is no limit: upstream lets each client send 20 requests per second with bursts of 30, "+
		"here the API server's priority and fairness governs; set clientConnection.qps and burst to keep a limit")
}

func (c *converter) given(flag string) bool { return c.flags.Changed(flag) }

// text is the flag as one would write it.
func (c *converter) text(flag string) string {
	value := c.flags.Lookup(flag).Value
	if list, ok := value.(pflag.SliceValue); ok {
		return "--" + flag + "=" + strings.Join(list.GetSlice(), ",")
	}
	return "--" + flag + "=" + strings.TrimSuffix(strings.TrimPrefix(value.String(), "["), "]")
}

func (c *converter) note(flag string, important bool, message string) {
	c.notes = append(c.notes, Note{Field: "--" + flag, Message: message, Important: important})
}

func (c *converter) fail(flag, format string, args ...any) {
	c.errs = append(c.errs, conversion.FieldError{Field: "--" + flag, Message: fmt.Sprintf(format, args...)})
}

// convertUpstream converts what upstream keeps in its configuration type, and turns the
// names of its fields into those of flags.
func (c *converter) convertUpstream() error {
	result, err := conversion.ToHub(c.options.upstream, config.ConversionBuild())
	var problems conversion.Errors
	switch {
	case errors.As(err, &problems):
		for i := range problems {
			problems[i].Field = "--" + flagOf(problems[i].Field)
		}
		return problems
	case err != nil:
		return err
	}
	c.out = result.Config
	for field, path := range result.Origins {
		if flag := flagOf(path); flag != "" {
			c.fields[field] = flag
		}
	}
	for _, note := range result.Notes {
		row, ok := conversion.ByUpstream(path(note.Field))
		if ok && row.Field == "" {
			continue // see describe
		}
		flag := flagOf(note.Field)
		c.note(flag, note.Important, note.Message)
		if note.Important {
			c.comment(flag, "--"+flag+": "+note.Message)
		}
	}
	return nil
}

// comment puts a comment above what the flag became.
func (c *converter) comment(flag, message string) {
	row, _ := conversion.Flag(flag)
	at := strings.ReplaceAll(row.Fields()[0], ".<name>.enabled", "")
	c.comments[at] = append(c.comments[at], message)
}

// path drops the index of a list.
func path(field string) string {
	field, _, _ = strings.Cut(field, "[")
	return field
}

// flagOf is the flag that sets a field of v1alpha1.
func flagOf(field string) string {
	switch field = path(field); {
	case field == "NodeIPAMController.ServiceCIDR", field == "NodeIPAMController.SecondaryServiceCIDR":
		return "service-cluster-ip-range"
	case strings.HasPrefix(field, "Generic.LeaderMigration."):
		return "leader-migration-config"
	}
	row, _ := conversion.ByUpstream(field)
	return row.Flag
}

// takeDirect takes over the values that are parsed straight into fields.
func (c *converter) takeDirect() {
	standard := v1beta1.NewDefault()
	for _, row := range conversion.Table() {
		if row.Flag == "" || row.Upstream != "" || row.Field == "" || row.Conversion() != "" || row.Flag == "bind-address" || !c.given(row.Flag) {
			continue
		}
		value := conversion.Lookup(c.options.direct, row.Field)
		if value.IsZero() {
			value = conversion.Lookup(standard, row.Field) // an empty text means the default
		}
		conversion.Lookup(c.out, row.Field).Set(value)
		c.fields[row.Field] = row.Flag
	}
}

// describe notes each flag that was given and has no trace of its own in the file.
func (c *converter) describe(isWritten func(field string) bool) {
	noted := map[string]bool{}
	for _, note := range c.notes {
		noted[strings.TrimPrefix(note.Field, "--")] = true
	}
	for _, row := range conversion.Table() {
		if row.Flag == "" || !c.given(row.Flag) {
			continue
		}
		written := slices.ContainsFunc(row.Fields(), func(field string) bool { return c.wrote(isWritten, field, row.Flag) })
		switch {
		case row.Field == "":
			c.note(row.Flag, false, c.text(row.Flag)+" is left out: "+row.Why)
		case !written && !noted[row.Flag]:
			c.note(row.Flag, false, c.text(row.Flag)+" is the default here too: the file does not repeat it")
		case written && row.Conversion() != "" && row.Flag != "controllers":
			c.comment(row.Flag, c.text(row.Flag))
		}
		if row.Deprecated != "" {
			c.note(row.Flag, false, "upstream has deprecated the flag: "+row.Deprecated)
		}
	}
	c.sortNotes()
}

// wrote says whether the file sets the field because of the flag.
func (c *converter) wrote(isWritten func(field string) bool, field, flag string) bool {
	if !strings.Contains(field, "<name>") {
		return isWritten(field) && c.fields[field] == flag
	}
	for decided, by := range c.fields {
		if by == flag && isWritten(decided) {
			return true
		}
	}
	return false
}

// sortNotes puts the notes into the order of the table.
func (c *converter) sortNotes() {
	order := map[string]int{}
	for i, row := range conversion.Table() {
		if row.Flag != "" {
			order["--"+row.Flag] = i
		}
	}
	slices.SortStableFunc(c.notes, func(a, b Note) int { return order[a.Field] - order[b.Field] })
}

// finish writes the file and has it checked by the code that will read it.
func (c *converter) finish() (*Result, error) {
	data, err := conversion.File{Config: c.out, Comments: c.comments}.Bytes()
	if err != nil {
		return nil, err
	}
	doc, err := config.Load("", data)
	var problems config.Errors
	switch {
	case errors.As(err, &problems):
		for _, problem := range problems {
			if problem.Severity == config.SeverityError {
				c.refuse(problem)
			}
		}
		return nil, c.errs
	case err != nil:
		return nil, err
	}
	for _, warning := range doc.Warnings {
		c.note(c.blame(warning.Path), false, warning.Path+" "+warning.Message)
	}
	c.sortNotes()
	return &Result{File: data, Config: doc.Config, Notes: c.notes}, nil
}

// refuse turns a problem of the file into one of the flag behind it, and says what
// upstream does with the value.
func (c *converter) refuse(problem config.Error) {
	flag, message := c.blame(problem.Path), problem.Message
	if row, ok := conversion.Flag(flag); ok && row.Refused != "" {
		message += " (" + row.Refused + ")"
	}
	c.fail(flag, "%s", message)
}

// blame returns the flag that is behind a problem of the file.
func (c *converter) blame(field string) string {
	for at := field; at != ""; at = at[:max(0, strings.LastIndexAny(at, ".["))] {
		if flag, ok := c.fields[at]; ok {
			return flag
		}
	}
	return field
}
