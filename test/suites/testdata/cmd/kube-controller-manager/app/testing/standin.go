// Package testing stands in for upstream's, see kcmd.dev/test/suites.
package testing

import (
	"context"
	"testing"

	"kcmd.dev/test/suites/launch"
)

// TestServer is a manager with all that its flags select.
type TestServer struct{ TearDownFn func() }

func StartTestServer(_ *testing.T, ctx context.Context, flags []string) (TestServer, error) {
	stop, err := launch.Start(ctx, flags)
	return TestServer{stop}, err
}

func StartTestServerOrDie(t *testing.T, ctx context.Context, flags []string) *TestServer {
	server, err := StartTestServer(t, ctx, flags)
	if err != nil {
		t.Fatal(err)
	}
	return &server
}
