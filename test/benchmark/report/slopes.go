package report

import (
	"fmt"
	"strings"
)

// Kinds of objects whose memory is measured, and the start before there are any.
const (
	NoKind        = "nothing"
	KindNode      = "node"
	KindPod       = "pod"
	KindJob       = "Job"
	KindService   = "Service"
	KindConfigMap = "ConfigMap"
)

// SlopeKinds are the kinds in the order in which their objects are added: the memory of a kind is what a
// start needs more than the one before it.
var SlopeKinds = []string{NoKind, KindNode, KindPod, KindJob, KindService, KindConfigMap}

// slopeNotes say what comes with an object.
var slopeNotes = map[string]string{
	KindNode:      "ready, with its Lease and 20 images",
	KindPod:       "running, of a ReplicaSet",
	KindJob:       "finished",
	KindService:   "with its Endpoints, EndpointSlice and IPAddress",
	KindConfigMap: "of 1 KiB",
}

const slopesPrefix = "slopes-"

// SlopePhase is the name of the start after the objects of a kind were added.
func SlopePhase(kind string) string { return slopesPrefix + strings.ToLower(kind) }

// Slopes is a table in Markdown of the memory for each object of a kind; empty if none was measured.
func Slopes(comparisons []Comparison) string {
	var b strings.Builder
	for i, kind := range SlopeKinds[1:] {
		before, after := find(comparisons, SlopePhase(SlopeKinds[i])), find(comparisons, SlopePhase(kind))
		if before == nil || after == nil {
			continue
		}
		s := slope(before, after)
		fmt.Fprintf(&b, "| %s, %s | %s | %s |\n", kind, slopeNotes[kind], s.row(RSS, decimals(0)), s.row(Heap, decimals(0)))
	}
	if b.Len() == 0 {
		return ""
	}
	return "| bytes for each | upstream: RSS | kcmd | ratio | upstream: live heap | kcmd | ratio |\n|---|---|---|---|---|---|---|\n" + b.String()
}

// find returns the comparison of a phase without limits, nil if there is none.
func find(comparisons []Comparison, phase string) *Comparison {
	for i := range comparisons {
		if c := &comparisons[i]; c.Phase == phase && c.Mode == usualMode {
			return c
		}
	}
	return nil
}

// slope is the growth of memory from one start to another, in bytes for each object that was added. The
// spreads of both starts add up.
func slope(before, after *Comparison) *Comparison {
	s := &Comparison{Key: after.Key, Size: after.Size, Units: after.Units, Unit: after.Unit, Samples: map[string]map[string]Sample{}}
	for subject := range after.Samples {
		s.Samples[subject] = map[string]Sample{}
		for _, figure := range []string{RSS, Heap} {
			a, has := after.Figure(subject, figure)
			b, had := before.Figure(subject, figure)
			if has && had && after.Units > 0 {
				s.Samples[subject][figure] = difference(a, b, (1<<20)/after.Units)
			}
		}
	}
	return s
}

// difference is a-b times factor, and the most by which it can be wrong.
func difference(a, b Sample, factor float64) Sample {
	return Sample{Median: (a.Median - b.Median) * factor, Spread: (a.Spread + b.Spread) * factor, Count: min(a.Count, b.Count)}
}
