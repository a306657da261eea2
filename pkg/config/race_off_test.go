//go:build !race

package config

// raceDetector is whether the tests run under it.
const raceDetector = false
