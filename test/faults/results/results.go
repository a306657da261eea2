// Package results keeps what came of the faults that were injected (test/faults), over many runs of `make faults`.
//
//  1. Each run of a scenario adds to the file, fault by fault: how many faults its reference run reports, by pattern,
//     how many of them were injected, and under which of them something was violated.
//  2. A run of some faults of a scenario does not take away from an earlier one of more. So the file never says that
//     more were injected than one run has.
//  3. A violation is kept. It is settled once the same fault was injected again and nothing was violated.
//
// docs/proof.md has it as a table.
package results

import (
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"
)

// Count is how many faults of a pattern there are in a scenario, and how many of them were injected.
type Count struct{ Injected, Exist int }

func (c Count) String() string { return fmt.Sprintf("%d of %d", c.Injected, c.Exist) }

// MarshalText implements encoding.TextMarshaler.
func (c Count) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (c *Count) UnmarshalText(text []byte) error {
	if _, err := fmt.Sscanf(string(text), "%d of %d", &c.Injected, &c.Exist); err != nil {
		return fmt.Errorf("%q is not like \"1 of 2\": %w", text, err)
	}
	return nil
}

// Scenario is what came of the faults of one scenario.
type Scenario struct {
	// Faults are counted by pattern.
	Faults map[string]Count `json:"faults"`
	// Open and Settled are the faults under which something was violated, by name and in order.
	Open    []string `json:"open,omitempty"`
	Settled []string `json:"settled,omitempty"`
}

// Results are those of all scenarios, by name.
type Results map[string]Scenario

// Injection is one fault that was injected.
type Injection struct {
	Pattern string
	// Name is that of the fault, with the pattern.
	Name     string
	Violated bool
}

// Run is what one run of a scenario has done so far.
type Run struct {
	// Exist is how many faults there are, by pattern.
	Exist    map[string]int
	Injected []Injection
}

// Add adds a run of a scenario.
func (r Results) Add(scenario string, run Run) {
	was := r[scenario]
	now := Scenario{Faults: map[string]Count{}, Open: slices.Clone(was.Open), Settled: slices.Clone(was.Settled)}
	injected := map[string]int{}
	for _, i := range run.Injected {
		injected[i.Pattern]++
		isOpen := slices.Contains(now.Open, i.Name)
		switch {
		case i.Violated:
			now.Open, now.Settled = with(now.Open, i.Name), without(now.Settled, i.Name)
		case isOpen:
			now.Open, now.Settled = without(now.Open, i.Name), with(now.Settled, i.Name)
		}
	}
	for pattern, n := range run.Exist {
		now.Faults[pattern] = Count{max(injected[pattern], min(n, was.Faults[pattern].Injected)), n}
	}
	r[scenario] = now
}

func with(names []string, name string) []string {
	if slices.Contains(names, name) {
		return names
	}
	names = append(names, name)
	slices.Sort(names)
	return names
}

func without(names []string, name string) []string {
	return slices.DeleteFunc(names, func(other string) bool { return other == name })
}

//go:embed results.json
var stored []byte

// Stored returns the results that belong to this code.
func Stored() (Results, error) { return decode(stored) }

func decode(data []byte) (Results, error) {
	all := Results{}
	if err := json.Unmarshal(data, &all); err != nil {
		return nil, fmt.Errorf("decoding the results: %w", err)
	}
	return all, nil
}

// load reads a file, which need not exist.
func load(path string) (Results, error) {
	data, err := os.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return Results{}, nil
	case err != nil:
		return nil, fmt.Errorf("reading the results: %w", err)
	}
	return decode(data)
}

// lock waits until nobody else records in a folder, this process or another.
func lock(folder string) (unlock func() error, err error) {
	opened, err := os.Open(folder)
	if err != nil {
		return nil, fmt.Errorf("opening the folder of the results: %w", err)
	}
	if err := syscall.Flock(int(opened.Fd()), syscall.LOCK_EX); err != nil {
		return nil, errors.Join(fmt.Errorf("locking the folder of the results: %w", err), opened.Close())
	}
	return opened.Close, nil
}

// Record adds a run of a scenario to a file. Scenarios may be recorded side by side, by several processes too.
func Record(path, scenario string, run Run) (err error) {
	unlock, err := lock(filepath.Dir(path))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	all, err := load(path)
	if err != nil {
		return err
	}
	all.Add(scenario, run)
	data, err := json.MarshalIndent(all, "", "  ")
	if err != nil {
		return fmt.Errorf("encoding the results: %w", err)
	}
	temporary := path + ".new"
	if err := os.WriteFile(temporary, append(data, '\n'), 0o644); err != nil {
		return fmt.Errorf("writing the results: %w", err)
	}
	return os.Rename(temporary, path)
}
