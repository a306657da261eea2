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
				Old:  "	found := c.catalogue.since(known.seen)\n",
				New:  "	found := c.catalogue.since(known.seen)\n	if found.failed != nil {\n		return ns, 0, found.failed\n	}\n",
			}},
			Caught: Test{namespaces, "TestFailedDiscoveryKeepsTheNamespace", ""},
		},
		{
			Name:   "one kind that cannot be listed keeps quotas from being counted",
			Issues: []int{96066, 71450, 78217},
			Story: "A custom resource with a broken webhook could not be listed. After a restart the controller waited for it for " +
				"ever: new quotas had no status, so that nothing could be created in their namespaces.",
			Edits: []Edit{{
				File: quotas + "/controller.go",
				Old:  "	timer := c.Clock.NewTimer(syncTimeout)\n",
				New:  "	timer := c.Clock.NewTimer(1000 * time.Hour)\n",
			}},
			Caught: Test{quotas, "TestWorkersStartWithoutCachesThatCannotBeFilled", ""},
		},
		{
			Name:   "a reference to a deleted token stays",
			Issues: []int{21995},
			Story: "A Secret with a token was deleted. Its account was read from a cache that did not show the reference yet, so " +
				"that it was left there, and pods waited for a Secret that did not exist.",
			Edits: []Edit{{
				File: tokens + "/references.go",
				Old:  "	account, err := c.liveAccount(ctx, k.namespace, k.accountName, k.accountUID)\n",
				New:  "	account, err := c.cachedAccount(k.namespace, k.accountName, k.accountUID)\n",
			}},
			Caught: Test{tokens, "TestReconcileRequests", ""},
		},
	}
}
