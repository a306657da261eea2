package why

import (
	"fmt"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"kcmd.dev/pkg/runtime/plain"
)

// Text is the answer for people, safe to show on a terminal.
func (a *Answer) Text() string {
	var text strings.Builder
	fmt.Fprintf(&text, "%s\n\n", a.Object)
	for _, f := range a.Findings {
		fmt.Fprintf(&text, "* %s\n", strings.Join(strings.Fields(f), " "))
	}
	text.WriteByte('\n')
	a.writeControllers(&text)
	a.writeKeys(&text)
	a.writeWrites(&text)
	return plain.Text(text.String())
}

// String is the object as in kubectl, with its namespace.
func (o Object) String() string {
	name := o.Resource
	if o.Name != "" {
		name += "/" + o.Name
	}
	if o.Namespace != "" {
		name += " -n " + o.Namespace
	}
	return name
}

// rows writes lines whose cells are separated by tabs in columns.
func rows(text *strings.Builder, write func(row func(cells ...string))) {
	w := tabwriter.NewWriter(text, 0, 0, 2, ' ', 0)
	write(func(cells ...string) {
		for i, cell := range cells {
			if cells[i] = strings.Join(strings.Fields(cell), " "); cells[i] == "" {
				cells[i] = "-"
			}
		}
		fmt.Fprintln(w, strings.Join(cells, "\t"))
	})
	_ = w.Flush() // a builder does not fail
	text.WriteByte('\n')
}

func (a *Answer) writeControllers(text *strings.Builder) {
	if len(a.Controllers) == 0 {
		return
	}
	rows(text, func(row func(...string)) {
		row("CONTROLLER", "STATE", "REASON")
		for _, c := range a.Controllers {
			row(c.Name, string(c.State), c.Reason)
		}
	})
}

func (a *Answer) writeKeys(text *strings.Builder) {
	if len(a.Keys) == 0 {
		return
	}
	rows(text, func(row func(...string)) {
		row("KEY", "CONTROLLER", "QUEUE", "STATE", "TIME", "TRIGGER", "RETRIES", "LAST ERROR")
		for _, k := range a.Keys {
			at := "since " + k.Since.UTC().Format(time.TimeOnly)
			if k.Since.IsZero() {
				at = "until " + k.Until.UTC().Format(time.TimeOnly)
			}
			row(k.Key, k.Controller, k.Queue, string(k.State), at, k.Trigger, strconv.Itoa(k.Retries), k.LastError)
		}
	})
}

func (a *Answer) writeWrites(text *strings.Builder) {
	if len(a.Writes) == 0 {
		text.WriteString("No write of it is remembered")
	} else {
		rows(text, func(row func(...string)) {
			row("TIME (UTC)", "CONTROLLER", "KEY", "TRIGGER", "VERB", "OBJECT", "RESULT", "TOOK", "GENERATION", "TERM")
			for _, w := range a.Writes {
				row(w.Time.UTC().Format("01-02 15:04:05.000"), w.Controller, w.Key, w.Trigger, w.Verb, w.what(), w.result(),
					(time.Duration(w.Took * float64(time.Second))).Round(time.Millisecond).String(),
					strconv.FormatUint(w.Generation, 10), strconv.FormatUint(w.Term, 10))
			}
		})
		fmt.Fprintf(text, "%d earlier writes of it are remembered", a.Earlier)
	}
	if a.Since.IsZero() {
		text.WriteString(": this process has written nothing yet.\n")
		return
	}
	fmt.Fprintf(text, "; the memory of this process reaches back to %s.\n", a.Since.UTC().Format(time.RFC3339))
}

// what is the object of a write.
func (w Write) what() string {
	resource := w.Object.Resource
	if w.Subresource != "" {
		resource += "/" + w.Subresource
	}
	return resource + " " + w.Object.Name
}

// result is the outcome of a write.
func (w Write) result() string {
	code := "no response"
	if w.Code != 0 {
		code = strconv.Itoa(w.Code)
	}
	if w.Error != "" {
		code += " " + w.Error
	}
	return code
}
