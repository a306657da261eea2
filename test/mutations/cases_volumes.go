package mutations

const (
	attach = "pkg/controllers/attachdetach"
	binder = "pkg/controllers/pvbinder"
	claims = "pkg/controllers/pvcprotection"
)

// volumes are the cases of controllers of storage.
func volumes() []Case {
	return []Case{
		{
			Name:   "what was decided before an operation ended is done after it",
			Issues: []int{93902, 72181},
			Story: "The controller read that a volume is attached, then looked whether a detach runs, which ended in between: it " +
				"detached again, or told the kubelet that the volume is attached while it was being detached.",
			Edits: []Edit{
				{File: attach + "/decide.go", Old: "		if l = c.world.links[at]; l == nil {\n			return nil\n		}\n", New: ""},
				{File: attach + "/decide.go", Old: "	if l.state == detached {\n		return nil\n	}\n", New: ""},
			},
			Caught: Test{attach, "TestAVolumeIsAttachedAndDetached", ""},
		},
		{
			Name:   "a VolumeAttachment that is being deleted counts as attached",
			Issues: []int{120571},
			Story: "A detach had failed, and the controller was restarted. A new pod on the same node found the VolumeAttachment " +
				"attached, though it was being deleted: the volume went away under the pod, which never started.",
			Edits: []Edit{{
				File: attach + "/outcome.go",
				Old:  "	case va.DeletionTimestamp != nil || deleted != \"\" && va.UID == deleted:\n		return true, errBeingDeleted\n",
				New:  "",
			}},
			Caught: Test{attach, "TestAttachOutcome", "ATT-40g, ATT-57: being deleted"},
		},
		{
			Name:   "a volume stays attached to a node that is gone for good",
			Issues: []int{65392},
			Story: "A node lost its power, and its pods were deleted. Nobody was left to unmount their volumes, so they were " +
				"never detached, and the pods that replaced them waited for ever.",
			Edits: []Edit{{
				File: attach + "/judge.go",
				Old:  "	if !mounted || timeout && !is.healthy || is.outOfService {\n",
				New:  "	if !mounted || is.outOfService {\n",
			}},
			Caught: Test{attach, "TestJudgeDetach", "ATT-39c, ATT-55: mounted, not healthy, for long"},
		},
		{
			Name:   "a volume is reclaimed because a cache does not show its claim",
			Issues: []int{48081, 105131, 142332},
			Story: "About once a month a disk was deleted whose claim existed: the cache of claims did not show it at that " +
				"moment, which was taken for its deletion.",
			Edits: []Edit{{
				File: binder + "/reclaim.go",
				Old:  "	claim, err := c.liveClaim(ctx, live.Spec.ClaimRef)\n	if err != nil || !isReleased(live, claim) {\n		return nil, err\n	}\n	return live, nil\n",
				New:  "	return live, nil\n",
			}},
			Caught: Test{binder, "TestAVolumeThatIsNoLongerReleasedIsNotDeleted", ""},
		},
		{
			Name:   "a claim is released because a cache does not show its pod",
			Issues: []int{76703},
			Story: "A pod was created and bound to a node just before its claim was deleted. The cache of pods did not show it " +
				"yet: the claim lost its finalizer, and the pod its volume.",
			Edits: []Edit{{
				File: claims + "/answers.go",
				Old:  "	if unused {\n",
				New:  "	if unused || true {\n",
			}},
			Caught: Test{claims, "TestAPodThatTheCacheDoesNotShowHoldsTheClaim", ""},
		},
	}
}
