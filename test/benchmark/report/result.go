// Package report keeps the results of the benchmark and makes tables, plots and the
// pages of the documentation from them.
//
//  1. A Result is one measurement: one phase of a scenario, one subject, one round.
//     Results are kept in a JSON file; a run replaces the results of the scenarios and
//     modes it repeats and leaves the others.
//  2. For several rounds the median is shown, and as spread the distance of the farthest
//     value from it. A ratio is that of two medians, ours to upstream's.
//  3. A result is void when its end state is not the expected one, or differs between
//     the subjects. Void results are listed with the reason and enter no figure.
//  4. Every number in the documentation is computed here from the checked-in results:
//     the generated part of a page and the plots are the same, byte for byte, whenever
//     they are rendered; a test compares.
package report

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// Subjects of the comparison.
const (
	Ours     = "kcmd"
	Upstream = "upstream"
)

// Names of figures. Those that end in a unit are in that unit.
const (
	CPU         = "cpuSeconds"
	Wall        = "wallSeconds"
	PeakRSS     = "peakRSSMiB"
	RSS         = "rssMiB"
	Anonymous   = "anonymousMiB" // the part of rssMiB that is not the program's file
	Heap        = "heapMiB"      // what is alive after a collection, where that was asked for
	Writes      = "writes"       // of objects; not of events, leases and credentials
	Events      = "events"       // creations and patches of events
	Gets        = "gets"         // reads of single objects
	Lists       = "lists"        // requests for all objects of a kind
	Watches     = "watches"      // watches opened
	Credentials = "credentials"  // tokens requested, and reviews of others' rights
	Received    = "receivedMiB"  // everything the process read, nearly all from the API server
)

// Result is one measurement.
type Result struct {
	// Scenario is what was run, Phase the part of it that was measured.
	Scenario string `json:"scenario"`
	Phase    string `json:"phase"`
	// Mode says which client limits the subjects had.
	Mode    string `json:"mode"`
	Subject string `json:"subject"`
	Round   int    `json:"round"`
	// Size says in words what was done, for the scale that was chosen.
	Size string `json:"size"`
	// Units is how many of Unit were done: figures per unit are divided by it.
	Units float64 `json:"units"`
	Unit  string  `json:"unit"`
	// Figures holds what was measured, by the names above.
	Figures map[string]float64 `json:"figures,omitempty"`
	// Requests counts requests by verb and resource, for example "create pods".
	Requests map[string]int `json:"requests,omitempty"`
	// EndState describes what was there at the end, in a form to be compared.
	EndState string `json:"endState,omitempty"`
	// HarnessCPUSeconds is the processor time of the benchmark itself meanwhile.
	HarnessCPUSeconds float64 `json:"harnessCPUSeconds"`
	// Command is the invocation that measured.
	Command string `json:"command"`
	// Void says why the figures do not count; empty if they do.
	Void string `json:"void,omitempty"`
}

// Environment is what the results depend on besides the programs.
type Environment struct {
	Date     time.Time `json:"date"`
	CPU      string    `json:"cpu"`
	Cores    int       `json:"cores"`
	Memory   string    `json:"memory"`
	Kernel   string    `json:"kernel"`
	Go       string    `json:"go"`
	Upstream string    `json:"upstream"`
	Ours     string    `json:"ours"`
}

// File is what is kept of all results.
type File struct {
	Environment Environment `json:"environment"`
	Results     []Result    `json:"results"`
}

// Load reads a file; one that does not exist is empty.
func Load(path string) (*File, error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return &File{}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading results: %w", err)
	}
	var f File
	if err := json.Unmarshal(data, &f); err != nil {
		return nil, fmt.Errorf("reading results from %s: %w", path, err)
	}
	return &f, nil
}

// Save writes the file in one step, so that an interrupted run loses nothing.
func (f *File) Save(path string) error {
	data, err := json.MarshalIndent(f, "", " ")
	if err != nil {
		return fmt.Errorf("saving results: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("saving results: %w", err)
	}
	temporary := path + ".new"
	if err := os.WriteFile(temporary, append(data, '\n'), 0o644); err != nil {
		return fmt.Errorf("saving results: %w", err)
	}
	if err := os.Rename(temporary, path); err != nil {
		return fmt.Errorf("saving results: %w", err)
	}
	return nil
}

// Forget removes the results of a scenario in a mode.
func (f *File) Forget(scenario, mode string) {
	f.Results = slices.DeleteFunc(f.Results, func(r Result) bool { return r.Scenario == scenario && r.Mode == mode })
}

// commands are the invocations that measured the results, each once.
func (f *File) commands() []string {
	var commands []string
	for _, r := range f.Results {
		if !slices.Contains(commands, r.Command) {
			commands = append(commands, r.Command)
		}
	}
	return commands
}

// Line says in one line what a result holds.
func Line(r Result) string {
	if r.Void != "" {
		return "void: " + r.Void
	}
	f := r.Figures
	return fmt.Sprintf("%.2f s CPU, %.0f MiB at most, %.0f MiB at the end (%.0f anonymous), %.0f writes, %.0f events, %.0f gets, %.0f lists, %.0f watches, %.1f MiB received, %.2f s (the benchmark itself: %.2f s CPU)",
		f[CPU], f[PeakRSS], f[RSS], f[Anonymous], f[Writes], f[Events], f[Gets], f[Lists], f[Watches], f[Received], f[Wall], r.HarnessCPUSeconds)
}
