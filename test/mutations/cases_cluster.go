package mutations

const (
	namespaces = "pkg/controllers/namespace"
	quotas     = "pkg/controllers/resourcequota"
	tokens     = "pkg/controllers/satoken"
)

// cluster are the cases of controllers that keep a cluster in order.
func cluster() []Case {
	return []Case{
		{
			Name:   "one API that does not answer keeps a namespace full",
			Issues: []int{70916},
			Story: "An aggregated API server was down. Namespaces that were deleted stayed for ever, with everything in them: " +
				"discovery failed in part, and nothing was deleted at all.",
			Edits: []Edit{{
				File: namespaces + "/sweep.go",
				Old:  "	found := c.catalogue.since(ctx, known.seen)\n",
				New:  "	found := c.catalogue.since(ctx, known.seen)\n	if found.failed != nil {\n		return ns, 0, found.failed\n	}\n",
			}},
			Caught: Test{namespaces, "TestFailedDiscoveryKeepsTheNamespace", ""},
		},
		{
			Name:   "one kind that cannot be listed keeps quotas from being counted",
			Issues: []int{96066, 71450, 78217},
			Story: "A custom resource with a broken webhook could not be listed. The controller waited for it for ever, and new " +
				"quotas had no status.",
			Edits: []Edit{{
				File: quotas + "/controller.go",
				Old:  "ReadyWithin(ctx, c.Env, syncTimeout)",
				New:  "ReadyWithin(ctx, c.Env, 1000*time.Hour)",
			}},
			Caught: Test{quotas, "TestWorkersStartWithoutCachesThatCannotBeFilled", ""},
		},
		{
			Name:   "a reference to a deleted token stays",
			Issues: []int{21995},
			Story: "A token was deleted right after it was made. The cached account did not list it yet, so that nothing was removed " +
				"from it: the account went on naming a Secret that is gone.",
			Edits: []Edit{{
				File: tokens + "/references.go",
				Old:  "	account, err := c.liveAccount(ctx, k.namespace, k.accountName, k.accountUID)\n",
				New:  "	account, err := c.cachedAccount(k.namespace, k.accountName, k.accountUID)\n",
			}},
			Caught: Test{tokens, "TestReconcileRequests", ""},
		},
	}
}
