package cloud

import (
	"bytes"
	"context"
	"fmt"
	"runtime/pprof"
	"strconv"
	"sync/atomic"
	"time"
)

// label is the key of the profiler label that the goroutines of an instance carry. They pass
// it on to those that they start.
const label = "cloud"

// numbers tells instances apart, in a process that may have several managers.
var numbers atomic.Uint64

// ofLibrary are prefixes of names of functions: every goroutine that the library starts has one of
// them on its stack. The goroutines of a connection carry the label of the first sender; they
// outlive the instance, and have none of these functions on their stacks.
var ofLibrary = [][]byte{
	[]byte("k8s.io/cloud-provider/controllers/"),
	[]byte("k8s.io/client-go/tools/record."),
	[]byte("k8s.io/client-go/util/workqueue."),
	[]byte("k8s.io/apimachinery/pkg/watch."),
}

// labelled calls f under a label of its own, which it returns.
func labelled(ctx context.Context, name string, f func(context.Context)) (value string) {
	value = fmt.Sprintf("%s-%d", name, numbers.Add(1))
	pprof.Do(ctx, pprof.Labels("controller", name, label, value), f)
	return value
}

// firstPause is the pause between the first two checks of awaitEnd.
const firstPause = time.Millisecond

// awaitEnd returns when no goroutine of the library carries the label. Nothing signals their end, so
// it polls. They end soon: their queues are shut down, and only a key in flight is left. That may be
// a call which does not return, so the pauses grow with the time that has been waited.
func awaitEnd(value string) error {
	for begin := time.Now(); ; time.Sleep(max(firstPause, time.Since(begin)/4)) {
		running, err := anyRuns(value)
		if err != nil || !running {
			return err
		}
	}
}

// anyRuns reports whether a goroutine of the library with the label runs.
func anyRuns(value string) (bool, error) {
	var profile bytes.Buffer
	if err := pprof.Lookup("goroutine").WriteTo(&profile, 1); err != nil {
		return false, fmt.Errorf("looking for goroutines: %w", err)
	}
	return found(profile.Bytes(), value), nil
}

// found looks for a goroutine in a profile: a paragraph for each stack, with the labels.
func found(profile []byte, value string) bool {
	mark := []byte(strconv.Quote(label) + ":" + strconv.Quote(value))
	for stack := range bytes.SplitSeq(profile, []byte("\n\n")) {
		if !bytes.Contains(stack, mark) {
			continue
		}
		for _, name := range ofLibrary {
			if bytes.Contains(stack, name) {
				return true
			}
		}
	}
	return false
}
