package simulation

import (
	"flag"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
)

var (
	firstSeed = flag.Uint64("simulation.first", 1, "the first seed of simulations")
	seedCount = flag.Uint64("simulation.seeds", 0, "how many seeds are simulated, 0 for as many as the test says")
)

// Run runs a test once for each of some seeds, in a world of its own.
func Run(t *testing.T, seeds uint64, test func(t *testing.T, w *World)) {
	t.Helper()
	if *seedCount > 0 {
		seeds = *seedCount
	}
	for seed := *firstSeed; seed < *firstSeed+seeds; seed++ {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) { oneHistory(t, seed, test) })
	}
}

// oneHistory runs a test in the world of a seed.
func oneHistory(t *testing.T, seed uint64, test func(t *testing.T, w *World)) {
	t.Helper()
	w := New(t, seed)
	defer func() {
		trace := "\n" + strings.Join(w.trace, "\n")
		if failure := recover(); failure != nil {
			fmt.Fprintf(os.Stderr, "seed %d:%s\n", seed, trace) // a panic loses what is logged
			panic(failure)
		}
		if t.Failed() {
			t.Log(trace)
		}
	}()
	test(t, w)
}
