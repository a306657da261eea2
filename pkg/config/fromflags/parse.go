package fromflags

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"kcmd.dev/pkg/config/problem"
	"kcmd.dev/pkg/config/upstream/conversion"
)

// removedFlag is a flag of an earlier release, as it was given.
type removedFlag struct {
	name, text string
	conversion.Removed
}

// parsed is a command line as far as it can be read.
type parsed struct {
	flags   *pflag.FlagSet
	options *options
	removed []removedFlag
	// errs are the errors of upstream, one for each argument that it refuses.
	errs []error
}

// parse reads a command line. The library stops at the first error, so an argument that it
// refuses is noted and left out, and the rest is read from the start.
func parse(args []string) parsed {
	args = slices.Clone(args)
	out := parsed{}
	for {
		out.flags, out.options = newFlags()
		err := out.flags.Parse(args)
		if err == nil {
			break
		}
		name, at, words := refused(err, args)
		if words == 0 {
			out.errs = append(out.errs, err)
			break
		}
		replacement, keep := out.note(err, name, args[at:at+words])
		if !keep {
			replacement = nil
		}
		args = slices.Replace(args, at, at+words, replacement...)
	}
	rest := slices.DeleteFunc(slices.Clone(out.flags.Args()), func(arg string) bool { return arg == "" })
	if len(rest) > 0 {
		out.errs = append(out.errs, fmt.Errorf("%q does not take any arguments, got %q", program, rest))
	}
	return out
}

// note records an argument that the library refuses. A removed flag whose successor takes the
// same values is replaced.
func (p *parsed) note(err error, name string, words []string) (replacement []string, keep bool) {
	var unknown *pflag.NotExistError
	if !errors.As(err, &unknown) {
		p.errs = append(p.errs, err)
		return nil, false
	}
	name = strings.ReplaceAll(name, "_", "-")
	if removed, ok := conversion.RemovedFlag(name); ok {
		p.removed = append(p.removed, removedFlag{name: name, text: strings.Join(words, " "), Removed: removed})
		if !removed.SameValue {
			return nil, false
		}
		replacement = slices.Clone(words)
		replacement[0] = "--" + removed.Instead + words[0][len("--")+len(name):]
		return replacement, true
	}
	p.errs = append(p.errs, suggest(err, name, p.flags))
	return nil, false
}

// suggest adds the nearest flag to the error for one that does not exist.
func suggest(err error, name string, flags *pflag.FlagSet) error {
	names := conversion.RemovedFlags()
	flags.VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
	if best := problem.Nearest(name, names); best != "" {
		return fmt.Errorf("%w, did you mean --%s?", err, best)
	}
	return err
}

// refused finds the words of the argument that an error is about: one, or two if the value
// is a word of its own. It finds none if the error is about something else.
func refused(err error, args []string) (name string, at, words int) {
	name, value, exact := subject(err)
	if name == "" {
		return "", 0, 0
	}
	for i, arg := range args {
		given, inline, hasValue := strings.Cut(strings.TrimLeft(arg, "-"), "=")
		if !strings.HasPrefix(arg, "-") || !sameFlag(given, name) {
			continue
		}
		words = 1
		if !hasValue && i+1 < len(args) && (exact || !strings.HasPrefix(args[i+1], "-")) {
			words, inline = 2, args[i+1]
		}
		if !exact || inline == value {
			return name, i, words
		}
	}
	return "", 0, 0
}

// subject is the flag that an error is about. With exact it is about that value of the flag.
func subject(err error) (name, value string, exact bool) {
	var unknown *pflag.NotExistError
	var invalid *pflag.InvalidValueError
	var noValue *pflag.ValueRequiredError
	switch {
	case errors.As(err, &unknown):
		return unknown.GetSpecifiedName(), "", false
	case errors.As(err, &invalid):
		return invalid.GetFlag().Name, invalid.GetValue(), true
	case errors.As(err, &noValue):
		return noValue.GetFlag().Name, "", false
	}
	return "", "", false
}

func sameFlag(a, b string) bool {
	return strings.ReplaceAll(a, "_", "-") == strings.ReplaceAll(b, "_", "-")
}
