package journal

import (
	"encoding/binary"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"kcmd.dev/pkg/runtime/clients"
)

const (
	// maxName bounds names and keys, maxText messages. Names of the API are at most 253 bytes.
	maxName = 320
	maxText = 1024
	// maxRecord is more than any record takes: 14 names or words, one text, and 5 numbers.
	maxRecord = 14*(maxName+3) + maxText + 3 + 5*binary.MaxVarintLen64

	// maxWords bounds how many words are stored once instead of with each record, maxWord how
	// long such a word can be.
	maxWords = 1024
	maxWord  = 64
)

// words are strings that many records have: names of controllers, resources and queues.
type words struct {
	numbers map[string]uint64 // 1 and more
	texts   []string
}

func (w *words) all() []string { return w.texts[:len(w.texts):len(w.texts)] }

// append writes the number of a word; if it has none, 0 and the word itself.
func (w *words) append(to []byte, word string) []byte {
	n, known := w.numbers[word]
	if !known && len(w.texts) < maxWords && len(word) <= maxWord {
		if w.numbers == nil {
			w.numbers = map[string]uint64{}
		}
		word = strings.Clone(word) // may be a part of a URL
		w.texts = append(w.texts, word)
		n = uint64(len(w.texts))
		w.numbers[word] = n
	}
	to = binary.AppendUvarint(to, n)
	if n == 0 {
		to = appendText(to, word, maxName)
	}
	return to
}

// appendText writes a string, of which the end is dropped if it is too long.
func appendText(to []byte, text string, limit int) []byte {
	if len(text) > limit {
		text = strings.ToValidUTF8(text[:limit], "")
	}
	to = binary.AppendUvarint(to, uint64(len(text)))
	return append(to, text...)
}

// encode appends a record.
func (w *words) encode(to []byte, r *Record) []byte {
	to = binary.AppendVarint(to, r.Began.UnixNano())
	to = binary.AppendUvarint(to, uint64(max(0, r.Took)))
	to = binary.AppendUvarint(to, uint64(max(0, r.Code)))
	to = binary.AppendUvarint(to, r.Generation)
	to = binary.AppendUvarint(to, r.Term)
	to = w.append(to, r.Controller)
	to = w.append(to, r.Queue)
	to = appendText(to, r.Key, maxName)
	to = appendText(to, r.Trigger, maxName)
	to = w.append(to, r.Verb)
	to = w.target(to, r.Target)
	to = w.append(to, r.Subresource)
	to = w.target(to, r.Owner)
	return appendText(to, r.Message, maxText)
}

func (w *words) target(to []byte, t clients.Target) []byte {
	to = w.append(to, t.Resource.Group)
	to = w.append(to, t.Resource.Resource)
	to = appendText(to, t.Namespace, maxName)
	return appendText(to, t.Name, maxName)
}

// decoder reads what words.encode has written.
type decoder struct {
	words []string
	rest  []byte
}

func (d *decoder) record() Record {
	var r Record
	began, n := binary.Varint(d.rest)
	d.rest = d.rest[n:]
	r.Began = time.Unix(0, began)
	r.Took = time.Duration(d.number())
	r.Code = int(d.number())
	r.Generation, r.Term = d.number(), d.number()
	r.Controller, r.Queue = d.word(), d.word()
	r.Key, r.Trigger = d.text(), d.text()
	r.Verb = d.word()
	r.Target = d.target()
	r.Subresource = d.word()
	r.Owner = d.target()
	r.Message = d.text()
	return r
}

func (d *decoder) target() clients.Target {
	group, resource := d.word(), d.word()
	return clients.Target{
		Resource:  schema.GroupResource{Group: group, Resource: resource},
		Namespace: d.text(),
		Name:      d.text(),
	}
}

func (d *decoder) number() uint64 {
	value, n := binary.Uvarint(d.rest)
	d.rest = d.rest[n:]
	return value
}

func (d *decoder) text() string {
	n := d.number()
	text := string(d.rest[:n])
	d.rest = d.rest[n:]
	return text
}

func (d *decoder) word() string {
	if n := d.number(); n > 0 {
		return d.words[n-1]
	}
	return d.text()
}
