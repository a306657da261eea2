package mutations

const (
	takeover = "pkg/runtime/takeover"
	election = "pkg/runtime/election"
)

// leadership are the cases of leaders that follow one another.
func leadership() []Case {
	return []Case{
		{
			Name:   "a new leader waits for what never comes",
			Issues: []int{74397},
			Story:  "After a failover the new leader was silent: it held the lease, and its controllers did nothing.",
			Edits: []Edit{{
				File: takeover + "/barrier.go",
				Old:  "	return b.poll(ctx, patience, func() bool { return reached(c, version) })\n",
				New:  "	return b.poll(ctx, 1000*time.Hour, func() bool { return reached(c, version) })\n",
			}},
			Caught: Test{takeover, "TestAVersionThatDoesNotComeIsNotWaitedForLong", ""},
		},
		{
			Name:   "a process that lost its lease runs on and does not compete any more",
			Issues: []int{82960},
			Story: "One update of the lease timed out. The process stopped working, but neither ended nor competed again, and " +
				"its health page said that all was well.",
			Edits: []Edit{{
				File: election + "/elector.go",
				Old:  "		e.noteDecided()\n		e.publish()\n",
				New:  "		e.noteDecided()\n		e.publish()\n		if e.termID > 0 && e.State().Term == nil {\n			<-ctx.Done()\n		}\n",
			}},
			Caught: Test{election, "TestLostLeaseEndsTheTermInTimeAndIsRegained", ""},
		},
		{
			Name:   "a successor acts on what was before its predecessor's last writes",
			Issues: []int{59848},
			Story: "A process started with lists from an API server that was behind the others, and so went back in time: it " +
				"created and deleted pods a second time, and a StatefulSet could have two pods of one identity.",
			Edits: []Edit{{
				File: takeover + "/barrier.go",
				Old:  "	return known && reached(c, version)\n",
				New:  "	return true || known && reached(c, version)\n",
			}},
			Caught: Test{takeover, "TestWithoutVersionsTheObjectsAreCompared", ""},
		},
	}
}
