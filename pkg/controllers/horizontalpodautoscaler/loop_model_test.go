package horizontalpodautoscaler

import (
	"context"
	"errors"
	"math"
	"strconv"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	scalefake "k8s.io/client-go/scale/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	externalv1beta1 "k8s.io/metrics/pkg/apis/external_metrics/v1beta1"
	externalfake "k8s.io/metrics/pkg/client/external_metrics/fake"
	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/controller"
	"kcmd.dev/pkg/controllers/kit/requests"
	"kcmd.dev/test/must"
	"kcmd.dev/test/simulation"
)

// perReplica is the load that each replica is to have.
const perReplica = 10

// loaded is a world with a Deployment whose load changes, and an autoscaler of it.
type loaded struct {
	*simulation.World
	t        *testing.T
	load     int64
	isZeroed bool // zero is a size that the autoscaler may choose
	// zeroed is whether the autoscaler scaled the Deployment to zero, and has seen no replicas since.
	zeroed bool
	// mayBeZeroed is whether it may have done so, by a request without an answer, and no later evaluation has found
	// replicas. The controller cannot tell that from somebody who stops the Deployment.
	mayBeZeroed bool
	// hasRead is whether the evaluation has read the scale.
	hasRead bool
	// isLost is whether the controller cannot know that: an instance ended without handing anything over, or the
	// autoscaler was replaced during an evaluation.
	isLost bool
	// reads are the sizes that were needed when the load was read.
	reads []sized
	began time.Time // when the evaluation began, zero between evaluations
	since time.Time // since when there are this autoscaler and this Deployment, and nobody else has scaled it
}

func (m *loaded) target() (*appsv1.Deployment, bool) {
	return simulation.Get[*appsv1.Deployment](m.World, webKey.Namespace, webKey.Name)
}

func (m *loaded) autoscaler() (*autoscalingv2.HorizontalPodAutoscaler, bool) {
	return simulation.Get[*autoscalingv2.HorizontalPodAutoscaler](m.World, webKey.Namespace, webKey.Name)
}

// validate checks what the controller sets the replicas to.
func (m *loaded) validate(old, new runtime.Object) error {
	was, ok := old.(*appsv1.Deployment)
	if !ok {
		return nil
	}
	from, to := *was.Spec.Replicas, *new.(*appsv1.Deployment).Spec.Replicas
	m.Note("scaled from %d to %d", from, to)
	if from == 0 && !m.zeroed && !m.mayBeZeroed && !m.isLost {
		m.t.Errorf("the Deployment is scaled to %d, and was stopped", to)
	}
	if to > 10 || to < 0 || to == 0 && !m.isZeroed {
		m.t.Errorf("the Deployment is scaled to %d", to)
	}
	for _, read := range m.reads {
		inWindow := read.at.After(m.began.Add(-testConfig.downscaleStabilization))
		if to < from && from <= 10 && inWindow && read.at.After(m.since) && !m.isLost && to < read.replicas {
			m.t.Errorf("scaled from %d to %d, and at %v it needed %d", from, to, read.at, read.replicas)
		}
	}
	m.zeroed = to == 0
	return nil
}

