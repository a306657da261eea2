package endpoints

import (
	corev1 "k8s.io/api/core/v1"

	"kcmd.dev/pkg/controllers/kit/services/subsets"
)

// maxAddresses is how many addresses Endpoints hold at most, over all subsets: larger objects
// overload everybody who watches them. EndpointSlices have no such limit.
const maxAddresses = 1000

func overCapacity(all []corev1.EndpointSubset) bool {
	ready, notReady := subsets.Count(all)
	return ready+notReady > maxAddresses
}

// truncate leaves maxAddresses addresses, and reports whether there were more. Ready ones go
// before others; what is kept is spread over the subsets by their size. A subset of which
// nothing is left is dropped, because the API server refuses it.
func truncate(all []corev1.EndpointSubset) (kept []corev1.EndpointSubset, truncated bool) {
	ready, notReady := subsets.Count(all)
	if ready+notReady <= maxAddresses {
		return all, false
	}
	readyShare := newShare(ready, maxAddresses)
	notReadyShare := newShare(notReady, maxAddresses-readyShare.left)
	for _, subset := range all {
		subset.Addresses = readyShare.prefix(subset.Addresses)
		subset.NotReadyAddresses = notReadyShare.prefix(subset.NotReadyAddresses)
		if len(subset.Addresses)+len(subset.NotReadyAddresses) > 0 {
			kept = append(kept, subset)
		}
	}
	return kept, true
}

// share spreads a budget over lists.
type share struct {
	total  int // addresses in all lists
	budget int // of them to keep
	left   int // of the budget
}

func newShare(total, most int) *share {
	budget := min(total, most)
	return &share{total: total, budget: budget, left: budget}
}

// prefix returns as much of the next list as it is due: its part of the budget, rounded up,
// while it lasts.
func (s *share) prefix(list []corev1.EndpointAddress) []corev1.EndpointAddress {
	if len(list) == 0 {
		return nil
	}
	due := min((len(list)*s.budget+s.total-1)/s.total, s.left)
	s.left -= due
	return list[:due:due]
}
