//go:build race

package config

import "time"

// The race detector makes everything slower, and pools of memory forget what they hold.
const (
	slowest = time.Minute
	mostMiB = 1000
)
