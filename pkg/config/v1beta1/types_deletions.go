package v1beta1

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Values of DeletionBreaker.Mode.
const (
	DeletionsDisabled = "Disabled"
	DeletionsWarn     = "Warn"
	DeletionsStop     = "Stop"
)

// MaxAllowance is how far ahead DeletionBreaker.AllowUntil may be: a slip of the pen must not
// disable the breaker for years.
const MaxAllowance = 24 * time.Hour

// DeletionBreaker limits the share of a kind of object that controllers may delete within a
// window. Counted are the deletions by the controllers that can delete a large part of a cluster
// by mistake: garbage-collector-controller, namespace-controller,
// pod-garbage-collector-controller, taint-eviction-controller,
// device-taint-eviction-controller and cloud-node-lifecycle-controller.
type DeletionBreaker struct {
	// What happens when controllers are about to delete more than share. Disabled: nothing is
	// counted. Warn: it is reported, and they go on. Stop: it is reported, and they delete no
	// object of that kind until allowUntil, or another edit of this block, lets them. Default:
	// Disabled. Allowed: Disabled, Warn, Stop. A change applies in place.
	Mode string `json:"mode,omitempty"`
	// Time within which deletions are added up. Default: 5m. Range: 10s to 24h. A change
	// applies in place.
	Window *metav1.Duration `json:"window,omitempty"`
	// Percentage of the objects of a kind that may be deleted within the window. Default: 20.
	// Range: 1 to 100. A change applies in place.
	Share *int32 `json:"share,omitempty"`
	// Number of objects of a kind that may be deleted within the window whatever share they
	// are. Default: 50. Range: 0 to 1000000. A change applies in place.
	Minimum *int32 `json:"minimum,omitempty"`
	// Resources whose deletions are not counted. Default: empty. A change applies in place.
	ExemptResources []GroupResource `json:"exemptResources,omitempty"`
	// Time until which controllers may delete whatever they want to: nothing is counted, and
	// what was stopped goes on. From then on the counting starts over. Default: empty, they may
	// not. At most 24 hours from now, in the format of RFC 3339; a process that starts with a
	// later one warns, and allows nothing. A change applies in place.
	AllowUntil string `json:"allowUntil,omitempty"`
}

// AllowedUntil is AllowUntil as a time, zero if it is not set.
func (b DeletionBreaker) AllowedUntil() time.Time {
	t, err := time.Parse(time.RFC3339, b.AllowUntil)
	if err != nil {
		return time.Time{} // empty: a valid configuration has no other text that is not a time
	}
	return t
}

func setDeletionBreakerDefaults(b *DeletionBreaker) {
	setString(&b.Mode, DeletionsDisabled)
	setDuration(&b.Window, 5*time.Minute)
	setValue(&b.Share, 20)
	setValue(&b.Minimum, 50)
}
