package conversion

import (
	"slices"
	"strings"
	"sync"
)

// Row is one setting of upstream and what it is here.
type Row struct {
	// Flag is the name of the flag without hyphens in front, empty if upstream has none.
	Flag string
	// Upstream is the path in v1alpha1, in the spelling of /configz, empty if the type
	// does not have the setting.
	Upstream string
	// Field is the path in v1beta1, empty if there is none. A <name> in it stands for
	// the name of any controller.
	Field string
	// Opposite is set if true is false here.
	Opposite bool
	// NegativeIsZero is set if upstream treats a negative value as zero.
	NegativeIsZero bool
	// How describes how code of its own converts the value. Without it the value is copied,
	// subject to Opposite and NegativeIsZero.
	How string
	// Why is the reason why there is no field.
	Why string
	// Refused describes what upstream does with the values that are refused here.
	Refused string
	// Rejects are the values out of range that upstream refuses too.
	Rejects Rejects
	// Deprecated is upstream's notice, for a flag that upstream hides.
	Deprecated string
}

// Rejects are values that upstream refuses.
type Rejects int

// Values out of range that upstream refuses, besides none of them.
const (
	RejectsLow  Rejects = 1 << iota // those below the range
	RejectsHigh                     // those above it
)

// Table returns all settings of Kubernetes 1.36, in the order of upstream's --help. It is made once, and not to be changed.
func Table() []Row { return table() }

var table = sync.OnceValue(func() []Row {
	return slices.Concat(processRows(), servingRows(), nodeRows(), storageRows(), controllerRows(), observabilityRows(),
		fieldsWithoutFlag())
})

// Conversion describes how the value is converted, empty if it is copied.
func (r Row) Conversion() string {
	switch {
	case r.Opposite:
		return "the opposite"
	case r.NegativeIsZero:
		return "a negative value becomes 0"
	}
	return r.How
}

// Fields are the v1beta1 paths of the row.
func (r Row) Fields() []string {
	if r.Field == "" {
		return nil
	}
	return strings.Split(r.Field, ", ")
}

// copied reports whether the value has a pair and is copied without code of its own.
func (r Row) copied() bool { return r.Upstream != "" && r.Field != "" && r.How == "" }

// Flag returns the row of a flag.
func Flag(name string) (Row, bool) {
	return find(func(r Row) bool { return r.Flag == name })
}

// ByUpstream returns the row of a v1alpha1 path.
func ByUpstream(path string) (Row, bool) {
	return find(func(r Row) bool { return r.Upstream == path })
}

func find(match func(Row) bool) (Row, bool) {
	rows := Table()
	i := slices.IndexFunc(rows, match)
	if i < 0 {
		return Row{}, false
	}
	return rows[i], true
}

const (
	noEffect     = "has no effect in Kubernetes 1.36"
	noWorkers    = "upstream accepts any number; with 0 it starts no workers, and the controller does nothing"
	badTimings   = "upstream panics if the durations contradict each other"
	notInProcess = "affects the command line only, not the running process"
)
