package wire

// Limits of what is remembered: how many parts, and how many bytes of them, are new before older ones are forgotten
// that were not used meanwhile. They span the templates whose pods change at the same time; a list comes in the order of
// names, so that the pods of one template are beside each other.
const (
	generation      = 256
	generationBytes = 1 << 20
)

// table remembers decoded parts by their bytes: those used since the last change of generations, and those used in the
// one before.
type table[T any] struct {
	young, old map[string]*T
	size       int // bytes of the young ones
}

// get returns the part that was decoded from such bytes, nil if it is not remembered.
func (t *table[T]) get(encoded []byte) *T {
	if part, found := t.young[string(encoded)]; found {
		return part
	}
	part, found := t.old[string(encoded)]
	if found {
		t.put(encoded, part)
	}
	return part
}

// put remembers a part. Nobody may change it from now on.
func (t *table[T]) put(encoded []byte, part *T) {
	if t.young == nil || len(t.young) >= generation || t.size+len(encoded) > generationBytes {
		t.young, t.old, t.size = map[string]*T{}, t.young, 0
	}
	t.young[string(encoded)] = part
	t.size += len(encoded)
}
