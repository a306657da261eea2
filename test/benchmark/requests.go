package benchmark

import (
	"slices"

	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"

	"kcmd.dev/test/benchmark/report"
)

// requestCounts are the requests of a phase.
type requestCounts struct {
	// byKind counts all requests by verb and resource.
	byKind map[string]int
	// figures are the sums by the names of package report.
	figures map[string]float64
}

// countRequests counts every request once: a watch when it opens, others when they are
// answered. Renewals of leases are left out of the figures, because there are as many as
// there is time.
func countRequests(events []auditv1.Event) requestCounts {
	c := requestCounts{byKind: map[string]int{}, figures: map[string]float64{
		report.Writes: 0, report.Events: 0, report.Gets: 0, report.Lists: 0, report.Watches: 0, report.Credentials: 0,
	}}
	for i := range events {
		e := &events[i]
		if !counts(e) {
			continue
		}
		c.byKind[kindOf(e)]++
		if figure := figureOf(e); figure != "" {
			c.figures[figure]++
		}
	}
	return c
}

// counts tells which of the events of one request stands for it. A watch that failed has
// none of its opening.
func counts(e *auditv1.Event) bool {
	opened := e.Stage == auditv1.StageResponseStarted
	if e.Verb != "watch" {
		return e.Stage == auditv1.StageResponseComplete
	}
	return opened || e.ResponseStatus != nil && e.ResponseStatus.Code >= 400
}

func kindOf(e *auditv1.Event) string {
	if e.ObjectRef == nil {
		return e.Verb + " " + e.RequestURI
	}
	kind := e.Verb + " " + e.ObjectRef.Resource
	if e.ObjectRef.Subresource != "" {
		kind += "/" + e.ObjectRef.Subresource
	}
	return kind
}

var writeVerbs = []string{"create", "update", "patch", "delete", "deletecollection"}

// figureOf names the figure that a request belongs to; empty for those not counted.
func figureOf(e *auditv1.Event) string {
	ref := e.ObjectRef
	if ref == nil || ref.Resource == "leases" {
		return ""
	}
	write := slices.Contains(writeVerbs, e.Verb)
	switch {
	case write && (ref.APIGroup == "authentication.k8s.io" || ref.APIGroup == "authorization.k8s.io" || ref.Subresource == "token"):
		return report.Credentials
	case write && ref.Resource == "events":
		return report.Events
	case write:
		return report.Writes
	}
	return map[string]string{"get": report.Gets, "list": report.Lists, "watch": report.Watches}[e.Verb]
}
