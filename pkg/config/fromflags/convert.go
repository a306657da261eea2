package fromflags

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"kcmd.dev/pkg/config"
	"kcmd.dev/pkg/config/problem"
	"kcmd.dev/pkg/config/rules"
	"kcmd.dev/pkg/config/upstream/conversion"
	"kcmd.dev/pkg/config/v1beta1"
)

// Note is what a user should know about a conversion. Its Field is the flag, with its
// hyphens.
type Note = conversion.Note

// Result is a converted command line.
type Result struct {
	// File is the configuration as a file.
	File []byte
	// Config is the same, complete.
	Config *v1beta1.KubeControllerManagerConfiguration
	// Notes are about the flags that are not copied unchanged, in the order of upstream's
	// --help.
	Notes []Note
}

// program is the name of the program whose flags are read.
const program = "kube-controller-manager"

const (
	flushFlag = "log-flush-frequency"
	pathsFlag = "authorization-always-allow-paths"
)

// Convert makes a configuration from a command line, with or without the name of the
// program in front. The error is that of upstream for a command line that upstream
// refuses; otherwise it is of type conversion.Errors and names every flag whose value
// cannot be converted.
func Convert(args []string) (*Result, error) {
	if len(args) > 0 && isProgram(args[0]) {
		args = args[1:]
	}
	p := parse(args)
	c := &converter{
		flags:    p.flags,
		options:  p.options,
		fields:   map[string]string{},
		fitted:   map[string]string{},
		comments: map[string][]string{},
	}
	for _, flag := range p.removed {
		c.noteRemoved(flag)
	}
	result, err := c.convert()
	return result, join(p.errs, err)
}

// join puts the errors of the command line before those of values; nil if there are none.
func join(parsing []error, err error) error {
	if len(parsing) == 0 {
		return err
	}
	return errors.Join(append(parsing, err)...)
}

// converter makes a file from parsed flags.
type converter struct {
	flags   *pflag.FlagSet
	options *options
	out     *v1beta1.KubeControllerManagerConfiguration
	notes   []Note
	errs    conversion.Errors
	// fields are, by the v1beta1 field, the flags that decided.
	fields map[string]string
	// fitted are, by flag, the messages of values that were brought into their range.
	fitted   map[string]string
	comments map[string][]string
}

func (c *converter) convert() (*Result, error) {
	if c.options.help || c.options.version == "true" || c.options.version == "raw" {
		return nil, errors.New("a command line with --help or --version runs nothing: there is nothing to convert")
	}
	c.readMigration()
	c.serviceRanges()
	c.limits()
	if err := c.convertV1alpha1(); err != nil {
		return nil, err
	}
	c.takeDirect()
	c.takeSpecial()
	c.halfAuthority()
	c.fit()
	written, err := conversion.File{Config: c.out}.Written()
	if err != nil {
		return nil, err
	}
	c.describe(written)
	return c.finish()
}

// limits removes the request limits that no flag sets: upstream's defaults do not apply here.
func (c *converter) limits() {
	if c.given("kube-api-burst") && c.options.upstream.Generic.ClientConnection.QPS < 0 {
		c.note("kube-api-burst", c.text("kube-api-burst")+
			" is left out: a negative --kube-api-qps means no limit, upstream too")
	}
	if c.given("kube-api-qps") || c.given("kube-api-burst") {
		return
	}
	c.options.upstream.Generic.ClientConnection.QPS = conversion.Unlimited
	c.note("kube-api-qps",
		"is not set, so there is no limit: upstream lets each client send 20 requests per second with bursts of 30, "+
			"here API Priority and Fairness applies; set clientConnection.qps and burst to keep a limit")
}

func (c *converter) given(flag string) bool { return c.flags.Changed(flag) }

// text returns the flag as it is written on a command line.
func (c *converter) text(flag string) string {
	value := c.flags.Lookup(flag).Value
	if flag == "feature-gates" {
		// The library prints an empty name of a component with its colon.
		return "--" + flag + "=" + strings.ReplaceAll(","+value.String(), ",:", ",")[1:]
	}
	if list, ok := value.(pflag.SliceValue); ok {
		return "--" + flag + "=" + strings.Join(list.GetSlice(), ",")
	}
	text := value.String()
	if value.Type() != "string" {
		text = strings.TrimSuffix(strings.TrimPrefix(text, "["), "]") // which the library puts around lists
	}
	return "--" + flag + "=" + text
}

func (c *converter) note(flag, message string) { c.addNote(flag, message, false) }

func (c *converter) noteImportant(flag, message string) { c.addNote(flag, message, true) }

func (c *converter) addNote(flag, message string, important bool) {
	c.notes = append(c.notes, Note{Field: "--" + flag, Message: message, Important: important})
}

func (c *converter) fail(flag, format string, args ...any) {
	c.errs = append(c.errs, conversion.FieldError{Field: "--" + flag, Message: fmt.Sprintf(format, args...)})
}

