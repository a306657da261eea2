package mutations

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"strings"
)

// outcome is what the go command reported of a test.
type outcome struct {
	// ended is how the test ended: pass, fail or skip; empty if it did not run or has no end.
	ended string
	// built is false if the test did not compile.
	built bool
	// output is that of the test, and of the compiler if it failed.
	output string
}

// event is a line that `go test -json` prints.
type event struct {
	Action, Test, Output string
}

// run runs a test, with an overlay unless that is empty.
func (t Test) run(ctx context.Context, root, overlay string) (outcome, error) {
	// Vet could report the edit, and would be taken for a failure. Nobody needs the symbols of the program.
	args := []string{"test", "-json", "-vet=off", "-ldflags=-s -w", "-run", t.Pattern()}
	if overlay != "" {
		args = append(args, "-count=1", "-overlay", overlay)
	}
	command := exec.CommandContext(ctx, "go", append(args, "./"+t.Package)...)
	command.Dir = root
	var stdout, stderr bytes.Buffer
	command.Stdout, command.Stderr = &stdout, &stderr
	err := command.Run()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		return outcome{}, fmt.Errorf("running %s: %w", t.Full(), err)
	}
	o, failure := outcomeOf(t.Full(), &stdout)
	if failure != nil {
		return outcome{}, fmt.Errorf("running %s: %w\n%s", t.Full(), failure, stderr.String())
	}
	o.output += stderr.String()
	return o, nil
}

// outcomeOf reads what `go test -json` printed.
func outcomeOf(test string, printed *bytes.Buffer) (outcome, error) {
	o := outcome{built: true}
	var output strings.Builder
	lines := bufio.NewScanner(printed)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var e event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			return outcome{}, fmt.Errorf("%w: %s", err, lines.Text())
		}
		switch e.Action {
		case "build-fail":
			o.built = false
		case "build-output", "output":
			output.WriteString(e.Output)
		case "pass", "fail", "skip":
			if e.Test == test {
				o.ended = e.Action
			}
		}
	}
	o.output = output.String()
	return o, lines.Err()
}

// passes is nil if the test passed.
func (o outcome) passes() error {
	switch {
	case !o.built:
		return fmt.Errorf("it does not compile:\n%s", o.output)
	case o.ended != "pass":
		return fmt.Errorf("it does not pass, but ended with %q:\n%s", o.ended, o.output)
	}
	return nil
}

// catches is nil if the test failed, and the failure is its own.
func (o outcome) catches() error {
	switch {
	case !o.built:
		return fmt.Errorf("the mutated code does not compile:\n%s", o.output)
	case o.ended == "pass":
		return errors.New("nothing catches it: the test passes")
	case o.ended != "fail":
		return fmt.Errorf("the test did not fail, but ended with %q:\n%s", o.ended, o.output)
	}
	return nil
}
