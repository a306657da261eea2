package mutations

const (
	writes  = "pkg/controllers/kit/writes"
	job     = "pkg/controllers/job"
	cronjob = "pkg/controllers/cronjob"
	daemons = "pkg/controllers/daemonset"
	scaler  = "pkg/controllers/horizontalpodautoscaler"
	budgets = "pkg/controllers/disruption"
)

// workloads are the cases of controllers that run pods.
func workloads() []Case {
	return []Case{
		{
			Name:   "a ReplicaSet that was recreated is left alone",
			Issues: []int{69376},
			Story: "A ReplicaSet was deleted and recreated under its name, so fast that the controller took it for the old one. It " +
				"waited for what it had done for that one, and created no pods.",
			Edits: []Edit{{
				File: writes + "/memory.go",
				Old:  "	if ok && r.UID != owner.GetUID() {\n		delete(m.owners, key)\n		return nil\n	}\n",
				New:  "	_ = ok\n",
			}},
			Caught: Test{writes, "TestARecreatedOwnerStartsClean", ""},
		},
		{
			Name:   "a pod of a Job is counted while it can be counted again",
			Issues: []int{104666},
			Story: "With more than 500 finished pods, UIDs left the status of a Job and were counted while their pods still had the " +
				"finalizer, by which they could be counted once more.",
			Edits: []Edit{{
				File: job + "/accounting.go",
				Old:  "		if a.tracked.Has(uid) {\n",
				New:  "		if false && a.tracked.Has(uid) {\n",
			}},
			Caught: Test{job, "TestAccounting", "JOB-47: pods in the status still have the finalizer"},
		},
		{
			Name:   "a pod of a Job is counted twice",
			Issues: []int{105200},
			Story: "A finished pod was counted and its finalizer removed. At the next sync of the Job, the pod cache was stale and still " +
				"showed the finalizer, so the pod was counted a second time and the Job completed too early.",
			Edits:  []Edit{{File: job + "/removals.go", Old: "		unseen.Insert(uid)\n", New: ""}},
			Caught: Test{job, "TestAStaleCacheCountsNothingTwice", ""},
		},
		{
			Name:   "a CronJob that missed a hundred times never starts again",
			Issues: []int{42649, 36311, 45825},
			Story: "A cluster was shut down over night. In the morning its CronJobs had missed more than a hundred times, and " +
				"did not start again at all, then or later.",
			Edits: []Edit{{
				File: cronjob + "/schedule.go",
				Old:  "		return recent, missedMany, nil\n",
				New:  "		return nil, missedMany, errors.New(\"too many missed start times\")\n",
			}},
			Caught: Test{cronjob, "TestMostRecent", ""},
		},
		{
			Name:   "a pod of a DaemonSet that fails is replaced at once, for ever",
			Issues: []int{65240, 30628},
			Story: "A kubelet under pressure evicted a pod of a DaemonSet. The controller replaced it at once, the kubelet " +
				"evicted that one, and both went on as fast as they could.",
			Edits: []Edit{{
				File: daemons + "/failures.go",
				Old:  "	if f.backoff.IsInBackOffSinceUpdate(key, now) {\n",
				New:  "	if false && f.backoff.IsInBackOffSinceUpdate(key, now) {\n",
			}},
			Caught: Test{daemons, "TestFailedPodsAreReplacedEverMoreSlowly", ""},
		},
		{
			Name:   "a rolling update without load makes the autoscaler add pods",
			Issues: []int{84142, 72775},
			Story: "During a rolling update there were more pods than replicas. The autoscaler counted those without load yet as " +
				"replicas that are needed, and took deployments to their maximum; one cluster was full.",
			Edits: []Edit{{
				File: scaler + "/calculator.go",
				Old:  "	if opposed(second.ratio, float64(replicas)/float64(current)) {\n		return current, first, nil\n	}\n",
				New:  "",
			}},
			Caught: Test{scaler, "TestFromPods", ""},
		},
		{
			Name:   "an eviction that a budget was charged for is forgotten",
			Issues: []int{82149},
			Story: "The controller wrote the status of a budget while the API server charged an eviction to it. After the conflict it " +
				"wrote what it had computed before into the new version, without that eviction, and one pod too many could be evicted.",
			Edits: []Edit{{
				File: budgets + "/reconcile.go",
				Old:  "	written, err := client.UpdateStatus(ctx, budget, metav1.UpdateOptions{})\n",
				New: "	written, err := client.UpdateStatus(ctx, budget, metav1.UpdateOptions{})\n" +
					"	if live, failed := client.Get(ctx, budget.Name, metav1.GetOptions{}); apierrors.IsConflict(err) && failed == nil {\n" +
					"		live.Status = budget.Status\n		written, err = client.UpdateStatus(ctx, live, metav1.UpdateOptions{})\n	}\n",
			}},
			Caught: Test{budgets, "TestConflicts", ""},
		},
	}
}
