package deployment

import (
	"maps"
	"math"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
)

const (
	// revisionAnnotation numbers the templates of a Deployment in the order in which
	// they became current. A Deployment carries that of its new ReplicaSet.
	revisionAnnotation = "deployment.kubernetes.io/revision"
	// revisionHistoryAnnotation lists the revisions that a ReplicaSet had before.
	revisionHistoryAnnotation = "deployment.kubernetes.io/revision-history"
	// desiredReplicasAnnotation of a ReplicaSet is spec.replicas of its Deployment when the
	// ReplicaSet was last scaled; if it differs from the present value, there is a scaling
	// event.
	desiredReplicasAnnotation = "deployment.kubernetes.io/desired-replicas"
	// maxReplicasAnnotation of a ReplicaSet is the replicas plus surge of its Deployment
	// when it was last scaled, which its share is computed from.
	maxReplicasAnnotation = "deployment.kubernetes.io/max-replicas"

	// revisionHistoryLength is the length in characters that the list of former
	// revisions may reach before its oldest entries are dropped.
	revisionHistoryLength = 2000
)

// staysBehind reports whether an annotation describes the object that has it, so that it is
// copied neither from a Deployment to its ReplicaSet nor back by a rollback.
func staysBehind(key string) bool {
	switch key {
	case corev1.LastAppliedConfigAnnotation, appsv1.DeprecatedRollbackTo,
		revisionAnnotation, revisionHistoryAnnotation, desiredReplicasAnnotation, maxReplicasAnnotation:
		return true
	}
	return false
}

// copiedAnnotations returns the annotations of a Deployment that are copied to its new
// ReplicaSet.
func copiedAnnotations(from map[string]string) map[string]string {
	copied := maps.Clone(from)
	maps.DeleteFunc(copied, func(key, _ string) bool { return staysBehind(key) })
	return copied
}

// syncedAnnotations returns the annotations that the new ReplicaSet should have: its own,
// overridden by those of the Deployment, and a revision that is not below target. It returns
// nil if the ReplicaSet has them already, or if its revision is not a number. Annotations
// removed from the Deployment are kept.
func syncedAnnotations(d *appsv1.Deployment, rs *appsv1.ReplicaSet, target int64) map[string]string {
	current, had := rs.Annotations[revisionAnnotation]
	var revision int64
	if had && current != "" {
		parsed, err := strconv.ParseInt(current, 10, 64)
		if err != nil {
			return nil
		}
		revision = parsed
	}
	synced := maps.Clone(rs.Annotations)
	if synced == nil {
		synced = map[string]string{}
	}
	maps.Copy(synced, copiedAnnotations(d.Annotations))
	if revision < target {
		synced[revisionAnnotation] = strconv.FormatInt(target, 10)
		if had && current != "" {
			appendHistory(synced, current)
		}
	}
	if maps.Equal(synced, rs.Annotations) {
		return nil
	}
	return synced
}

// appendHistory appends a former revision and drops the oldest ones if the list becomes too
// long. A revision that does not fit at all is not appended.
func appendHistory(annotations map[string]string, former string) {
	history := annotations[revisionHistoryAnnotation]
	for history != "" && len(history)+1+len(former) > revisionHistoryLength {
		_, history, _ = strings.Cut(history, ",")
	}
	switch {
	case history != "":
		annotations[revisionHistoryAnnotation] = history + "," + former
	case len(former) <= revisionHistoryLength:
		annotations[revisionHistoryAnnotation] = former
	}
}

// revisionOf returns the revision of a ReplicaSet: 0 if it has none, false if it is not a
// number.
func revisionOf(rs *appsv1.ReplicaSet) (int64, bool) {
	text := rs.Annotations[revisionAnnotation]
	if text == "" {
		return 0, true
	}
	revision, err := strconv.ParseInt(text, 10, 64)
	return revision, err == nil
}

// maxRevision returns the highest revision of the ReplicaSets, 0 if there is none.
func maxRevision(sets []*appsv1.ReplicaSet) int64 {
	var highest int64
	for _, rs := range sets {
		if revision, ok := revisionOf(rs); ok {
			highest = max(highest, revision)
		}
	}
	return highest
}

// annotatedReplicas returns the number of replicas in an annotation.
func annotatedReplicas(rs *appsv1.ReplicaSet, key string) (int32, bool) {
	value, err := strconv.ParseUint(rs.Annotations[key], 10, 32)
	if err != nil || value > math.MaxInt32 {
		return 0, false
	}
	return int32(value), true
}

// replicasAnnotations returns the annotations that record for which numbers of replicas a
// ReplicaSet was scaled.
func replicasAnnotations(d *appsv1.Deployment) map[string]string {
	return map[string]string{
		desiredReplicasAnnotation: strconv.FormatInt(int64(replicasOf(d)), 10),
		maxReplicasAnnotation:     strconv.FormatInt(maxReplicas(d), 10),
	}
}

// sizedForOther reports whether a ReplicaSet was last scaled for another number of replicas of
// the Deployment. A missing or invalid annotation is ignored.
func sizedForOther(d *appsv1.Deployment, rs *appsv1.ReplicaSet) bool {
	desired, ok := annotatedReplicas(rs, desiredReplicasAnnotation)
	return ok && desired != replicasOf(d)
}
