package faults

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kcmd.dev/test/integration/harness"
)

// resizedKey annotates a volume with the size that its file system has.
const resizedKey = "volume.alpha.kubernetes.io/pre-resize-capacity"

// volumeMatching is about which volumes claims get that name none.
func volumeMatching() Scenario {
	const many, sizes = "capacity: {storage: 1Gi}, storageClassName: modes, ", "accessModes: [ReadWriteOnce], storageClassName: sizes, "
	claimOf := func(name, mode string) string {
		return claimText(name, "", "accessModes: ["+mode+"], resources: {requests: {storage: 1Gi}}, storageClassName: modes")
	}
	on := func(class string) string { return small + "storageClassName: " + class }
	of := func(class string) string { return asks + "storageClassName: " + class }
	names := []string{
		"size-1", "size-2", "size-5", "mode-rwo", "mode-rox", "mode-rwx", "mode-both", "mode-pod", "wide", "narrow",
		"gold", "silver", "raw", "filed", "fast", "plain", "old", "none", "none-3", "local", "resized", "resized-badly",
	}
	matched := map[string]string{
		"size-1": "one", "size-2": "between", "mode-rwo": "rwo", "mode-rox": "rox", "mode-rwx": "rwx", "mode-both": "both",
		"mode-pod": "pod", "narrow": "tight", "gold": "wants-gold", "silver": "wants-other", "raw": "block", "filed": "file",
		"fast": "quick", "plain": "unhurried", "old": "legacy", "none": "unclassed", "none-3": "nil-class", "local": "near", "resized": "shrunk", "resized-badly": "unshrunk",
	}
	var all []Condition
	for volume, claim := range matched {
		all = append(all, bound(claim, volume)...)
	}
	return Scenario{
		Name:        "volume-matching",
		Bare:        true,
		Controllers: withBinder,
		Configure:   binderSettings,
		Flags:       binderFlags,
		Kinds:       []schema.GroupVersionResource{volumes, claims},
		Steps: []Step{
			{
				"create volumes",
				[]Action{CreateAll(
					driven("size-1", "", sizes+"capacity: {storage: 1Gi}"),
					driven("size-2", "", sizes+"capacity: {storage: 2Gi}"),
					driven("size-5", "", sizes+"capacity: {storage: 5Gi}"),
					driven("mode-rwo", "", many+"accessModes: [ReadWriteOnce]"),
					driven("mode-rox", "", many+"accessModes: [ReadOnlyMany]"),
					driven("mode-rwx", "", many+"accessModes: [ReadWriteMany]"),
					driven("mode-both", "", many+"accessModes: [ReadOnlyMany, ReadWriteOnce]"),
					driven("mode-pod", "", many+"accessModes: [ReadWriteOncePod]"),
					driven("wide", "", "capacity: {storage: 1Gi}, storageClassName: tight, accessModes: [ReadWriteOnce, ReadOnlyMany, ReadWriteMany]"),
					driven("narrow", "", "capacity: {storage: 5Gi}, storageClassName: tight, accessModes: [ReadWriteOnce]"),
					driven("gold", "labels: {tier: gold}", on("labels")),
					driven("silver", "labels: {tier: silver}", on("labels")),
					driven("raw", "", on("kinds")+", volumeMode: Block"),
					driven("filed", "", on("kinds")),
					driven("fast", "", on("attributes")+", volumeAttributesClassName: fast"),
					driven("plain", "", on("attributes")),
					driven("old", "annotations: {volume.beta.kubernetes.io/storage-class: old}", on("other")),
					driven("none", "", small),
					driven("none-3", "", "accessModes: [ReadWriteOnce], capacity: {storage: 3Gi}"),
					driven("resized", annotated(resizedKey, "1536Mi"), "accessModes: [ReadWriteOnce], capacity: {storage: 2Gi}, storageClassName: resized"),
					driven("resized-badly", annotated(resizedKey, "many"), "accessModes: [ReadWriteOnce], capacity: {storage: 2Gi}, storageClassName: badly"),
					volumeText("local", "", on("near")+", local: {path: /mnt}, nodeAffinity: {required: {nodeSelectorTerms: [{matchExpressions: [{key: kubernetes.io/hostname, operator: In, values: [elsewhere]}]}]}}"),
				)},
				[]Condition{phases(volumeResource, "Available", names...)},
			},
			{
				"claim them",
				[]Action{CreateAll(
					claimText("one", "", of("sizes")),
					claimText("between", "", "accessModes: [ReadWriteOnce], resources: {requests: {storage: 1500Mi}}, storageClassName: sizes"),
					claimText("huge", "", "accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Ti}}, storageClassName: sizes"),
					claimOf("rwo", "ReadWriteOnce"), claimOf("rox", "ReadOnlyMany"), claimOf("rwx", "ReadWriteMany"), claimOf("pod", "ReadWriteOncePod"),
					claimOf("both", "ReadWriteOnce, ReadOnlyMany"), claimOf("every", "ReadWriteOnce, ReadOnlyMany, ReadWriteMany"),
					claimText("tight", "", of("tight")),
					claimText("wants-gold", "", of("labels")+", selector: {matchLabels: {tier: gold}}"),
					claimText("wants-other", "", of("labels")+", selector: {matchExpressions: [{key: tier, operator: NotIn, values: [gold]}, {key: tier, operator: Exists}]}"),
					claimText("wants-bronze", "", of("labels")+", selector: {matchLabels: {tier: bronze}}"),
					claimText("block", "", of("kinds")+", volumeMode: Block"),
					claimText("file", "", of("kinds")),
					claimText("quick", "", of("attributes")+", volumeAttributesClassName: fast"),
					claimText("slow", "", of("attributes")+", volumeAttributesClassName: slow"),
					claimText("unhurried", "", of("attributes")),
					claimText("legacy", "annotations: {volume.beta.kubernetes.io/storage-class: old}", asks),
					claimText("unclassed", "", asks+`storageClassName: ""`),
					claimText("nil-class", "", "accessModes: [ReadWriteOnce], resources: {requests: {storage: 2Gi}}"),
					claimText("near", "", of("near")),
					claimText("shrunk", "", of("resized")), claimText("unshrunk", "", of("badly")),
					claimText("free", "", `accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Ti}}, storageClassName: ""`),
					claimText("nil-huge", "", "accessModes: [ReadWriteOnce], resources: {requests: {storage: 3Ti}}"),
				)},
				append(all,
					ToldAll(claimResource, "ProvisioningFailed", "not found", "huge", "every", "wants-bronze", "slow"),
					ToldAll(claimResource, "FailedBinding", "no persistent volumes available", "free", "nil-huge")),
			},
			{
				"add volumes that fit, and undo what was bound",
				[]Action{
					CreateAll(
						driven("late-huge", "", "accessModes: [ReadWriteOnce], capacity: {storage: 2Ti}, storageClassName: sizes"),
						driven("late-bronze", "labels: {tier: bronze}", on("labels")),
						driven("late-free", "", "accessModes: [ReadWriteOnce, ReadOnlyMany], capacity: {storage: 2Ti}"),
					),
					Patch(claimResource, "rwx", `{"metadata":{"annotations":null}}`),
					Patch(claimResource, "tight", `{"metadata":{"annotations":{"pv.kubernetes.io/bind-completed":null}}}`),
					Patch(volumeResource, "gold", `{"metadata":{"annotations":null}}`),
					Patch(volumeResource, "silver", `{"spec":{"claimRef":null}}`),
					Patch(volumeResource, "filed", `{"spec":{"claimRef":{"uid":null}}}`),
					PatchStatus(claimResource, "block", `{"status":{"phase":"Pending","capacity":null,"accessModes":null}}`),
					PatchStatus(claimResource, "one", `{"status":{"capacity":{"storage":"7Gi"}}}`),
					PatchStatus(claimResource, "quick", `{"status":{"accessModes":["ReadWriteMany"]}}`),
					PatchStatus(volumeResource, "plain", `{"status":{"phase":"Failed","message":"by hand","reason":"Played"}}`),
					PatchStatus(volumeResource, "size-5", `{"status":{"phase":"Pending","message":"by hand"}}`),
					Patch(volumeResource, "size-2", `{"spec":{"capacity":{"storage":"9Gi"}}}`),
				},
				[]Condition{
					All(bound("huge", "late-huge")...), All(bound("wants-bronze", "late-bronze")...),
					All(bound("wants-other", "silver")...), All(bound("block", "raw")...), All(bound("unhurried", "plain")...),
					phases(volumeResource, "Available", "size-5"),
					Has(claimResource, "quick", "{.status.accessModes[*]}", "ReadWriteOnce"),
					Has(claimResource, "rwx", `{.metadata.annotations.pv\.kubernetes\.io/bind-completed}`, "yes"),
					Has(claimResource, "tight", `{.metadata.annotations.pv\.kubernetes\.io/bind-completed}`, "yes"),
					All(bound("free", "late-free")...),
					phases(claimResource, "Lost", "file"), // in the next pass
				},
			},
		},
	}
}

