package controller

import (
	"strconv"
	"testing"
)

func TestLabelValuesAreLimited(t *testing.T) {
	var values LabelValues
	if got := values.Of("\xff"); got != "\uFFFD" {
		t.Errorf("%q, which is no UTF-8", got)
	}
	for n := range mostLabelValues - 1 {
		if text := strconv.Itoa(n); values.Of(text) != text {
			t.Errorf("value %d is %q", n, values.Of(text))
		}
	}
	if got := values.Of("more"); got != "other" {
		t.Errorf("one more is %q", got)
	}
	if got := values.Of("7"); got != "7" {
		t.Errorf("a known one is %q", got)
	}
}
