package job

import (
	"context"
	"fmt"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	schedulingv1alpha2 "k8s.io/api/scheduling/v1alpha2"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/controllers/kit/controller"
	"kcmd.dev/pkg/controllers/kit/index"
)

// gangs finds the objects that tell the scheduler to start the pods of a Job together:
//
//  1. A parallel Indexed Job that has as many completions as pods at a time gets one
//     Workload with one pod group template, and one PodGroup made from it.
//  2. The Workload is made for a Job that never started, and never later: pods that exist
//     could not join. A PodGroup that its Workload lacks is made at any time: pods name it.
//     What is there already is used if it is this Job's and of that form.
//  3. In every other case pods are scheduled one by one.
type gangs struct {
	workloads index.Workloads
	podGroups index.PodGroups
}

func newGangs(env controller.Env) (*gangs, error) {
	scheduling := env.Informers.Scheduling().V1alpha2()
	workloads, err := index.NewWorkloads(scheduling.Workloads().Informer())
	if err != nil {
		return nil, err
	}
	podGroups, err := index.NewPodGroups(scheduling.PodGroups().Informer())
	if err != nil {
		return nil, err
	}
	return &gangs{workloads: workloads, podGroups: podGroups}, nil
}

// ensureGang returns the name of the PodGroup of the pods of a Job, empty if they have none.
func (c *jobController) ensureGang(ctx context.Context, o *observation) (string, error) {
	if c.gangs == nil || o.job.DeletionTimestamp != nil || !formsGang(o.job) {
		return "", nil
	}
	var group *schedulingv1alpha2.PodGroup
	// That an object exists which the cache does not show is cured by looking again.
	err := retry.OnError(retry.DefaultRetry, apierrors.IsAlreadyExists, func() (err error) {
		workload, err := c.ensureWorkload(ctx, o)
		if err != nil || workload == nil {
			return err
		}
		group, err = c.ensurePodGroup(ctx, o, workload)
		return err
	})
	if err != nil {
		return "", fmt.Errorf("ensuring Workload and PodGroup for Job %s: %w", o.key, err)
	}
	if group == nil {
		return "", nil
	}
	return group.Name, nil
}

func formsGang(job *batchv1.Job) bool {
	return ptr.Deref(job.Spec.Parallelism, 0) > 1 &&
		isIndexed(job) &&
		ptr.Equal(job.Spec.Parallelism, job.Spec.Completions) &&
		job.Spec.Template.Spec.SchedulingGroup == nil
}

// neverStarted reports that a Job is new. observe may have set its start time, so the
// reported status tells.
func (o *observation) neverStarted() bool {
	return len(o.pods) == 0 && o.reported.StartTime == nil && o.reported.Succeeded == 0 && o.reported.Failed == 0 &&
		!hasConditionType(o.job, batchv1.JobSuspended)
}

// ensureWorkload returns the Workload of a Job, nil if it has none that can be used.
func (c *jobController) ensureWorkload(ctx context.Context, o *observation) (*schedulingv1alpha2.Workload, error) {
	found, err := c.gangs.workloads.OfJob(o.job.Namespace, o.job.Name)
	if err != nil {
		return nil, err
	}
	logger := klog.FromContext(ctx)
	switch {
	case len(found) > 1:
		logger.Info("Job has several Workloads, none is used", "job", klog.KObj(o.job), "workloads", len(found))
		return nil, nil
	case len(found) == 1:
		if !metav1.IsControlledBy(found[0], o.job) || len(found[0].Spec.PodGroupTemplates) != 1 {
			logger.V(2).Info("Workload of Job is not of the controller's making and not used", "job", klog.KObj(o.job), "workload", klog.KObj(found[0]))
			return nil, nil
		}
		return found[0], nil
	case !o.neverStarted():
		return nil, nil
	}
	created, err := c.client.SchedulingV1alpha2().Workloads(o.job.Namespace).Create(ctx, newWorkload(o.job), metav1.CreateOptions{})
	if err != nil {
		return nil, err
	}
	c.events.Eventf(o.job, corev1.EventTypeNormal, reasonWorkloadCreated, "Created Workload %s for Job %s", created.Name, o.job.Name)
	return created, nil
}

// ensurePodGroup returns the PodGroup of the Workload of a Job, nil if there is none that
// can be used.
func (c *jobController) ensurePodGroup(ctx context.Context, o *observation, workload *schedulingv1alpha2.Workload) (*schedulingv1alpha2.PodGroup, error) {
	found, err := c.gangs.podGroups.OfWorkload(workload.Namespace, workload.Name)
	if err != nil {
		return nil, err
	}
	logger := klog.FromContext(ctx)
	switch {
	case len(found) > 1:
		logger.Info("Workload has several PodGroups, none is used", "workload", klog.KObj(workload), "podGroups", len(found))
		return nil, nil
	case len(found) == 1:
		if !metav1.IsControlledBy(found[0], o.job) {
			logger.V(2).Info("PodGroup is not of the controller's making and not used", "job", klog.KObj(o.job), "podGroup", klog.KObj(found[0]))
			return nil, nil
		}
		return found[0], nil
	}
	return c.client.SchedulingV1alpha2().PodGroups(workload.Namespace).Create(ctx, newPodGroup(o.job, workload), metav1.CreateOptions{})
}

func newWorkload(job *batchv1.Job) *schedulingv1alpha2.Workload {
	return &schedulingv1alpha2.Workload{
		ObjectMeta: metav1.ObjectMeta{
			Namespace:       job.Namespace,
			Name:            workloadName(job),
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(job, jobKind)},
		},
		Spec: schedulingv1alpha2.WorkloadSpec{
			ControllerRef: &schedulingv1alpha2.TypedLocalObjectReference{
				APIGroup: jobKind.Group, Kind: jobKind.Kind, Name: job.Name,
			},
			PodGroupTemplates: []schedulingv1alpha2.PodGroupTemplate{{
				Name: job.Name + "-pgt-0",
				SchedulingPolicy: schedulingv1alpha2.PodGroupSchedulingPolicy{
					Gang: &schedulingv1alpha2.GangSchedulingPolicy{MinCount: *job.Spec.Parallelism},
				},
			}},
		},
	}
}

func newPodGroup(job *batchv1.Job, workload *schedulingv1alpha2.Workload) *schedulingv1alpha2.PodGroup {
	template := &workload.Spec.PodGroupTemplates[0]
	return &schedulingv1alpha2.PodGroup{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: job.Namespace,
			Name:      podGroupName(workload.Name, template.Name),
			OwnerReferences: []metav1.OwnerReference{
				*metav1.NewControllerRef(job, jobKind),
				{
					APIVersion: schedulingv1alpha2.SchemeGroupVersion.String(),
					Kind:       "Workload",
					Name:       workload.Name,
					UID:        workload.UID,
				},
			},
		},
		Spec: schedulingv1alpha2.PodGroupSpec{
			PodGroupTemplateRef: &schedulingv1alpha2.PodGroupTemplateReference{
				Workload: &schedulingv1alpha2.WorkloadPodGroupTemplateReference{
					WorkloadName:         workload.Name,
					PodGroupTemplateName: template.Name,
				},
			},
			SchedulingPolicy: *template.SchedulingPolicy.DeepCopy(),
		},
	}
}
