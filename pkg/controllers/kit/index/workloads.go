package index

import (
	batchv1 "k8s.io/api/batch/v1"
	schedulingv1alpha2 "k8s.io/api/scheduling/v1alpha2"
	"k8s.io/client-go/tools/cache"
)

const (
	// workloadsByJob files Workloads under the namespace and name of the Job that they
	// describe; the others are not filed.
	workloadsByJob = "workloadByJobName"
	// podGroupsByWorkload files PodGroups under the namespace and name of the Workload
	// that they are made from.
	podGroupsByWorkload = "podGroupByWorkloadName"
)

// Workloads finds Workloads by Job.
type Workloads struct{ indexer cache.Indexer }

// NewWorkloads adds the index to the Workload informer if needed.
func NewWorkloads(informer cache.SharedIndexInformer) (Workloads, error) {
	if err := Ensure(informer, workloadsByJob, workloadKeys); err != nil {
		return Workloads{}, err
	}
	return Workloads{informer.GetIndexer()}, nil
}

// OfJob returns the Workloads that name a Job as what they describe, whoever made them.
func (w Workloads) OfJob(namespace, job string) ([]*schedulingv1alpha2.Workload, error) {
	return appendFrom[*schedulingv1alpha2.Workload](nil, w.indexer, workloadsByJob, namespace+"/"+job)
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

// PodGroups finds PodGroups by Workload.
type PodGroups struct{ indexer cache.Indexer }

// NewPodGroups adds the index to the PodGroup informer if needed.
func NewPodGroups(informer cache.SharedIndexInformer) (PodGroups, error) {
	if err := Ensure(informer, podGroupsByWorkload, podGroupKeys); err != nil {
		return PodGroups{}, err
	}
	return PodGroups{informer.GetIndexer()}, nil
}

// OfWorkload returns the PodGroups made from templates of a Workload.
func (g PodGroups) OfWorkload(namespace, workload string) ([]*schedulingv1alpha2.PodGroup, error) {
	return appendFrom[*schedulingv1alpha2.PodGroup](nil, g.indexer, podGroupsByWorkload, namespace+"/"+workload)
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
