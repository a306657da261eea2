package gates

import (
	_ "embed"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// Stage is the maturity of a feature gate.
type Stage string

// The stages of a feature gate.
const (
	Alpha      Stage = "alpha"
	Beta       Stage = "beta"
	GA         Stage = "GA"
	Deprecated Stage = "deprecated"
)

// Gate is one feature gate at one version of Kubernetes.
type Gate struct {
	// Name is the key under featureGates.
	Name string
	// Default is the value of a gate the configuration does not name.
	Default bool
	// Stage is the maturity in that version.
	Stage Stage
	// Locked is set if the gate cannot be changed from its default.
	Locked bool
	// Needs are the gates that must be enabled where this one is.
	Needs []string
	// Read is set if something in this build reads the gate.
	Read bool
}

// The gates that stand for all gates of a stage that the configuration does not name.
const (
	AllAlpha = "AllAlpha"
	AllBeta  = "AllBeta"
)

// The oldest and the newest version that can be emulated: minor versions of Kubernetes 1.
const (
	OldestMinor = 33
	NewestMinor = 36
)

// Versions lists the versions of Kubernetes that emulatedVersion may name, oldest first.
func Versions() []string {
	var out []string
	for minor := OldestMinor; minor <= NewestMinor; minor++ {
		out = append(out, Version(minor))
	}
	return out
}

// Version returns the version of a minor number, as it is written in a configuration.
func Version(minor int) string { return "1." + strconv.Itoa(minor) }

// ParseVersion reads a version as it is written in a configuration, such as 1.36.
func ParseVersion(text string) (minor int, ok bool) {
	rest, ok := strings.CutPrefix(text, "1.")
	if !ok || rest != strings.TrimLeft(rest, "0+-") {
		return 0, false
	}
	minor, err := strconv.Atoi(rest)
	return minor, err == nil
}

// All returns the gates of the newest version, sorted by name without regard to
// case, with AllAlpha and AllBeta first.
func All() []Gate {
	table := gateTables()
	out := []Gate{table.gate(AllAlpha, NewestMinor), table.gate(AllBeta, NewestMinor)}
	for _, name := range table.names {
		if gate, ok := table.at(NewestMinor)[name]; ok {
			out = append(out, gate)
		}
	}
	return out
}

// Since returns the first version that has a gate, if any has.
func Since(gate string) (version string, ok bool) { return gateTables().since(gate) }

// Names returns the names of the gates of all versions, sorted without regard to case.
func Names() []string { return slices.Clone(gateTables().names) }

// AlwaysLocked reports whether a gate has the same value in every version that can be
// emulated, and cannot be changed in any of them.
func AlwaysLocked(gate string) bool {
	table := gateTables()
	value := table.gate(gate, NewestMinor).Default
	for minor := OldestMinor; minor <= NewestMinor; minor++ {
		if g := table.gate(gate, minor); !g.Locked || g.Default != value {
			return false
		}
	}
	return true
}

//go:embed featuregates.txt
var gateText string

// gateTables is parsed when it is first needed, and never changes.
var gateTables = sync.OnceValue(func() gateTable {
	table, err := parseGates(gateText)
	if err != nil {
		panic(fmt.Sprintf("featuregates.txt: %v", err)) // it is part of the program
	}
	return table
})

// gateTable holds, for each version that can be emulated, the gates it has.
type gateTable struct {
	names   []string // of all versions, in the order of the file
	byMinor [NewestMinor - OldestMinor + 1]map[string]Gate
}

// at returns the gates of a version; those of the newest for a version that cannot be
// emulated, which has been reported by then.
func (t gateTable) at(minor int) map[string]Gate {
	if minor < OldestMinor || minor > NewestMinor {
		minor = NewestMinor
	}
	return t.byMinor[minor-OldestMinor]
}

func (t gateTable) gate(name string, minor int) Gate { return t.at(minor)[name] }

// since is the first version that has the gate, if any has.
func (t gateTable) since(name string) (string, bool) {
	for minor := OldestMinor; minor <= NewestMinor; minor++ {
		if _, ok := t.at(minor)[name]; ok {
			return Version(minor), true
		}
	}
	return "", false
}

// parseGates reads the format that the head of featuregates.txt explains.
func parseGates(text string) (gateTable, error) {
	read := Read()
	table := gateTable{}
	for i := range table.byMinor {
		table.byMinor[i] = map[string]Gate{
			AllAlpha: {Name: AllAlpha, Stage: Alpha, Read: true},
			AllBeta:  {Name: AllBeta, Stage: Beta, Read: true},
		}
	}
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		if len(words) == 0 || strings.HasPrefix(line, "#") {
			continue
		}
		name, history := words[0], words[1:]
		var needs []string
		if n := slices.Index(history, "needs"); n >= 0 {
			history, needs = history[:n], history[n+1:]
		}
		table.names = append(table.names, name)
		for _, entry := range history {
			gate := Gate{Name: name, Needs: needs, Read: slices.Contains(read, name)}
			since, err := parseEntry(entry, &gate)
			if err != nil {
				return gateTable{}, fmt.Errorf("%s: %w", name, err)
			}
			for minor := max(since, OldestMinor); minor <= NewestMinor; minor++ {
				table.byMinor[minor-OldestMinor][name] = gate
			}
		}
	}
	return table, nil
}

// parseEntry reads version:stage:default[:locked].
func parseEntry(entry string, gate *Gate) (since int, err error) {
	parts := strings.Split(entry, ":")
	if len(parts) != 3 && (len(parts) != 4 || parts[3] != "locked") {
		return 0, fmt.Errorf("entry %q is not version:stage:default[:locked]", entry)
	}
	since, err = strconv.Atoi(strings.TrimPrefix(parts[0], "1."))
	if err != nil {
		return 0, fmt.Errorf("entry %q: version: %w", entry, err)
	}
	gate.Stage, gate.Default, gate.Locked = Stage(parts[1]), parts[2] == "on", len(parts) == 4
	if !slices.Contains([]Stage{Alpha, Beta, GA, Deprecated}, gate.Stage) || (parts[2] != "on" && parts[2] != "off") {
		return 0, fmt.Errorf("entry %q has an unknown stage or default", entry)
	}
	return since, nil
}
