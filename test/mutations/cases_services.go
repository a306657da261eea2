package mutations

const (
	sliceWrites = "pkg/controllers/kit/services/slicewrites"
	endpoints   = "pkg/controllers/endpoints"
)

// services are the cases of controllers of Services.
func services() []Case {
	return []Case{
		{
			Name:   "EndpointSlices are made twice",
			Issues: []int{100033, 92928},
			Story: "Two changes of a Service came one after the other. The cache did not show the slice that was made for the " +
				"first, so another one with the same endpoints was made.",
			Edits: []Edit{{
				File: sliceWrites + "/ledger.go",
				Old:  "	if l.shownLocked(service, slices) {\n",
				New:  "	if true || l.shownLocked(service, slices) {\n",
			}},
			Caught: Test{sliceWrites, "TestStaleness", ""},
		},
		{
			Name:   "Endpoints stay wrong after two fast changes",
			Issues: []int{125638, 117193},
			Story: "A pod was ready, not ready and ready again within milliseconds. The second change was compared with Endpoints " +
				"from before the first, found to be none, and never written: traffic went nowhere until the next change.",
			Edits: []Edit{{
				File: endpoints + "/writes.go",
				Old:  "	return last.shownBy(resourceVersion, now) && !last.unanswered\n",
				New:  "	return false && last.shownBy(resourceVersion, now) && !last.unanswered\n",
			}},
			Caught: Test{endpoints, "TestReadinessThatFlipsBack", ""},
		},
	}
}
