package election

import (
	"slices"
	"strings"

	coordinationv1 "k8s.io/api/coordination/v1"

	"kcmd.dev/pkg/controller"
)

// TakenAnnotation is on a lease. It holds the resource versions of the records that its last holders replaced when they
// took the lease, separated by spaces, the oldest first.
//
// Versions of a lease only grow, and a record can be replaced once. So a process that has seen the lease at some
// version knows every record before it that was ever replaced. A lease which says that another one was, or which does
// not know any more that one was, is of another history than what was seen: etcd was restored, although the version of
// the lease is higher by now. Without that, a process that was cut off during a restore, and for as long as the cluster
// took to reach the version it knew, would go on with watches that begin in the middle of what it has never seen.
const TakenAnnotation = "config.kcmd.dev/taken"

// maxTaken bounds the annotation. A process that was away for more terms than that does not notice a restore by it.
const maxTaken = 16

// takenOf returns the versions at which a lease was taken, nil if they are not known.
func takenOf(l *coordinationv1.Lease) []string {
	versions := strings.Fields(l.Annotations[TakenAnnotation])
	for i, version := range versions {
		if !controller.IsOlder(version, l.ResourceVersion) || i > 0 && !controller.IsOlder(versions[i-1], version) {
			return nil
		}
	}
	return versions
}

// take records on a lease that the record at a version is replaced by that of another holder, or of the same one after
// it had given the lease back.
func take(l *coordinationv1.Lease, version string) {
	versions := append(takenOf(l), version)
	l.Annotations = merged(l.Annotations, map[string]string{
		TakenAnnotation: strings.Join(versions[max(0, len(versions)-maxTaken):], " "),
	})
}

// contradicts reports whether a lease, as it is now, cannot have become of what was seen of it earlier.
func contradicts(seen, now *coordinationv1.Lease) bool {
	known := takenOf(seen)
	if seen.UID != now.UID || len(known) == 0 && seen.Annotations[TakenAnnotation] != "" {
		return false // it is another lease, or somebody else has written the annotation
	}
	var earlier []string
	for _, version := range takenOf(now) {
		if controller.IsOlder(version, seen.ResourceVersion) {
			earlier = append(earlier, version)
		}
	}
	return len(earlier) > 0 && !slices.Equal(earlier, known[max(0, len(known)-len(earlier)):])
}
