package controller

import "strings"

// LabelValue returns a text as the value of a label of a metric. Texts that the API server does not validate may
// have bytes that are no UTF-8, with which Prometheus panics; they become U+FFFD. So different texts can be the
// same value.
func LabelValue(text string) string { return strings.ToValidUTF8(text, "\uFFFD") }
