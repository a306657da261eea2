package job

import (
	"fmt"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/controllers/kit/reconcile"
)

// BenchmarkReconcile is one reconcile that finds nothing to do. It must grow with the
// pods of the Job, not with the other pods and Jobs of the cluster.
func BenchmarkReconcile(b *testing.B) {
	for _, size := range []struct{ own, others int }{{3, 0}, {3, 10_000}, {1_000, 0}, {10_000, 0}} {
		b.Run(fmt.Sprintf("own=%d/others=%d", size.own, size.others), func(b *testing.B) {
			f := benchFixture(b, size.own, size.others)
			f.MeasureIdle(b)
		})
	}
}

// BenchmarkFinishedJobEvent is an event of a finished Job among many pods.
func BenchmarkFinishedJobEvent(b *testing.B) {
	f := benchFixture(b, 3, 10_000)
	job := newJob(withStatusCondition(batchv1.JobComplete, "True", "X"), func(j *batchv1.Job) { j.UID = "finished" })
	job.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{batchv1.ControllerUidLabel: "finished"}}
	b.ReportAllocs()
	for b.Loop() {
		f.c.jobUpdated(reconcile.Fresh, job, job)
	}
}

// BenchmarkParseIndexes reads the longest status there can be of 10,000 indexes.
func BenchmarkParseIndexes(b *testing.B) {
	odd := map[int]bool{}
	for i := 1; i < 10_000; i += 2 {
		odd[i] = true
	}
	text := indexes{}.with(odd).String()
	b.ReportAllocs()
	for b.Loop() {
		if parseIndexes(text, 10_000).count() != 5000 {
			b.Fatal("indexes are missing")
		}
	}
}

// benchFixture has an Indexed Job whose pods all run, and as many other Jobs as other pods.
func benchFixture(b *testing.B, own, others int) *fixture {
	f := newFixture(b, defaults, newJob(indexed, started, sized(int32(own), int32(own)), func(j *batchv1.Job) {
		j.Status.Active, j.Status.Ready = int32(own), ptr.To(int32(own))
	}))
	for i := range own {
		f.Cache(b, newPod(fmt.Sprint("own-", i), ready, atIndex(i)))
	}
	for i := range others {
		name := fmt.Sprint("other-", i)
		job := newJob(func(j *batchv1.Job) { j.Name, j.UID = name, types.UID(name) })
		f.Cache(b, job, newPod(name, func(p *corev1.Pod) {
			p.Labels = map[string]string{batchv1.ControllerUidLabel: name}
			p.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(job, jobKind)}
		}))
	}
	return f
}
