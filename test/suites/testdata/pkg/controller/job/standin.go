// Package job stands in for upstream's, see kcmd.dev/test/suites.
package job

import (
	"context"
	"time"

	k8smetrics "k8s.io/component-base/metrics"
	"k8s.io/kubernetes/pkg/controller/job/metrics"

	"kcmd.dev/test/suites/launch"
)

// Tests set these before they start the controller. They are constants of the manager.
var (
	DefaultJobPodFailureBackOff = 10 * time.Second
	MaxJobPodFailureBackOff     = 10 * time.Minute
	SyncJobBatchPeriod          = time.Second
	MaxUncountedPods            = 500
	MaxPodCreateDeletePerSync   = 500
)

type Controller = launch.Controller

func NewController(_ context.Context, args ...any) (*launch.Controller, error) {
	metrics.Register()
	c := launch.New(args, "job-controller")
	c.Count(map[string]*k8smetrics.CounterVec{
		"job_controller_job_finished_indexes_total":                   metrics.JobFinishedIndexesTotal,
		"job_controller_job_pods_creation_total":                      metrics.JobPodsCreationTotal,
		"job_controller_job_pods_finished_total":                      metrics.JobPodsFinished,
		"job_controller_jobs_by_external_controller_total":            metrics.JobByExternalControllerTotal,
		"job_controller_jobs_finished_total":                          metrics.JobFinishedNum,
		"job_controller_pod_failures_handled_by_failure_policy_total": metrics.PodFailuresHandledByFailurePolicy,
		"job_controller_terminated_pods_tracking_finalizer_total":     metrics.TerminatedPodsTrackingFinalizerTotal,
	})
	return c, nil
}