// convertV1alpha1 converts what upstream keeps in its configuration type, and turns the
// names of its fields into those of flags.
func (c *converter) convertV1alpha1() error {
	result, err := conversion.ToHub(c.options.upstream)
	var problems conversion.Errors
	switch {
	case errors.As(err, &problems):
		for _, p := range problems {
			c.fail(flagOf(p.Field), "%s", p.Message)
		}
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
		c.addNote(flag, note.Message, note.Important)
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

// takeDirect copies the values that are parsed straight into fields.
func (c *converter) takeDirect() {
	standard := v1beta1.NewDefault()
	for _, row := range conversion.Table() {
		isDirect := row.Flag != "" && row.Upstream == "" && row.Field != "" && row.Conversion() == ""
		if !isDirect || row.Flag == "bind-address" || !c.given(row.Flag) {
			continue
		}
		value := conversion.Lookup(c.options.direct, row.Field)
		if row.Flag == flushFlag && c.options.direct.Logging.FlushFrequency.Duration.Duration == 0 {
			// Defaulting would take it for a field that is not set.
			c.fail(flushFlag, "must be %s, not 0s (%s)", rules.ByPath()[row.Field].Allowed(), row.Refused)
			continue
		}
		if value.Kind() != reflect.Struct && value.IsZero() {
			value = conversion.Lookup(standard, row.Field) // an empty text means the default
		}
		if row.Flag == pathsFlag {
			value = reflect.ValueOf(c.withoutEmpty(value.Interface().([]string)))
		}
		conversion.Lookup(c.out, row.Field).Set(value)
		c.fields[row.Field] = row.Flag
	}
}

// withoutEmpty writes an empty path, as a comma at the end of a list makes it, as what upstream reads it as.
func (c *converter) withoutEmpty(paths []string) []string {
	if !slices.Contains(paths, "") {
		return paths
	}
	c.note(pathsFlag, "an empty path becomes /, as upstream reads it")
	out := slices.Clone(paths)
	for i, path := range out {
		if path == "" {
			out[i] = "/"
		}
	}
	return out
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
			c.note(row.Flag, c.text(row.Flag)+" is left out: "+row.Why)
		case !written && c.overridden(row) != "":
			c.note(row.Flag, c.text(row.Flag)+" is left out: it has no effect with --"+c.overridden(row))
		case !written && !noted[row.Flag]:
			c.note(row.Flag, c.text(row.Flag)+" is the default here too: it is left out of the file")
		case written && row.Conversion() != "" && row.Flag != "controllers":
			c.comment(row.Flag, c.text(row.Flag))
		}
		if row.Deprecated != "" {
			c.note(row.Flag, "upstream has deprecated the flag: "+row.Deprecated)
		}
	}
	c.sortNotes()
}

// overridden is the flag that decided the only field of another one, or empty. A switch that is off
// overrides nothing, and is not overridden.
func (c *converter) overridden(row conversion.Row) string {
	if by := c.fields[row.Field]; by != row.Flag && c.flags.Lookup(row.Flag).Value.String() != "false" {
		return by
	}
	return ""
}

// wrote reports whether the file sets the field because of the flag.
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

// noteRemoved notes a flag that 1.36 does not have any more.
func (c *converter) noteRemoved(flag removedFlag) {
	reason := ": Kubernetes " + flag.Release + " removed the flag, and upstream 1.36 does not start with it"
	message := flag.text + " is left out" + reason
	switch {
	case flag.SameValue:
		message = flag.text + " is read as --" + flag.Instead + reason
	case flag.Instead != "":
		message += "; its successor is --" + flag.Instead
	}
	c.noteImportant(flag.name, message)
}

// sortNotes puts the notes into the order of the table.
func (c *converter) sortNotes() {
	order := flagOrder()
	slices.SortStableFunc(c.notes, func(a, b Note) int { return order[a.Field] - order[b.Field] })
}

// flagOrder is the order of the table; what is not in it comes first.
func flagOrder() map[string]int {
	order := map[string]int{}
	for i, row := range conversion.Table() {
		if row.Flag != "" {
			order["--"+row.Flag] = i + 1
		}
	}
	return order
}

// finish writes the file and checks it with the code that will read it.
func (c *converter) finish() (*Result, error) {
	data, err := conversion.File{Config: c.out, Comments: c.comments}.Bytes()
	if err != nil {
		return nil, err
	}
	doc, err := config.Load("", data)
	var problems problem.Errors
	switch {
	case errors.As(err, &problems) && c.leaveOut(problems):
		return c.finish()
	case errors.As(err, &problems):
		for _, p := range problems {
			if p.Severity == problem.SeverityError {
				c.refuse(p)
			}
		}
	case err != nil:
		return nil, err
	}
	if len(c.errs) > 0 {
		return nil, c.sorted()
	}
	for _, warning := range doc.Warnings {
		c.note(c.blame(warning.Path), warning.Path+" "+warning.Message)
	}
	c.sortNotes()
	return &Result{File: data, Config: doc.Config, Notes: c.notes}, nil
}

// refuse turns a problem of the file into one of the flag that caused it, and adds what
// upstream does with the value.
func (c *converter) refuse(p problem.Error) {
	flag, message := c.blame(p.Path), p.Message
	if fitted, ok := c.fitted[flag]; ok {
		message = fitted + ", and then " + message
	}
	row, ok := conversion.Flag(flag)
	if ok && row.Refused != "" {
		message += " (" + row.Refused + ")"
	}
	if inside, found := strings.CutPrefix(p.Path, row.Field+"."); ok && found && row.Field != "" {
		message = inside + ": " + message // such as the gate
	}
	c.fail(flag, "%s", message)
}

// sorted are the errors in the order of upstream's --help, each once.
func (c *converter) sorted() conversion.Errors {
	order := flagOrder()
	out := slices.Clone(c.errs)
	slices.SortStableFunc(out, func(a, b conversion.FieldError) int { return order[a.Field] - order[b.Field] })
	return slices.Compact(out)
}

// blame returns the flag that caused a problem of the file: one that decided the field or a block around
// it, or the first one that decided something in it.
func (c *converter) blame(field string) string {
	for at := field; at != ""; at = at[:max(0, strings.LastIndexAny(at, ".["))] {
		if flag, ok := c.fields[at]; ok {
			return flag
		}
	}
	if inside := c.within(field); len(inside) > 0 {
		return c.fields[inside[0]]
	}
	return field
}