// volumePointers is about claims and volumes that name each other before they are bound.
func volumePointers() Scenario {
	on := func(class string) string { return small + "storageClassName: " + class }
	wants := func(volume string) string { return asks + "storageClassName: fixed, volumeName: " + volume }
	ref := func(claim string) string { return ", claimRef: {namespace: NAMESPACE, name: " + claim + "}" }
	const byController = `annotations: {pv.kubernetes.io/bound-by-controller: "yes"}`
	const completed = `annotations: {pv.kubernetes.io/bind-completed: "yes"}`
	return Scenario{
		Name:        "volume-pointers",
		Bare:        true,
		Controllers: withBinder,
		Configure:   binderSettings,
		Flags:       binderFlags,
		Kinds:       []schema.GroupVersionResource{volumes, claims},
		Steps: []Step{
			{
				"create volumes",
				[]Action{CreateAll(
					driven("p-free", "labels: {tier: gold}", on("fixed")),
					driven("p-small", "", on("fixed")),
					driven("p-class", "", on("another")),
					driven("p-raw", "", on("fixed")+", volumeMode: Block"),
					driven("p-access", "", "accessModes: [ReadOnlyMany], capacity: {storage: 1Gi}, storageClassName: fixed"),
					driven("p-vac", "", on("fixed")+", volumeAttributesClassName: fast"),
					driven("p-going", "finalizers: [example.com/keeps]", on("fixed")),
					driven("p-taken", "", on("fixed")+", claimRef: {namespace: elsewhere, name: somebody}"),
					driven("p-owned", "", on("fixed")+", claimRef: {namespace: elsewhere, name: somebody, uid: 22222222-2222-2222-2222-222222222222}"),
					driven("p-all-else", "", "accessModes: [ReadOnlyMany], capacity: {storage: 1Gi}, storageClassName: another, volumeMode: Block"+ref("all-else")),
					driven("r-class", "", on("another")+ref("ref-class")),
					driven("r-selector", "", on("fixed")+ref("ref-selector")),
					driven("r-small", "", on("fixed")+ref("ref-small")),
					driven("r-raw", "", on("fixed")+", volumeMode: Block"+ref("ref-raw")),
					driven("r-access", "", "accessModes: [ReadOnlyMany], capacity: {storage: 1Gi}, storageClassName: fixed"+ref("ref-access")),
					driven("r-never", "", on("fixed")+", claimRef: {namespace: NAMESPACE, name: ref-never, uid: 11111111-1111-1111-1111-111111111111}"),
					driven("r-elsewhere", byController, on("fixed")+ref("elsewhere")),
					driven("f-user", "", on("fixed")),
					driven("f-controller", byController, on("fixed")),
					driven("f-provisioned", "annotations: {pv.kubernetes.io/provisioned-by: "+csiDriver+"}", on("fixed")+", persistentVolumeReclaimPolicy: Delete"),
					driven("f-target", "", on("fixed")),
					driven("l-other", "", on("fixed")+", claimRef: {namespace: NAMESPACE, name: lost-other, uid: 11111111-1111-1111-1111-111111111111}"),
					driven("l-named", "", on("fixed")+ref("lost-named")),
					driven("l-free", "", on("lost-and-found")),
				)},
				[]Condition{
					phases(volumeResource, "Available", "p-free", "p-small", "p-class", "p-raw", "p-access", "p-vac", "p-going", "p-taken", "p-all-else",
						"r-class", "r-selector", "r-small", "r-raw", "r-access", "r-elsewhere", "f-user", "f-controller", "f-provisioned", "f-target", "l-free", "l-named"),
					phases(volumeResource, "Released", "p-owned", "r-never", "l-other"),
				},
			},
			{
				"claim them",
				[]Action{
					deletes(volumeResource, "p-going"),
					CreateAll(
						claimText("free", "", wants("p-free")+", selector: {matchLabels: {tier: silver}}"),
						claimText("small", "", "accessModes: [ReadWriteOnce], resources: {requests: {storage: 2Gi}}, storageClassName: fixed, volumeName: p-small"),
						claimText("class", "", wants("p-class")),
						claimText("raw", "", wants("p-raw")),
						claimText("access", "", wants("p-access")),
						claimText("attributes", "", wants("p-vac")+", volumeAttributesClassName: slow"),
						claimText("no-attributes", "", wants("p-vac")),
						claimText("going", "", wants("p-going")),
						claimText("taken", "", wants("p-taken")),
						claimText("owned", "", wants("p-owned")),
						claimText("by-controller", byController, wants("p-owned")),
						claimText("missing", "", wants("p-missing")),
						claimText("all-else", "", wants("p-all-else")),
						claimText("ref-class", "", asks+"storageClassName: fixed"),
						claimText("ref-selector", "", asks+"storageClassName: fixed, selector: {matchLabels: {no: such}}"),
						claimText("ref-small", "", "accessModes: [ReadWriteOnce], resources: {requests: {storage: 2Gi}}, storageClassName: waits"),
						claimText("ref-raw", "", asks+"storageClassName: waits"),
						claimText("ref-access", "", asks+"storageClassName: waits"),
						claimText("ref-never", "", asks+"storageClassName: waits"),
						claimText("moved", "", wants("f-target")),
						claimText("lost-reference", completed, asks+"storageClassName: fixed"),
						claimText("lost-volume", completed, wants("l-missing")),
						claimText("lost-other", completed, wants("l-other")),
						claimText("lost-named", completed, wants("l-named")),
						claimText("found", completed, asks+"storageClassName: strange, volumeName: l-free"),
					),
				},
				[]Condition{
					All(bound("free", "p-free")...), All(bound("all-else", "p-all-else")...), All(bound("ref-class", "r-class")...),
					All(bound("ref-selector", "r-selector")...), All(bound("moved", "f-target")...), All(bound("found", "l-free")...),
					ToldAll(claimResource, "VolumeMismatch", "", "small", "class", "raw", "access", "attributes", "no-attributes", "going"),
					ToldAll(claimResource, "FailedBinding", "already bound to a different claim", "taken", "owned", "by-controller"),
					ToldAll(claimResource, "ProvisioningFailed", "", "ref-small", "ref-access", "ref-never", "ref-raw"),
					phases(claimResource, "Lost", "lost-reference", "lost-volume", "lost-other", "lost-named"),
				},
			},
			{
				"give claims several volumes, and bring what was missing",
				[]Action{
					Reserve("r-raw", "ref-raw"), Reserve("f-user", "moved"), Reserve("f-controller", "moved"), Reserve("f-provisioned", "moved"),
					CreateAll(
						driven("p-missing", "", on("fixed")),
						driven("l-missing", "", on("found-again")),
					),
					Patch(volumeResource, "p-taken", `{"spec":{"claimRef":null}}`),
					Patch(volumeResource, "l-other", `{"spec":{"claimRef":null}}`),
					Patch(volumeResource, "p-going", harness.NoFinalizers),
				},
				[]Condition{
					All(bound("missing", "p-missing")...), All(bound("lost-volume", "l-missing")...), All(bound("lost-other", "l-other")...),
					phases(volumeResource, "Available", "f-user", "f-controller"),
					phases(volumeResource, "Released", "f-provisioned"),
					Has(volumeResource, "f-controller", "{.spec.claimRef}", ""), Has(volumeResource, "f-user", "{.spec.claimRef.uid}", ""),
					Told(volumeResource, "r-raw", "VolumeMismatch", ""), Told(claimResource, "ref-raw", "VolumeMismatch", ""),
					phases(volumeResource, "Bound", "p-taken"), Gone(volumeResource, "p-going"),
				},
			},
		},
	}
}

