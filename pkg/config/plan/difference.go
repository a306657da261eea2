package plan

import (
	"reflect"
	"slices"

	"kcmd.dev/pkg/config/diff"
)

// difference holds two configurations and, for each changed field, the mixtures
// that show what the field decides.
type difference struct {
	old, new *Config
	changes  []diff.Change
	only     []*Config // old with only this change
	without  []*Config // new without this change
}

func newDifference(old, new *Config) *difference {
	d := &difference{old: old, new: new, changes: diff.Grouped(old, new)}
	for _, change := range d.changes {
		d.only = append(d.only, diff.Mix(old, new, change))
		d.without = append(d.without, diff.Mix(new, old, change))
	}
	return d
}

// causes returns the changes that make a part differ between old and new.
func (d *difference) causes(read part) []diff.Change {
	after := read(d.new)
	return d.deciding(read, func(alone any) bool { return reflect.DeepEqual(alone, after) })
}

// touches is causes for values that are taken over in place: there it counts that a field is read, although others may
// decide more.
func (d *difference) touches(read part) []diff.Change {
	before := read(d.old)
	return d.deciding(read, func(alone any) bool { return !reflect.DeepEqual(alone, before) })
}

// deciding returns the changes that make a part differ between old and new: those that decide by what they alone make
// of it, and those without which it would be otherwise.
func (d *difference) deciding(read part, decides func(alone any) bool) []diff.Change {
	before := read(d.old)
	if reflect.DeepEqual(before, read(d.new)) {
		return nil
	}
	var out []diff.Change
	for i, change := range d.changes {
		if decides(read(d.only[i])) || d.decides(i, read) {
			out = append(out, change)
		}
	}
	if len(out) == 0 {
		return d.jointCauses(read, before)
	}
	return out
}

// jointCauses drops, one after another, each change without which the rest still
// makes a part differ from before.
func (d *difference) jointCauses(read part, before any) []diff.Change {
	needed := slices.Clone(d.changes)
	for i := 0; i < len(needed); {
		rest := slices.Delete(slices.Clone(needed), i, i+1)
		if reflect.DeepEqual(read(diff.Mix(d.old, d.new, rest...)), before) {
			i++
			continue
		}
		needed = rest
	}
	return needed
}

// decides reports whether the new configuration without one change would differ in a part.
func (d *difference) decides(change int, read part) bool {
	return !reflect.DeepEqual(read(d.without[change]), read(d.new))
}
