package job

import (
	"context"
	"fmt"

	batchv1 "k8s.io/api/batch/v1"
	schedulingv1alpha2 "k8s.io/api/scheduling/v1alpha2"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/controller"
	"kcmd.dev/pkg/controllers/kit/pods"
	"kcmd.dev/pkg/controllers/kit/requests"
	"kcmd.dev/pkg/controllers/kit/writes"
)

var (
	workloadResource = schedulingv1alpha2.Resource("workloads")
	podGroupResource = schedulingv1alpha2.Resource("podgroups")
)

// gangs finds the objects that make the scheduler start the pods of a Job together:
//
//  1. If a parallel Indexed Job has equal completions and parallelism, the controller creates a
//     Workload with a single pod group template, and a PodGroup from that template.
//  2. The controller creates a Workload only for a Job that never started, because existing pods
//     could not join the group. It creates a missing PodGroup at any time, because pods refer to
//     it by name. It uses existing objects if this Job controls them and they have that form.
//  3. In every other case the scheduler schedules pods one by one.
//  4. What it created is awaited like pods: a Job that has started, and whose Workload the cache does not show yet,
//     would be taken for one without, and its next pods would not join the group. Before it gets pods, it is read live.
type gangs struct {
	workloads workloadIndex
	podGroups podGroupIndex
}

// newGangs returns nil if gang scheduling is off.
func newGangs(env controller.Env, enabled bool) *gangs {
	if !enabled {
		return nil
	}
	scheduling := env.Informers.Scheduling().V1alpha2()
	workloads := newWorkloadIndex(scheduling.Workloads().Informer())
	podGroups := newPodGroupIndex(scheduling.PodGroups().Informer())
	return &gangs{workloads: workloads, podGroups: podGroups}
}

// writtenStores returns the stores of what is created for a Job.
func (g *gangs) writtenStores(ofPods writes.Store) writes.Stores {
	stores := writes.Stores{pods.Resource: ofPods}
	if g != nil {
		stores[workloadResource] = g.workloads.indexer
		stores[podGroupResource] = g.podGroups.indexer
	}
	return stores
}

// ensureGang returns the name of the PodGroup of the pods of a Job, empty if they have none.
func (c *jobController) ensureGang(ctx context.Context, r *reconciliation) (string, error) {
	if c.gangs == nil || r.job.DeletionTimestamp != nil || !formsGang(r.job) {
		return "", nil
	}
	if unseen, err := c.unseenGang(ctx, r); unseen != "" || err != nil {
		return unseen, err
	}
	var group *schedulingv1alpha2.PodGroup
	// If an object exists that the cache does not show yet, reading again helps.
	err := requests.RetryOn(apierrors.IsAlreadyExists, retry.DefaultRetry, func() (err error) {
		workload, err := c.ensureWorkload(ctx, r)
		if err != nil || workload == nil {
			return err
		}
		group, err = c.ensurePodGroup(ctx, r, workload)
		return err
	})
	if err != nil {
		return "", fmt.Errorf("ensuring Workload and PodGroup for Job %s: %w", r.key, err)
	}
	if group == nil {
		return "", nil
	}
	return group.Name, nil
}

// unseenGang returns the name of the PodGroup of a Job that has started, and of which the cache shows no Workload, empty
// if there is none. A list after a break of the watch may lack the Workload, so it is read live if pods are lacking.
func (c *jobController) unseenGang(ctx context.Context, r *reconciliation) (string, error) {
	found, err := c.gangs.workloads.ofJob(r.job.Namespace, r.job.Name)
	if err != nil || len(found) > 0 || r.neverStarted() || !r.lacksPods() {
		return "", err
	}
	workload, err := c.Client.SchedulingV1alpha2().Workloads(r.job.Namespace).Get(ctx, workloadName(r.job), metav1.GetOptions{})
	switch {
	case controller.Absent(err):
		return "", nil
	case err != nil:
		return "", fmt.Errorf("reading the Workload of Job %s: %w", r.key, err)
	case r.usable(ctx, workload) == nil:
		return "", nil
	}
	group := newPodGroup(r.job, workload)
	if err := c.createPodGroup(ctx, r, group); err != nil && !apierrors.IsAlreadyExists(err) {
		return "", fmt.Errorf("creating the PodGroup of Job %s: %w", r.key, err)
	}
	return group.Name, nil
}

