package resourceclaim

import (
	"strconv"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/component-base/metrics"

	"kcmd.dev/pkg/controller"
)

const subsystem = "resourceclaim_controller"

type controllerMetrics struct{ creates *metrics.CounterVec }

func newMetrics(r controller.MetricsRegistry, census *census) controllerMetrics {
	m := controllerMetrics{
		creates: metrics.NewCounterVec(&metrics.CounterOpts{
			Subsystem: subsystem, Name: "creates_total", StabilityLevel: metrics.ALPHA,
			Help: "Number of ResourceClaims creation requests, categorized by creation status and admin access",
		}, []string{"status", "admin_access"}),
	}
	r.MustRegister(m.creates, census.gauge)
	return m
}

// created counts a request to create a claim.
func (m controllerMetrics) created(claim *resourcev1.ResourceClaim, err error) {
	status := "success"
	if err != nil {
		status = "failure"
	}
	m.creates.WithLabelValues(status, strconv.FormatBool(asksForAdminAccess(&claim.Spec))).Inc()
}

// class is what claims are counted by.
type class struct {
	allocated, adminAccess bool
	source                 string
}

func classOf(claim *resourcev1.ResourceClaim) class {
	source := ""
	switch {
	case claim.Annotations[resourcev1.ExtendedResourceClaimAnnotation] == "true":
		source = "extended_resource"
	case claim.Annotations[resourcev1.PodResourceClaimAnnotation] != "":
		source = "resource_claim_template"
	}
	return class{claim.Status.Allocation != nil, asksForAdminAccess(&claim.Spec), source}
}

// labels are those of the metric, in its order.
func (c class) labels() []string {
	return []string{strconv.FormatBool(c.allocated), strconv.FormatBool(c.adminAccess), c.source}
}

var classLabels = []string{"allocated", "admin_access", "source"}

// census counts the claims by class, so that nothing is listed when the metric is read. It is used by
// one goroutine, which calls the handlers of claims.
type census struct {
	counts map[class]int
	gauge  *metrics.GaugeVec
}

func newCensus() *census {
	return &census{map[class]int{}, metrics.NewGaugeVec(&metrics.GaugeOpts{
		Subsystem: subsystem, Name: "resource_claims", StabilityLevel: metrics.ALPHA,
		Help: "Number of ResourceClaims, categorized by allocation status, admin access, and source. Source can be 'resource_claim_template' (created from a template), 'extended_resource' (extended resources), or empty (manually created by a user).",
	}, classLabels)}
}

func (c *census) add(claim *resourcev1.ResourceClaim)    { c.count(classOf(claim), 1) }
func (c *census) remove(claim *resourcev1.ResourceClaim) { c.count(classOf(claim), -1) }

// count drops the series of a class without claims.
func (c *census) count(of class, change int) {
	if c.counts[of] += change; c.counts[of] != 0 {
		c.gauge.WithLabelValues(of.labels()...).Set(float64(c.counts[of]))
		return
	}
	delete(c.counts, of)
	labels := map[string]string{}
	for i, value := range of.labels() {
		labels[classLabels[i]] = value
	}
	c.gauge.Delete(labels)
}
