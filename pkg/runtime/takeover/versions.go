package takeover

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
)

// Annotation is where a process that gives a lease back states how new the caches of its
// successor have to be. Its value is the number of transitions of the lease, then a word for
// each resource: `7 pods=1234 jobs.batch=? *=0`.
const Annotation = "config.kcmd.dev/written"

// maxLeft is how long the value may be, in bytes. The API server refuses an object with more than 256 KiB of annotations,
// so a lease with a longer value could not be given back.
const maxLeft = 64 << 10

// Unknown is a version that nothing can be compared with.
const Unknown = "?"

// none is the version of a resource that was not written.
const none = "0"

// others stands for the resources that Versions do not list.
const others = "*"

// Versions are how new caches have to be to contain certain writes.
type Versions struct {
	// ByResource are resource versions, or Unknown.
	ByResource map[schema.GroupResource]string
	// Rest is that of the resources not listed: none ("0") or Unknown.
	Rest string
}

// NothingLeft returns the Versions of a predecessor about which nothing is known.
func NothingLeft() Versions { return Versions{Rest: Unknown} }

// NothingWritten returns the Versions if there was no predecessor.
func NothingWritten() Versions { return Versions{Rest: none} }

// Nothing reports whether nothing is known of any resource.
func (v Versions) Nothing() bool { return len(v.ByResource) == 0 && v.Rest == Unknown }

// of returns the version that a cache of the resource has to reach, none if any will do.
// known is false if there may have been writes of which no version is known.
func (v Versions) of(resource schema.GroupResource) (version string, known bool) {
	version, listed := v.ByResource[resource]
	if !listed {
		version = v.Rest
	}
	return version, version != Unknown
}

// String renders the versions as they are put on a lease, sorted.
func (v Versions) String() string {
	words := make([]string, 0, len(v.ByResource)+1)
	for _, resource := range slices.SortedFunc(maps.Keys(v.ByResource), func(a, b schema.GroupResource) int {
		return strings.Compare(a.String(), b.String())
	}) {
		words = append(words, resource.String()+"="+v.ByResource[resource])
	}
	return strings.Join(append(words, others+"="+v.Rest), " ")
}

// parse reads what String has rendered.
func parse(s string) (Versions, error) {
	v := Versions{ByResource: map[schema.GroupResource]string{}}
	for _, word := range strings.Fields(s) {
		name, version, found := strings.Cut(word, "=")
		if !found || name == "" || !valid(version) {
			return Versions{}, fmt.Errorf("reading versions: %q is not of the form resource=version", word)
		}
		if name == others {
			v.Rest = version
			continue
		}
		v.ByResource[schema.ParseGroupResource(name)] = version
	}
	if v.Rest != none && v.Rest != Unknown {
		return Versions{}, fmt.Errorf("reading versions: %s must be %s or %s, not %q", others, none, Unknown, v.Rest)
	}
	return v, nil
}

func valid(version string) bool {
	if version == Unknown {
		return true
	}
	_, err := strconv.ParseUint(version, 10, 64)
	return err == nil
}

// Leave returns the annotation value for a holder that gives the lease back. If so many resources
// were written that the value would be too long, it leaves nothing.
func Leave(l *coordinationv1.Lease, v Versions) string {
	versions := v.String()
	if len(versions) > maxLeft {
		versions = NothingLeft().String()
	}
	return strconv.Itoa(transitions(l)) + " " + versions
}

// LeftOn returns what the last holder of a lease has left there for its successor. If the
// lease is nil, still has a holder, or its last holder left nothing, nothing is known.
func LeftOn(l *coordinationv1.Lease) Versions {
	if l == nil || ptr.Deref(l.Spec.HolderIdentity, "") != "" {
		return NothingLeft()
	}
	number, versions, _ := strings.Cut(l.Annotations[Annotation], " ")
	if number != strconv.Itoa(transitions(l)) {
		return NothingLeft()
	}
	left, err := parse(versions)
	if err != nil {
		return NothingLeft() // written by a version of this program with another format
	}
	return left
}

func transitions(l *coordinationv1.Lease) int { return int(ptr.Deref(l.Spec.LeaseTransitions, 0)) }