// volumeLosses is about what becomes of pairs when one of them goes, or is made again.
func volumeLosses() Scenario {
	on := func(name string) string { return driven(name, "", small+"storageClassName: losses") }
	of := func(volume string) string {
		return claimText("of-"+volume, "", asks+"storageClassName: losses, volumeName: "+volume)
	}
	names := []string{"lost", "deleted", "remade", "released", "reused", "kept", "replaced", "stays"}
	create := func(text func(string) string) Action {
		var all []string
		for _, name := range names {
			all = append(all, text(name))
		}
		return CreateAll(all...)
	}
	var pairs []Condition
	for _, name := range names {
		pairs = append(pairs, bound("of-"+name, name)...)
	}
	removed := func(name string) Action {
		return func(ctx context.Context, w *world) error {
			if err := Delete(volumeResource, name, metav1.DeletePropagationBackground)(ctx, w); err != nil {
				return err
			}
			return Patch(volumeResource, name, harness.NoFinalizers)(ctx, w)
		}
	}
	return Scenario{
		Name:        "volume-losses",
		Bare:        true,
		Controllers: withBinder,
		Configure:   binderSettings,
		Flags:       binderFlags,
		Kinds:       []schema.GroupVersionResource{volumes, claims},
		Steps: []Step{
			{"bind volumes", []Action{create(on), create(of)}, pairs},
			{
				"take volumes and claims away",
				[]Action{
					removed("lost"), removed("remade"), removed("replaced"),
					deletes(volumeResource, "kept"),
					deletes(claimResource, "of-deleted", "of-released", "of-reused"),
				},
				[]Condition{
					phases(claimResource, "Lost", "of-lost", "of-remade", "of-replaced"),
					allGone(claimResource, "of-deleted", "of-released", "of-reused"),
					phases(volumeResource, "Released", "deleted", "released", "reused"),
					Has(volumeResource, "kept", "{.status.phase}", "Bound"),
				},
			},
			{
				"bring some back",
				[]Action{
					CreateAll(on("remade"), driven("replaced", "", small+"storageClassName: losses, claimRef: {namespace: elsewhere, name: somebody}")),
					Patch(volumeResource, "released", `{"spec":{"claimRef":null}}`),
					Patch(volumeResource, "reused", `{"spec":{"claimRef":{"uid":null}}}`),
					Repeat(Check(phases(volumeResource, "Available", "released", "reused"))),
					CreateAll(of("deleted"), of("reused")),
					deletes(claimResource, "of-kept"),
				},
				[]Condition{
					All(bound("of-remade", "remade")...), All(bound("of-reused", "reused")...),
					phases(volumeResource, "Available", "released"), Gone(volumeResource, "kept"),
					phases(claimResource, "Lost", "of-lost", "of-replaced"),
					Told(claimResource, "of-deleted", "FailedBinding", "already bound"),
				},
			},
			{
				"delete what is lost and released",
				[]Action{
					deletes(claimResource, "of-lost", "of-replaced", "of-remade"),
					deletes(volumeResource, "deleted", "released"),
				},
				[]Condition{
					allGone(claimResource, "of-lost", "of-replaced", "of-remade"), allGone(volumeResource, "deleted", "released"),
					phases(volumeResource, "Released", "remade"),
				},
			},
		},
	}
}
