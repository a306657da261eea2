package pvexpander

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func TestPlan(t *testing.T) {
	const (
		inProgress = corev1.PersistentVolumeClaimControllerResizeInProgress
		infeasible = corev1.PersistentVolumeClaimControllerResizeInfeasible
		pending    = corev1.PersistentVolumeClaimNodeResizePending
		atNode     = corev1.PersistentVolumeClaimNodeResizeInProgress
		nodeFailed = corev1.PersistentVolumeClaimNodeResizeInfeasible
	)
	for name, tc := range map[string]struct {
		changes []claimChange
		volume  string
		want    step
		size    string
	}{
		"PVX-21c: begins":                          {nil, "1Gi", expand, "2Gi"},
		"PVX-21c: another size was begun":          {[]claimChange{allocated("3Gi")}, "1Gi", expand, "2Gi"},
		"PVX-21c: in progress":                     {[]claimChange{progress(inProgress), allocated("3Gi")}, "1Gi", expand, "3Gi"},
		"PVX-21c: in progress, no size":            {[]claimChange{progress(inProgress)}, "1Gi", expand, "2Gi"},
		"PVX-21c: node pending":                    {[]claimChange{progress(pending), allocated("3Gi")}, "1Gi", expand, "3Gi"},
		"PVX-21c: node in progress":                {[]claimChange{progress(atNode), allocated("3Gi")}, "1Gi", expand, "3Gi"},
		"PVX-21c: node failed":                     {[]claimChange{progress(nodeFailed), allocated("3Gi")}, "1Gi", expand, "3Gi"},
		"PVX-21c: infeasible":                      {[]claimChange{progress(infeasible), allocated("3Gi")}, "1Gi", expand, "2Gi"},
		"PVX-21c: unknown progress":                {[]claimChange{progress("Other"), allocated("3Gi")}, "1Gi", expand, "2Gi"},
		"PVX-21d: large enough":                    {nil, "2Gi", expand, "2Gi"},
		"PVX-44: larger":                           {nil, "4Gi", expand, "4Gi"},
		"PVX-44: larger than what was begun":       {[]claimChange{allocated("2Gi")}, "4Gi", expand, "4Gi"},
		"PVX-44: larger, unknown progress":         {[]claimChange{progress("Other")}, "4Gi", expand, "4Gi"},
		"PVX-44: larger than what is in progress":  {[]claimChange{requesting("5Gi"), progress(inProgress), allocated("2Gi")}, "4Gi", expand, "4Gi"},
		"PVX-21d: a size was begun":                {[]claimChange{allocated("3Gi")}, "2Gi", expand, "3Gi"},
		"PVX-21d: large enough, in progress":       {[]claimChange{progress(inProgress), allocated("3Gi")}, "2Gi", expand, "3Gi"},
		"PVX-21d: in progress without a size":      {[]claimChange{progress(inProgress)}, "2Gi", expand, "2Gi"},
		"PVX-21d: large enough, infeasible":        {[]claimChange{progress(infeasible), allocated("3Gi")}, "2Gi", expand, "3Gi"},
		"PVX-21d: large enough, node pending":      {[]claimChange{progress(pending), allocated("2Gi")}, "2Gi", wait, "0"},
		"PVX-21d: large enough, node in progress":  {[]claimChange{progress(atNode), allocated("2Gi")}, "2Gi", wait, "0"},
		"PVX-21d: large enough, node failed":       {[]claimChange{progress(nodeFailed), allocated("2Gi")}, "2Gi", tellNode, "0"},
		"PVX-21d: large enough, unknown progress":  {[]claimChange{progress("Other"), allocated("3Gi")}, "2Gi", expand, "2Gi"},
		"PVX-27, PVX-21d: the request was lowered": {[]claimChange{requesting("1Gi"), progress(infeasible), allocated("3Gi")}, "3Gi", expand, "3Gi"},
		"PVX-21b, PVX-21d: the progress of another": {[]claimChange{func(c *corev1.PersistentVolumeClaim) {
			c.Status.AllocatedResourceStatuses = map[corev1.ResourceName]corev1.ClaimResourceStatus{"other": pending}
		}}, "2Gi", expand, "2Gi"},
	} {
		t.Run(name, func(t *testing.T) {
			got := planFor(claim(tc.changes...), volume(flex, ofSize(tc.volume)))
			if got.step != tc.want || got.size.String() != tc.size {
				t.Errorf("step %d of %s, want %d of %s", got.step, got.size.String(), tc.want, tc.size)
			}
		})
	}
}

func TestWhetherAClaimIsExpanded(t *testing.T) {
	for name, tc := range map[string]struct {
		has, requests, volume string
		want                  bool
	}{
		"PVX-21a: all equal":                     {"2Gi", "2Gi", "2Gi", true},
		"PVX-21a: it has more":                   {"3Gi", "2Gi", "2Gi", true},
		"PVX-21a: more is requested":             {"1Gi", "2Gi", "1Gi", false},
		"PVX-21a, PVX-27: the volume has more":   {"1Gi", "1Gi", "2Gi", false},
		"PVX-21a: the volume has grown":          {"1Gi", "2Gi", "2Gi", false},
		"PVX-21a, PVX-27: the volume has less":   {"2Gi", "2Gi", "1Gi", true},
		"PVX-21a, PVX-27: less than it has, too": {"2Gi", "1Gi", "3Gi", false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := isExpanded(claim(having(tc.has), requesting(tc.requests)), volume(flex, ofSize(tc.volume))); got != tc.want {
				t.Errorf("got %v", got)
			}
		})
	}
}
