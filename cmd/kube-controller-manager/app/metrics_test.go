package app

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	clientmetrics "k8s.io/client-go/tools/metrics"
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"

	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/test/controllertest"
)

// familiesOf are the families of a registry by name.
func familiesOf(t *testing.T, registry metrics.Gatherer) map[string]*dto.MetricFamily {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]*dto.MetricFamily{}
	for _, f := range families {
		all[f.GetName()] = f
	}
	return all
}

// shapeOf is the kind of a family, with its labels and the upper bounds of its buckets.
func shapeOf(f *dto.MetricFamily) string {
	var labels []string
	for _, l := range f.Metric[0].Label {
		labels = append(labels, l.GetName())
	}
	slices.Sort(labels)
	var bounds []string
	for _, b := range f.Metric[0].GetHistogram().GetBucket() {
		bounds = append(bounds, fmt.Sprintf("%.9g", b.GetUpperBound()))
	}
	return strings.TrimSpace(f.GetType().String() + " " + strings.Join(labels, ",") + " " + strings.Join(bounds, " "))
}

// What client-go counts is shown with the names and labels of upstream. Pins MGR-128 and MGR-130.
func TestMetricsOfClientsAreThoseOfUpstream(t *testing.T) {
	ctx, at, expires := t.Context(), url.URL{Host: "h"}, time.Now().Add(time.Hour)
	clientmetrics.RequestLatency.Observe(ctx, "GET", at, time.Second)
	clientmetrics.RateLimiterLatency.Observe(ctx, "GET", at, time.Second)
	clientmetrics.ResolverLatency.Observe(ctx, "h", time.Second)
	clientmetrics.RequestSize.Observe(ctx, "GET", "h", 1)
	clientmetrics.ResponseSize.Observe(ctx, "GET", "h", 1)
	clientmetrics.RequestResult.Increment(ctx, "200", "GET", "h")
	clientmetrics.RequestRetry.IncrementRetry(ctx, "429", "GET", "h")
	clientmetrics.ClientCertExpiry.Set(&expires)
	clientmetrics.ClientCertRotationAge.Observe(time.Hour)
	clientmetrics.ExecPluginCalls.Increment(0, "no_error")
	clientmetrics.ExecPluginPolicyCalls.Increment("allowed")
	clientmetrics.TransportCacheEntries.Observe(1)
	clientmetrics.TransportCreateCalls.Increment("hit")
	clientmetrics.TransportCAReloads.Increment("success", "ca_rotated")
	clientmetrics.TransportCertRotationGCCalls.Increment()
	clientmetrics.TransportCacheGCCalls.Increment("deleted")

	all := familiesOf(t, legacyregistry.DefaultGatherer)
	const (
		durations = "HISTOGRAM host,verb 0.005 0.025 0.1 0.25 0.5 1 2 4 8 15 30 60"
		sizes     = "HISTOGRAM host,verb 64 256 512 1024 4096 16384 65536 262144 1048576 4194304 16777216"
	)
	for name, want := range map[string]string{
		"rest_client_request_duration_seconds":               durations,
		"rest_client_rate_limiter_duration_seconds":          durations,
		"rest_client_request_size_bytes":                     sizes,
		"rest_client_response_size_bytes":                    sizes,
		"rest_client_requests_total":                         "COUNTER code,host,method",
		"rest_client_request_retries_total":                  "COUNTER code,host,verb",
		"rest_client_exec_plugin_ttl_seconds":                "GAUGE",
		"rest_client_exec_plugin_certificate_rotation_age":   "HISTOGRAM  600 1800 3600 14400 86400 604800 2592000 7776000 15552000 31104000 124416000",
		"rest_client_exec_plugin_call_total":                 "COUNTER call_status,code",
		"rest_client_transport_cache_entries":                "GAUGE",
		"rest_client_transport_create_calls_total":           "COUNTER result",
		"rest_client_transport_ca_reload_total":              "COUNTER reason,result",
		"rest_client_transport_cert_rotation_gc_calls_total": "COUNTER",
		"rest_client_transport_cache_gc_calls_total":         "COUNTER result",
	} {
		f := all[name]
		if f == nil {
			t.Errorf("%s is not shown", name)
			continue
		}
		if got := shapeOf(f); got != want || !strings.HasPrefix(f.GetHelp(), "[ALPHA] ") {
			t.Errorf("%s is %q, want %q; its help is %q", name, got, want, f.GetHelp())
		}
	}
	for _, name := range []string{"rest_client_dns_resolution_duration_seconds", "rest_client_exec_plugin_policy_call_total"} {
		if all[name] != nil {
			t.Errorf("%s is shown", name)
		}
	}
}

// Pins MGR-135.
func TestMetricsOfTheProgram(t *testing.T) {
	all := familiesOf(t, legacyregistry.DefaultGatherer)
	for _, name := range []string{
		"go_goroutines", "go_info", "go_memstats_heap_alloc_bytes", // the basic ones
		"go_sched_latencies_seconds", "go_gc_heap_live_bytes", "go_cpu_classes_idle_cpu_seconds_total", // of runtime/metrics
		"process_cpu_seconds_total", "process_resident_memory_bytes", "process_open_fds", "process_start_time_seconds",
	} {
		if all[name] == nil {
			t.Errorf("%s is not shown", name)
		}
	}
}

// Pins MGR-129.
func TestMetricsOfQueuesAreThoseOfUpstream(t *testing.T) {
	env := controllertest.New(t)
	reconcile.New(env.Env, reconcile.Options[string]{Queue: "deployment", Workers: 1}, func(context.Context, string) error { return nil })
	all := familiesOf(t, env.Metrics)
	const durations = "HISTOGRAM name 1e-08 1e-07 1e-06 1e-05 0.0001 0.001 0.01 0.1 1 10"
	for name, want := range map[string]string{
		"workqueue_depth":                             "GAUGE name",
		"workqueue_unfinished_work_seconds":           "GAUGE name",
		"workqueue_longest_running_processor_seconds": "GAUGE name",
		"workqueue_adds_total":                        "COUNTER name",
		"workqueue_retries_total":                     "COUNTER name",
		"workqueue_queue_duration_seconds":            durations,
		"workqueue_work_duration_seconds":             durations,
	} {
		f := all[name]
		if f == nil {
			t.Errorf("%s is not shown", name)
			continue
		}
		if got := shapeOf(f); got != want || f.Metric[0].Label[0].GetValue() != "deployment" || !strings.HasPrefix(f.GetHelp(), "[BETA] ") {
			t.Errorf("%s is %q of %v, want %q; its help is %q", name, got, f.Metric[0].Label, want, f.GetHelp())
		}
	}
}
