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
	// desiredReplicasAnnotation of a ReplicaSet is spec.replicas of its Deployment when
	// the ReplicaSet was last scaled; a difference to now is a scaling event.
	desiredReplicasAnnotation = "deployment.kubernetes.io/desired-replicas"
	// maxReplicasAnnotation of a ReplicaSet is the replicas plus surge of its Deployment
	// when it was last scaled, which its share is computed from.
	maxReplicasAnnotation = "deployment.kubernetes.io/max-replicas"

	// revisionHistoryLength is the length in characters that the list of former
	// revisions may reach before its oldest entries are dropped.
	revisionHistoryLength = 2000
)

// staysBehind reports that an annotation describes the object it is on, so that it is
// copied neither from a Deployment to its ReplicaSet nor back by a rollback.
func staysBehind(key string) bool {
	switch key {
	case corev1.LastAppliedConfigAnnotation, appsv1.DeprecatedRollbackTo,
		revisionAnnotation, revisionHistoryAnnotation, desiredReplicasAnnotation, maxReplicasAnnotation:
		return true
	}
	return false
}

// copiedAnnotations are the annotations of a Deployment that its new ReplicaSet gets.
func copiedAnnotations(from map[string]string) map[string]string {
	copied := maps.Clone(from)
	maps.DeleteFunc(copied, func(key, _ string) bool { return staysBehind(key) })
	return copied
}

// syncedAnnotations are the annotations that the new ReplicaSet should have: those of
// the Deployment on top of its own, and a revision that is not below target. It returns
// nil if the ReplicaSet has them already, or carries a revision that is no number.
// Annotations that the Deployment lost stay.
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

// appendHistory notes a former revision, dropping the oldest ones that would make the
// list too long. A revision that does not fit at all is not noted.
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

// revisionOf is the revision of a ReplicaSet: 0 if it has none, false if it is no number.
func revisionOf(rs *appsv1.ReplicaSet) (int64, bool) {
	text := rs.Annotations[revisionAnnotation]
	if text == "" {
		return 0, true
	}
	revision, err := strconv.ParseInt(text, 10, 64)
	return revision, err == nil
}

// maxRevision is the highest revision among ReplicaSets, 0 if there is none.
func maxRevision(sets []*appsv1.ReplicaSet) int64 {
	var highest int64
	for _, rs := range sets {
		if revision, ok := revisionOf(rs); ok {
			highest = max(highest, revision)
		}
	}
	return highest
}

// annotatedReplicas reads a number of replicas from an annotation.
func annotatedReplicas(rs *appsv1.ReplicaSet, key string) (int32, bool) {
	value, err := strconv.ParseUint(rs.Annotations[key], 10, 32)
	if err != nil || value > math.MaxInt32 {
		return 0, false
	}
	return int32(value), true
}

// replicasAnnotations are the annotations that record what a ReplicaSet was scaled for.
func replicasAnnotations(d *appsv1.Deployment) map[string]string {
	return map[string]string{
		desiredReplicasAnnotation: strconv.FormatInt(int64(replicasOf(d)), 10),
		maxReplicasAnnotation:     strconv.FormatInt(maxReplicas(d), 10),
	}
}

// sizedForOther reports that a ReplicaSet was last scaled for another number of replicas
// of the Deployment. A missing or invalid annotation does not count.
func sizedForOther(d *appsv1.Deployment, rs *appsv1.ReplicaSet) bool {
	desired, ok := annotatedReplicas(rs, desiredReplicasAnnotation)
	return ok && desired != replicasOf(d)
}
