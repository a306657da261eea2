// Package ports finds ports for servers that take the number of one, and cannot be asked which they were given.
package ports

import (
	"fmt"
	"math/rand/v2"
	"net"
	"testing"

	"kcmd.dev/test/must"
)

// first and count are the ports to choose from. They are outside of the range of outgoing connections, of which one
// would take a port before the test listens on it, and outside of those that package controlplane uses.
const first, count = 12000, 8000

// Free returns a port of the loopback address that nobody listens on. They are tried in no order, so that tests that
// run at the same time seldom find the same.
func Free() (int, error) {
	const attempts = 100
	var failure error
	for range attempts {
		port := first + rand.IntN(count)
		listener, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			failure = err
			continue
		}
		return port, listener.Close()
	}
	return 0, fmt.Errorf("looking for a free port: %w", failure)
}

// FreeFor is Free for the port of a configuration.
func FreeFor(t testing.TB) int32 {
	t.Helper()
	return int32(must.Get(Free())(t))
}
