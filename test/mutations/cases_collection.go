package mutations

const collector = "pkg/controllers/garbagecollector"

// collection are the cases of the garbage collector.
func collection() []Case {
	return []Case{
		{
			Name:   "a wrong reference takes an owner out of the graph",
			Issues: []int{65200},
			Story: "An object in another namespace, or without one, named an owner that was not there by its UID. The collector " +
				"found that nothing is there, and took the real owner with that UID for gone: it deleted its dependents.",
			Edits: []Edit{{
				File: collector + "/virtual.go",
				Old:  "	case !n.virtual && n.identity == id:\n",
				New:  "	case !n.virtual:\n",
			}},
			Caught: Test{collector, "TestApply", "GC-31b: another identity of an observed owner is refuted"},
		},
		{
			Name:   "an owner that is not cached yet counts as absent",
			Issues: []int{88097},
			Story: "After an upgrade of the control plane, the new leader deleted hundreds of custom resources whose owners still " +
				"existed: it processed them before its cache contained the owners.",
			Edits: []Edit{{
				File: collector + "/owners.go",
				Old:  "	at, err := c.locate(claimed(ref, item.namespace))\n",
				New: "	if owner := c.graph.nodes[ref.UID]; owner == nil || owner.virtual {\n		return dangling, nil\n	}\n" +
					"	at, err := c.locate(claimed(ref, item.namespace))\n",
			}},
			Caught: Test{collector, "TestAttempt", "GC-44g: a live owner"},
		},
		{
			Name:   "absent owners are remembered by UID alone",
			Issues: []int{98471, 100751},
			Story: "Deployments and Secrets with valid references were deleted, now and then, while their owner existed all the " +
				"time: a reference from elsewhere to the same UID had been found to lead nowhere, and was remembered for all.",
			Edits: []Edit{
				{File: collector + "/absent.go", Old: "a.cache.Add(id, a.clock.Now())", New: "a.cache.Add(id.uid, a.clock.Now())"},
				{File: collector + "/absent.go", Old: "a.cache.Get(id)", New: "a.cache.Get(id.uid)"},
			},
			Caught: Test{collector, "TestWhatIsAbsentIsOneClaimForAUID", ""},
		},
		{
			Name:   "a kind that cannot be listed keeps the collector from starting",
			Issues: []int{101078, 110720, 127105},
			Story: "The conversion webhook of one custom resource was broken. After a restart the collector waited for its cache " +
				"for ever, and nothing in the cluster was collected any more.",
			Edits: []Edit{
				{File: collector + "/controller.go", Old: "			c.startWorker.openAfter(ctx, c.Clock, syncTimeout)\n", New: "			<-ctx.Done()\n"},
				{File: collector + "/monitors.go", Old: "		case <-timer.C():\n			return false\n", New: ""},
			},
			Caught: Test{collector, "TestAKindThatCannotBeListedHoldsUpNothingElse", ""},
		},
	}
}
