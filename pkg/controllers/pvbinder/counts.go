package pvbinder

import (
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/component-base/metrics"
	"k8s.io/component-helpers/storage/volume"
	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/controller"
	"kcmd.dev/pkg/controllers/kit/volumes"
)

// counts shows how many volumes and claims there are. The numbers change with the stores, so that nothing
// is counted when metrics are read. There is no series for zero.
type counts struct {
	plugins plugins

	totalVolumes, boundVolumes, unboundVolumes, boundClaims, unboundClaims *metrics.GaugeVec

	mu sync.Mutex
	of map[series]int
}

// series is one time series: a metric and the values of its labels, of which it has the first ones.
type series struct {
	metric *metrics.GaugeVec
	labels [3]string
}

func newCounts(r controller.MetricsRegistry, known plugins) *counts {
	gauge := func(name, help string, labels ...string) *metrics.GaugeVec {
		vec := metrics.NewGaugeVec(&metrics.GaugeOpts{Name: name, Help: help, StabilityLevel: metrics.ALPHA}, labels)
		r.MustRegister(vec)
		return vec
	}
	ofClaims := []string{"namespace", "storage_class", "volume_attributes_class"}
	return &counts{
		plugins:        known,
		totalVolumes:   gauge("pv_collector_total_pv_count", "Gauge measuring total number of persistent volumes", "plugin_name", "volume_mode"),
		boundVolumes:   gauge("pv_collector_bound_pv_count", "Gauge measuring number of persistent volume currently bound", "storage_class"),
		unboundVolumes: gauge("pv_collector_unbound_pv_count", "Gauge measuring number of persistent volume currently unbound", "storage_class"),
		boundClaims:    gauge("pv_collector_bound_pvc_count", "Gauge measuring number of persistent volume claim currently bound", ofClaims...),
		unboundClaims:  gauge("pv_collector_unbound_pvc_count", "Gauge measuring number of persistent volume claim currently unbound", ofClaims...),
		of:             map[series]int{},
	}
}

// volumeChanged counts a volume in place of another. Either may be nil.
func (c *counts) volumeChanged(old, current *corev1.PersistentVolume) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.addVolume(current, 1) // first, so that a series that continues is never missing
	c.addVolume(old, -1)
}

func (c *counts) addVolume(v *corev1.PersistentVolume, n int) {
	if v == nil {
		return
	}
	phase := c.unboundVolumes
	if v.Status.Phase == corev1.VolumeBound {
		phase = c.boundVolumes
	}
	c.add(n, c.totalVolumes, c.plugins.nameOf(v), string(volumeModeOf(v.Spec.VolumeMode)))
	c.add(n, phase, v.Spec.StorageClassName)
}

// claimChanged counts a claim in place of another. Either may be nil.
func (c *counts) claimChanged(old, current *corev1.PersistentVolumeClaim) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.addClaim(current, 1)
	c.addClaim(old, -1)
}

func (c *counts) addClaim(claim *corev1.PersistentVolumeClaim, n int) {
	if claim == nil {
		return
	}
	phase := c.unboundClaims
	if claim.Status.Phase == corev1.ClaimBound {
		phase = c.boundClaims
	}
	c.add(n, phase, claim.Namespace, volume.GetPersistentVolumeClaimClass(claim),
		ptr.Deref(claim.Spec.VolumeAttributesClassName, ""))
}

// add changes a number.
func (c *counts) add(n int, metric *metrics.GaugeVec, texts ...string) {
	s := series{metric: metric}
	for i, text := range texts {
		s.labels[i] = controller.LabelValue(text)
	}
	labels := s.labels[:len(texts)]
	c.of[s] += n
	if c.of[s] == 0 {
		delete(c.of, s)
		metric.DeleteLabelValues(labels...)
		return
	}
	metric.WithLabelValues(labels...).Set(float64(c.of[s]))
}

// nameOf returns the name of the plugin of a volume for metrics.
func (p plugins) nameOf(v *corev1.PersistentVolume) string {
	if plugin := p.forVolume(v); plugin != nil {
		return plugin.Name()
	}
	return volumes.UnknownPlugin
}