// answerScale answers requests for the scale of the Deployment, by requests for that.
func (m *loaded) answerScale(a clienttesting.Action) (bool, runtime.Object, error) {
	client := m.Client.AppsV1().Deployments(webKey.Namespace)
	var d *appsv1.Deployment
	var err error
	if update, ok := a.(clienttesting.UpdateAction); ok {
		sent := update.GetObject().(*autoscalingv1.Scale)
		stored, ok := m.target()
		if !ok {
			stored = &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: sent.Namespace, Name: sent.Name}}
		}
		next := stored.DeepCopy()
		next.UID, next.ResourceVersion, next.Spec.Replicas = sent.UID, sent.ResourceVersion, &sent.Spec.Replicas
		d, err = client.Update(m.Context(), next, metav1.UpdateOptions{})
		m.mayBeZeroed = m.mayBeZeroed || err != nil && sent.Spec.Replicas == 0 && !requests.IsRefusal(err)
	} else {
		d, err = client.Get(m.Context(), webKey.Name, metav1.GetOptions{})
	}
	if err != nil {
		return true, nil, err
	}
	if !m.hasRead {
		m.mayBeZeroed = m.mayBeZeroed && *d.Spec.Replicas == 0
	}
	m.hasRead = true
	m.zeroed = m.zeroed && *d.Spec.Replicas == 0
	return true, &autoscalingv1.Scale{
		ObjectMeta: metav1.ObjectMeta{Namespace: d.Namespace, Name: d.Name, UID: d.UID, ResourceVersion: d.ResourceVersion},
		Spec:       autoscalingv1.ScaleSpec{Replicas: *d.Spec.Replicas},
		Status:     autoscalingv1.ScaleStatus{Replicas: d.Status.Replicas, Selector: "app=web"},
	}, nil
}

// answerExternal answers with the load.
func (m *loaded) answerExternal(clienttesting.Action) (bool, runtime.Object, error) {
	if m.Faulty && m.OneIn(8) {
		return true, nil, errors.New("the metrics server is down")
	}
	// Within the tolerance, less is enough.
	least := int32(math.Ceil(float64(m.load) / perReplica / (1 + testConfig.tolerance)))
	m.reads = append(m.reads, sized{min(least, 10), m.began})
	value := *resource.NewQuantity(m.load, resource.DecimalSI)
	return true, &externalv1beta1.ExternalMetricValueList{Items: []externalv1beta1.ExternalMetricValue{{Value: value}}}, nil
}

func (m *loaded) start(env controller.Env, left any) simulation.Instance {
	m.isLost = m.isLost || left == nil && m.Clock.Now().After(epoch)
	mapper := meta.NewDefaultRESTMapper([]schema.GroupVersion{appsv1.SchemeGroupVersion})
	mapper.Add(appsv1.SchemeGroupVersion.WithKind("Deployment"), meta.RESTScopeNamespace)
	env.Mapper = mapper
	scales := &scalefake.FakeScaleClient{}
	scales.AddReactor("*", "*", m.answerScale)
	external := &externalfake.FakeExternalMetricsClient{}
	external.AddReactor("list", "*", m.answerExternal)
	config := testConfig
	config.scaleToZero = m.isZeroed
	c := newController(env, config, clients{
		scales: scales, apiVersions: neverChanging{}, source: metricSource{external: external},
	})
	keys := periodic{period: config.syncPeriod}
	keys.Queue = simulation.NewQueue(m.World, func(ctx context.Context, key cache.ObjectName) error {
		m.began, m.hasRead = m.Clock.Now(), false
		defer func() { m.began = time.Time{} }()
		if err := c.reconcile(ctx, key); err != nil {
			m.Note("it fails: %v", err)
			keys.AddRateLimited(key)
		}
		return nil
	})
	c.queue = keys
	m.SyncHandlers()
	must.Succeed(m.t, c.begin(m.Context()))
	return simulation.Instance{Runners: []simulation.Runner{keys.Queue}, HandOver: func() any { return c.HandOver() }}
}

// periodic is a queue whose keys wait for a period.
type periodic struct {
	*simulation.Queue[cache.ObjectName]
	period time.Duration
}

func (p periodic) AddRateLimited(key cache.ObjectName) { p.AddAfter(key, p.period) }

func (m *loaded) createAutoscaler() {
	hpa := newHPA(withMetrics(autoscalingv2.MetricSpec{
		Type: autoscalingv2.ExternalMetricSourceType,
		External: &autoscalingv2.ExternalMetricSource{
			Metric: autoscalingv2.MetricIdentifier{Name: "load"},
			Target: autoscalingv2.MetricTarget{
				Type: autoscalingv2.AverageValueMetricType, AverageValue: ptr.To(resource.MustParse(strconv.Itoa(perReplica))),
			},
		},
	}))
	hpa.UID = ""
	if m.isZeroed {
		hpa.Spec.MinReplicas = ptr.To[int32](0)
	}
	m.zeroed, m.since = false, m.Clock.Now()
	m.isLost = m.isLost || !m.began.IsZero()
	m.Create(hpa)
}