// lacksPods reports whether pods may be created for a Job of a gang.
func (r *reconciliation) lacksPods() bool {
	return r.settled && !isSuspended(r.job) && int32(len(r.active)) < *r.job.Spec.Parallelism
}

func formsGang(job *batchv1.Job) bool {
	return ptr.Deref(job.Spec.Parallelism, 0) > 1 &&
		isIndexed(job) &&
		ptr.Equal(job.Spec.Parallelism, job.Spec.Completions) &&
		job.Spec.Template.Spec.SchedulingGroup == nil
}

// neverStarted reports whether a Job is new. observe may have set its start time, so the
// reported status decides.
func (r *reconciliation) neverStarted() bool {
	return len(r.pods) == 0 && r.reported.StartTime == nil && r.reported.Succeeded == 0 && r.reported.Failed == 0 &&
		!hasConditionType(r.job, batchv1.JobSuspended)
}

// ensureWorkload returns the Workload of a Job, nil if it has none that can be used.
func (c *jobController) ensureWorkload(ctx context.Context, r *reconciliation) (*schedulingv1alpha2.Workload, error) {
	found, err := c.gangs.workloads.ofJob(r.job.Namespace, r.job.Name)
	if err != nil {
		return nil, err
	}
	logger := klog.FromContext(ctx)
	switch {
	case len(found) > 1:
		logger.Info("Job has several Workloads, using none", "job", klog.KObj(r.job), "workloads", len(found))
		return nil, nil
	case len(found) == 1:
		return r.usable(ctx, found[0]), nil
	case !r.neverStarted():
		return nil, nil
	}
	created, err := c.Client.SchedulingV1alpha2().Workloads(r.job.Namespace).Create(ctx, newWorkload(r.job), metav1.CreateOptions{})
	if err != nil {
		return nil, err
	}
	c.owners.Writes.Wrote(r.job, workloadResource, created.ResourceVersion)
	c.Record(createdWorkload(r.job, created.Name))
	return created, nil
}

// usable returns the Workload if the Job can use it, nil otherwise.
func (r *reconciliation) usable(ctx context.Context, workload *schedulingv1alpha2.Workload) *schedulingv1alpha2.Workload {
	if metav1.IsControlledBy(workload, r.job) && len(workload.Spec.PodGroupTemplates) == 1 {
		return workload
	}
	klog.FromContext(ctx).V(2).Info("Ignoring a Workload that the Job does not control or that has another form", "job", klog.KObj(r.job), "workload", klog.KObj(workload))
	return nil
}

// ensurePodGroup returns the PodGroup of the Workload of a Job, nil if there is none that
// can be used.
func (c *jobController) ensurePodGroup(ctx context.Context, r *reconciliation, workload *schedulingv1alpha2.Workload) (*schedulingv1alpha2.PodGroup, error) {
	found, err := c.gangs.podGroups.ofWorkload(workload.Namespace, workload.Name)
	if err != nil {
		return nil, err
	}
	logger := klog.FromContext(ctx)
	switch {
	case len(found) > 1:
		logger.Info("Workload has several PodGroups, using none", "workload", klog.KObj(workload), "podGroups", len(found))
		return nil, nil
	case len(found) == 1:
		if !metav1.IsControlledBy(found[0], r.job) {
			logger.V(2).Info("Ignoring a PodGroup that the Job does not control", "job", klog.KObj(r.job), "podGroup", klog.KObj(found[0]))
			return nil, nil
		}
		return found[0], nil
	}
	group := newPodGroup(r.job, workload)
	return group, c.createPodGroup(ctx, r, group)
}

func (c *jobController) createPodGroup(ctx context.Context, r *reconciliation, group *schedulingv1alpha2.PodGroup) error {
	created, err := c.Client.SchedulingV1alpha2().PodGroups(group.Namespace).Create(ctx, group, metav1.CreateOptions{})
	if err == nil {
		c.owners.Writes.Wrote(r.job, podGroupResource, created.ResourceVersion)
	}
	return err
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
