//go:build !race

package config

import "time"

// What Load may take of a hostile file: a second, with room for the instrumentation of
// fuzzing and for other tests on the same machine, and 200 MiB.
const (
	slowest = 5 * time.Second
	mostMiB = 200
)
