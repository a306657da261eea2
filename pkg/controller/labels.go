package controller

import (
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/util/sets"
)

// LabelValue returns a text as the value of a label of a metric. Texts that the API server does not validate may
// have bytes that are no UTF-8, with which Prometheus panics; they become U+FFFD. So different texts can be the
// same value.
func LabelValue(text string) string { return strings.ToValidUTF8(text, "\uFFFD") }

const (
	// mostLabelValues is how many values LabelValues tells apart.
	mostLabelValues = 100
	// otherLabelValue stands for the rest.
	otherLabelValue = "other"
)

// LabelValues are the values of a label of a counter that users choose: each one has a series for as long as the
// instance lives. The first hundred have series of their own, all others one together. The zero value is empty. It is
// safe for concurrent use.
type LabelValues struct {
	mu    sync.Mutex
	known sets.Set[string]
}

// Of returns a text as the value of the label.
func (v *LabelValues) Of(text string) string {
	text = LabelValue(text)
	v.mu.Lock()
	defer v.mu.Unlock()
	switch {
	case v.known.Has(text):
	case len(v.known) >= mostLabelValues:
		return otherLabelValue
	case v.known == nil:
		v.known = sets.New(text)
	default:
		v.known.Insert(text)
	}
	return text
}
