package nodeipam

import "slices"

// waiting are the names of the nodes for which no block was free, in the order in which they
// came. The zero value is empty.
type waiting struct {
	names []string // also those that were removed; a name that is there twice waits once
	waits map[string]bool
}

func (w *waiting) has(name string) bool { return w.waits[name] }

func (w *waiting) add(name string) {
	if w.waits[name] {
		return
	}
	if len(w.names) > 2*len(w.waits)+16 {
		w.names = slices.DeleteFunc(w.names, func(n string) bool { return !w.waits[n] })
	}
	if w.waits == nil {
		w.waits = map[string]bool{}
	}
	w.names, w.waits[name] = append(w.names, name), true
}

func (w *waiting) remove(name string) { delete(w.waits, name) }

// pop removes the first; ok is false if there is none.
func (w *waiting) pop() (name string, ok bool) {
	for len(w.names) > 0 {
		name, w.names = w.names[0], w.names[1:]
		if w.waits[name] {
			w.remove(name)
			return name, true
		}
	}
	return "", false
}
