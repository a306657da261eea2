package controllertest

import (
	"testing"
	"testing/synctest"

	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
)

// InBubble has a test run in a synctest bubble, where the delays of a library take no time.
func InBubble(test func(t *testing.T)) func(t *testing.T) {
	return func(t *testing.T) {
		handlers := utilruntime.ErrorHandlers
		utilruntime.ErrorHandlers = nil // one of them sleeps until the time that another bubble has come to
		defer func() { utilruntime.ErrorHandlers = handlers }()
		synctest.Test(t, test)
	}
}
