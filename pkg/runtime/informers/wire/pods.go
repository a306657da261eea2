package wire

import (
	"bytes"
	"sync"

	"google.golang.org/protobuf/encoding/protowire"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Options is what is done with a decoded pod.
type Options struct {
	// Metadata, Spec and Status drop what a cache does not keep. Required.
	Metadata func(*metav1.ObjectMeta)
	Spec     func(*corev1.PodSpec)
	Status   func(*corev1.PodStatus)
	// Mark is the managedFields of each pod whose parts have been shrunk. It is never changed.
	Mark []metav1.ManagedFieldsEntry
	// TokenVolume begins the names of volumes that end with five random characters and that Spec usually
	// drops. Empty means that there are none.
	TokenVolume string
}

// decoder decodes pods. It can be used by several goroutines.
type decoder struct {
	options Options
	blank   []byte // what the name of each token volume is replaced by; as long as that

	mu       sync.Mutex
	metadata table[metav1.ObjectMeta]
	specs    table[spec]
	// Scratch memory for the fields of a message.
	own, common []byte
}

// spec is what pods of one template have in common.
type spec struct {
	corev1.PodSpec
	// whole is that the name of the token volume is left in it, so that such pods are decoded whole.
	whole bool
}

// random is how many random characters end a generated name.
const random = 5

func newDecoder(o Options) *decoder {
	// It is in no name that the API server accepts.
	blank := o.TokenVolume + string(make([]byte, random))
	return &decoder{options: o, blank: []byte(blank)}
}

// decode returns the pod that is encoded, nil if it has to be decoded whole.
func (d *decoder) decode(encoded []byte) *corev1.Pod {
	p, ok := divide(encoded)
	if !ok {
		return nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	pod := &corev1.Pod{}
	if !d.decodeMetadata(p.metadata, &pod.ObjectMeta) || !d.decodeSpec(p.spec, &pod.Spec) || pod.Status.Unmarshal(p.status) != nil {
		return nil
	}
	d.options.Status(&pod.Status)
	pod.ManagedFields = d.options.Mark
	return pod
}

// separate divides a message into the fields that are the pod's own and those that are common to others.
func (d *decoder) separate(message []byte, of func(protowire.Number) owner) bool {
	d.own, d.common = d.own[:0], d.common[:0]
	for len(message) > 0 {
		f, rest, ok := next(message)
		if !ok {
			return false
		}
		switch of(f.number) {
		case own:
			d.own = append(d.own, f.encoded...)
		case common:
			d.common = append(d.common, f.encoded...)
		case dropped:
		}
		message = rest
	}
	return true
}

func (d *decoder) decodeMetadata(encoded []byte, into *metav1.ObjectMeta) bool {
	if !d.separate(encoded, ofMetadata) {
		return false
	}
	known := d.metadata.get(d.common)
	if known == nil {
		known = &metav1.ObjectMeta{}
		if known.Unmarshal(d.common) != nil {
			return false
		}
		d.options.Metadata(known)
		d.metadata.put(d.common, known)
	}
	*into = *known
	return into.Unmarshal(d.own) == nil
}

func (d *decoder) decodeSpec(encoded []byte, into *corev1.PodSpec) bool {
	if !d.separate(encoded, ofSpec) {
		return false
	}
	renamed, ok := d.renameTokenVolume()
	if !ok {
		return false
	}
	known := d.specs.get(d.common)
	if known == nil {
		known = &spec{}
		if known.Unmarshal(d.common) != nil {
			return false
		}
		d.options.Spec(&known.PodSpec)
		known.whole = renamed && d.namesTokenVolume(&known.PodSpec)
		d.specs.put(d.common, known)
	}
	if known.whole {
		return false
	}
	*into = known.PodSpec
	return into.Unmarshal(d.own) == nil
}

// renameTokenVolume replaces the name of the token volume by the blank, which is as long, wherever the common
// fields of a spec have it. It is not ok if they have the blank already, so that it would get a meaning.
func (d *decoder) renameTokenVolume() (renamed, ok bool) {
	if d.options.TokenVolume == "" {
		return false, true
	}
	name := d.tokenVolume()
	if name == nil {
		return false, true
	}
	if bytes.Contains(d.common, d.blank) {
		return false, false
	}
	name = bytes.Clone(name)
	for at := 0; ; {
		found := bytes.Index(d.common[at:], name)
		if found < 0 {
			return true, true
		}
		at += found + copy(d.common[at+found:], d.blank)
	}
}

// tokenVolume returns the name of the first token volume of the common fields of a spec, nil if there is none.
func (d *decoder) tokenVolume() []byte {
	const volumes, volumeName = 1, 1
	for message := d.common; len(message) > 0; {
		f, rest, ok := next(message)
		if !ok {
			return nil
		}
		if f.number == volumes {
			name, _, ok := next(f.value)
			if ok && name.number == volumeName && len(name.value) == len(d.blank) && bytes.HasPrefix(name.value, []byte(d.options.TokenVolume)) {
				return name.value
			}
		}
		message = rest
	}
	return nil
}

// namesTokenVolume reports whether a spec has the blank anywhere.
func (d *decoder) namesTokenVolume(s *corev1.PodSpec) bool {
	encoded, err := s.Marshal()
	return err != nil || bytes.Contains(encoded, d.blank)
}