func (m *loaded) createTarget() {
	replicas := int32(m.Rand.IntN(6))
	m.zeroed, m.since = false, m.Clock.Now()
	m.Create(&appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: webKey.Namespace, Name: webKey.Name},
		Spec:       appsv1.DeploymentSpec{Replicas: &replicas},
	})
}

// follow has the status of the Deployment show the replicas.
func (m *loaded) follow() bool {
	d, ok := m.target()
	if !ok || d.Status.Replicas == *d.Spec.Replicas {
		return false
	}
	m.Note("there are %d replicas", *d.Spec.Replicas)
	simulation.Change(m.World, d, func(d *appsv1.Deployment) { d.Status.Replicas = *d.Spec.Replicas })
	return true
}

func (m *loaded) others() {
	switch m.Rand.IntN(3) {
	case 0:
		m.follow()
	case 1:
		m.Clock.Step(time.Duration(m.Rand.IntN(20)) * time.Second)
	case 2:
		if m.OneIn(3) {
			m.load = int64(max(0, m.Rand.IntN(150)-20))
			m.Note("the load is %d", m.load)
		}
	}
}

func (m *loaded) user() {
	d, ok := m.target()
	hpa, isScaled := m.autoscaler()
	switch n := m.Rand.IntN(8); {
	case !ok:
		m.createTarget()
	case !isScaled:
		m.createAutoscaler()
	case n == 0:
		m.Delete(d, nil)
	case n == 1:
		m.Delete(hpa, nil)
	default:
		replicas := int32(max(0, m.Rand.IntN(14)-3))
		m.Note("somebody scales to %d", replicas)
		m.since = m.Clock.Now()
		simulation.Change(m.World, d, func(d *appsv1.Deployment) { d.Spec.Replicas = &replicas })
	}
}

// TestWhateverHappensTheTargetFollowsItsLoadInTheEnd has the load change, the target and its autoscaler scaled,
// stopped, deleted and created again by others, requests fail and the controller restarted, while the caches are
// behind or incomplete.
func TestWhateverHappensTheTargetFollowsItsLoadInTheEnd(t *testing.T) {
	simulation.Run(t, 40, func(t *testing.T, w *simulation.World) { (&loaded{World: w, t: t}).run() })
}

func (m *loaded) run() {
	m.isZeroed = m.OneIn(2)
	m.Validate, m.Start = m.validate, m.start
	m.createTarget()
	m.createAutoscaler()
	m.MayBeLossy(2)
	m.isLost = m.Lossy != nil // what is remembered of an autoscaler goes with it
	m.MayComeLate = simulation.AnyWrite
	m.Begin()
	m.Hasty = []int{0, 3}[m.Rand.IntN(2)]
	m.Play(m.others, m.user)
	m.Settle(15*time.Minute, m.follow)
	m.check()
}

func (m *loaded) check() {
	d, ok := m.target()
	hpa, isScaled := m.autoscaler()
	if !ok || !isScaled {
		return
	}
	is := *d.Spec.Replicas
	least := int32(1)
	if m.isZeroed {
		least = 0
	}
	need := float64(m.load) / perReplica
	want := min(10, max(least, int32(math.Ceil(need))))
	isWithin := is > 0 && math.Abs(need/float64(is)-1) < testConfig.tolerance+0.001
	switch {
	case is == 0 && (!m.zeroed || m.isLost): // somebody else stopped it, or may have
	case is != want && !isWithin:
		m.t.Errorf("there are %d replicas for a load of %d", is, m.load)
	}
	s := hpa.Status
	if s.CurrentReplicas != is || s.DesiredReplicas != is || !isTrue(s.Conditions, autoscalingv2.AbleToScale) {
		m.t.Errorf("there are %d replicas, and the status is %+v", is, s)
	}
}
