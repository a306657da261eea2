package reload

import (
	"fmt"
	"net/http"
	"os"
	"sort"
	"strconv"
	"strings"
	"testing"
	"time"

	"kcmd.dev/test/controlplane"
	"kcmd.dev/test/integration/harness"
	"kcmd.dev/test/manager"
)

// TestWhatALargeDeploymentCosts measures one manager process: the requests
// it writes, its processor time and its peak memory.
func TestWhatALargeDeploymentCosts(t *testing.T) {
	replicas := harness.Size(t, "KCMD_DEPLOYMENT_REPLICAS", 300)
	// With the lease of a real process: one that is lost on a busy machine takes writes with it, which are sent again.
	m := manager.StartProcess(t, plane, harness.Settle(time.Millisecond))
	namespace := harness.NamespaceForPods(t, plane)
	mark, err := plane.Audit().Mark()
	if err != nil {
		t.Fatal(err)
	}
	cpuBefore := processorTime(t, m.PID())
	began := time.Now()
	waitAvailable(t, deployment(t, namespace, "web", int32(replicas)), int32(replicas), 3*time.Minute)
	took := time.Since(began)
	cpu, memory := processorTime(t, m.PID())-cpuBefore, peakMemory(t, m.PID())

	writes, err := plane.Audit().Since(mark, controlplane.Writes())
	if err != nil {
		t.Fatal(err)
	}
	byKind := map[string]int{}
	work := 0
	for _, w := range writes {
		if w.ObjectRef == nil || w.ObjectRef.Resource == "leases" {
			continue
		}
		if w.ObjectRef.Namespace != namespace {
			continue // what earlier tests left behind
		}
		kind := w.Verb + " " + w.ObjectRef.Resource
		if w.ObjectRef.Subresource != "" {
			kind += "/" + w.ObjectRef.Subresource
		}
		if s := w.ResponseStatus; s != nil && s.Code >= http.StatusBadRequest {
			kind = fmt.Sprintf("%s with %d", kind, s.Code) // a busy API server may turn a request away
		}
		byKind[kind]++
		work++
	}
	t.Logf("%d replicas available in %v; %d writes, %.2f per pod: %s; %v of processor time, peak memory %d MiB",
		replicas, took.Round(time.Millisecond), work, float64(work)/float64(replicas), counts(byKind), cpu, memory>>20)
	if byKind["create pods"] != replicas {
		t.Errorf("%d pods were created", byKind["create pods"])
	}
	if status := byKind["update replicasets/status"] + byKind["update deployments/status"]; status > replicas/2 {
		t.Errorf("%d status writes for %d pods: they are not coalesced", status, replicas)
	}
}

func counts(byKind map[string]int) string {
	var all []string
	for kind, n := range byKind {
		all = append(all, fmt.Sprintf("%d %s", n, kind))
	}
	sort.Strings(all)
	return strings.Join(all, ", ")
}

// processorTime is the time the kernel says a process has run, in user and kernel mode.
func processorTime(t *testing.T, pid int) time.Duration {
	t.Helper()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Fatal(err)
	}
	// Fields 14 and 15 in ticks of 1/100 s; field 2 is in parentheses and may hold spaces.
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	var ticks int
	for _, field := range fields[11:13] {
		n, err := strconv.Atoi(field)
		if err != nil {
			t.Fatal(err)
		}
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond
}

// peakMemory is the most resident memory a process has had, in bytes.
func peakMemory(t *testing.T, pid int) uint64 {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(status)) {
		if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			n, err := strconv.ParseUint(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB")), 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			return n << 10
		}
	}
	t.Fatal("the kernel does not say")
	return 0
}
