package faults

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	kcmruntime "kcmd.dev/pkg/runtime"
	"kcmd.dev/test/await"
)

// lingering is how long goroutines may take to end after their manager has: connections notice at their next
// read that they were closed.
const lingering = 15 * time.Second

// ofProcess begins the stacks of goroutines that the first manager starts, and that are there for all.
const ofProcess = "k8s.io/klog/v2.(*flushDaemon)"

// footprint is what a run held and what it left behind.
type footprint struct {
	// held is what the leader holds in the end of each cache, registries the number of its instances, by their
	// metrics. A fault must not change that.
	held       map[string]string
	registries int
	// left is what the managers left: goroutines, metrics, instances that did not stop, panics.
	left []string
}

// hold takes down what the manager that leads holds when it has nothing to do.
func (r *run) hold() footprint {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, one := range r.replicas {
		if r.gone[one] {
			continue
		}
		if s := one.Runtime.Status(); s.Leadership.Leading {
			return footprint{held: heldOf(&s), registries: one.Runtime.Registries()}
		}
	}
	return footprint{}
}

// heldOf says what is held of each cache that somebody uses.
func heldOf(s *kcmruntime.Status) map[string]string {
	all := map[string]string{}
	for _, i := range s.Informers {
		if i.Refs > 0 {
			key := fmt.Sprint(i.Resource, " ", i.Group, i.Form, i.Namespace, i.FieldSelector, i.LabelSelector)
			all[key] = fmt.Sprintf("%d handlers for %v", i.Handlers, i.Scopes)
		}
	}
	return all
}

// leftBehind tells what is left of the managers of a run, all of which have been stopped.
func (r *run) leftBehind(ctx context.Context) ([]string, error) {
	var left []string
	for _, one := range r.replicas {
		if n := one.Runtime.Registries(); n > 0 {
			left = append(left, fmt.Sprintf("the metrics of %d instances are left", n))
		}
		s := one.Runtime.Status()
		left = append(left, failuresOf(&s)...)
		log, err := os.Open(one.LogFile())
		if err != nil {
			return nil, err
		}
		panics := panicsIn(log)
		if err := log.Close(); err != nil {
			return nil, err
		}
		left = append(left, panics...)
	}
	goroutines, err := r.lastGoroutines(ctx)
	return append(left, goroutines...), err
}

// failuresOf tells which instances were abandoned or handed nothing over.
func failuresOf(s *kcmruntime.Status) []string {
	var all []string
	for _, c := range s.Controllers {
		if c.Abandoned > 0 {
			all = append(all, fmt.Sprintf("%d instances of %s did not stop", c.Abandoned, c.Name))
		}
		if c.HandOverError != "" {
			all = append(all, fmt.Sprintf("%s handed nothing over: %s", c.Name, c.HandOverError))
		}
	}
	return all
}

// panicsIn returns the lines of a log that report a panic. Code that recovers one logs it.
func panicsIn(log io.Reader) []string {
	var all []string
	lines := bufio.NewScanner(log)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if strings.Contains(strings.ToLower(lines.Text()), "panic") {
			all = append(all, "logged: "+lines.Text())
		}
	}
	if err := lines.Err(); err != nil {
		all = append(all, "the log cannot be read: "+err.Error())
	}
	return all
}

// lastGoroutines returns the goroutines of the managers of a run that do not end.
func (r *run) lastGoroutines(ctx context.Context) ([]string, error) {
	var left []string
	var failure error
	_ = await.Nil(ctx, lingering, func(context.Context) error { // what is left is reported below
		left = nil
		for _, one := range r.replicas {
			var stacks map[string]int
			if stacks, failure = one.Goroutines(); failure != nil {
				return nil
			}
			left = append(left, lingers(stacks)...)
		}
		if len(left) > 0 {
			return fmt.Errorf("%d stacks", len(left))
		}
		return nil
	})
	return left, failure
}

// lingers describes goroutines that should have ended.
func lingers(stacks map[string]int) []string {
	var all []string
	for _, stack := range slices.Sorted(maps.Keys(stacks)) {
		if !strings.HasPrefix(stack, ofProcess) {
			all = append(all, fmt.Sprintf("%d goroutines are left: %s", stacks[stack], stack))
		}
	}
	return all
}

// leaks returns what a run held beyond the reference, and what it left.
func leaks(reference, run footprint) []string {
	violations := slices.Clone(run.left)
	for _, cache := range slices.Sorted(maps.Keys(run.held)) {
		if is, was := run.held[cache], reference.held[cache]; is != was {
			violations = append(violations, fmt.Sprintf("of the cache %s, the leader has %s, in the reference %q", cache, is, was))
		}
	}
	if run.held != nil && run.registries != reference.registries {
		violations = append(violations, fmt.Sprintf("the leader has %d registries of metrics, in the reference %d", run.registries, reference.registries))
	}
	return violations
}
