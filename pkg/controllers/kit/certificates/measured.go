package certificates

import (
	"context"

	"k8s.io/component-base/metrics"

	"kcmd.dev/pkg/controller"
	"kcmd.dev/pkg/controllers/kit/reconcile"
)

// Measured returns the reconcile function of a controller that publishes a CA bundle, with metrics: sync_total and
// sync_duration_seconds of a subsystem, with their help texts, by the HTTP status code of the outcome.
func Measured(
	env controller.Env, subsystem, totalHelp, durationHelp string, work reconcile.Func[string],
) reconcile.Func[string] {
	total := metrics.NewCounterVec(&metrics.CounterOpts{
		Subsystem: subsystem, Name: "sync_total",
		Help: totalHelp, StabilityLevel: metrics.ALPHA,
	}, []string{"code"})
	duration := metrics.NewHistogramVec(&metrics.HistogramOpts{
		Subsystem: subsystem, Name: "sync_duration_seconds",
		Help: durationHelp, StabilityLevel: metrics.ALPHA,
		Buckets: metrics.ExponentialBuckets(0.001, 2, 15),
	}, []string{"code"})
	env.Metrics.MustRegister(total, duration)
	return func(ctx context.Context, key string) error {
		began := env.Clock.Now()
		err := work(ctx, key)
		code := reconcile.StatusCode(err)
		total.WithLabelValues(code).Inc()
		duration.WithLabelValues(code).Observe(env.Clock.Since(began).Seconds())
		return err
	}
}
