package job

import (
	batchv1 "k8s.io/api/batch/v1"
	schedulingv1alpha2 "k8s.io/api/scheduling/v1alpha2"
	"k8s.io/client-go/tools/cache"

	"kcmd.dev/pkg/controllers/kit/index"
)

const (
	// workloadsByJob indexes Workloads by the namespace and name of the Job that they describe;
	// others are not indexed.
	workloadsByJob = "workloadByJobName"
	// podGroupsByWorkload indexes PodGroups by the namespace and name of the Workload that they
	// are made from.
	podGroupsByWorkload = "podGroupByWorkloadName"
)

// workloadIndex finds Workloads by Job.
type workloadIndex struct{ indexer cache.Indexer }

// newWorkloadIndex adds the index to the Workload informer if needed.
func newWorkloadIndex(informer cache.SharedIndexInformer) workloadIndex {
	index.Ensure(informer, workloadsByJob, workloadKeys)
	return workloadIndex{informer.GetIndexer()}
}

// ofJob returns the Workloads that refer to a Job, no matter who created them.
func (w workloadIndex) ofJob(namespace, job string) ([]*schedulingv1alpha2.Workload, error) {
	return index.Append[*schedulingv1alpha2.Workload](nil, w.indexer, workloadsByJob, namespace+"/"+job)
}

func workloadKeys(obj any) ([]string, error) {
	workload, ok := obj.(*schedulingv1alpha2.Workload)
	if !ok {
		return nil, nil
	}
	ref := workload.Spec.ControllerRef
	if ref == nil || ref.APIGroup != batchv1.GroupName || ref.Kind != "Job" || ref.Name == "" {
		return nil, nil
	}
	return []string{workload.Namespace + "/" + ref.Name}, nil
}

// podGroupIndex finds PodGroups by Workload.
type podGroupIndex struct{ indexer cache.Indexer }

// newPodGroupIndex adds the index to the PodGroup informer if needed.
func newPodGroupIndex(informer cache.SharedIndexInformer) podGroupIndex {
	index.Ensure(informer, podGroupsByWorkload, podGroupKeys)
	return podGroupIndex{informer.GetIndexer()}
}

// ofWorkload returns the PodGroups made from templates of a Workload.
func (g podGroupIndex) ofWorkload(namespace, workload string) ([]*schedulingv1alpha2.PodGroup, error) {
	return index.Append[*schedulingv1alpha2.PodGroup](nil, g.indexer, podGroupsByWorkload, namespace+"/"+workload)
}

func podGroupKeys(obj any) ([]string, error) {
	group, ok := obj.(*schedulingv1alpha2.PodGroup)
	if !ok || group.Spec.PodGroupTemplateRef == nil {
		return nil, nil
	}
	ref := group.Spec.PodGroupTemplateRef.Workload
	if ref == nil || ref.WorkloadName == "" {
		return nil, nil
	}
	return []string{group.Namespace + "/" + ref.WorkloadName}, nil
}
