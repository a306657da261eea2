package resourcepoolstatusrequest

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	resourcev1 "k8s.io/api/resource/v1"
	resourcev1alpha3 "k8s.io/api/resource/v1alpha3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/controller"
	"kcmd.dev/test/must"
	"kcmd.dev/test/simulation"
)

// poolState is a complete pool as it was at some time.
type poolState struct {
	driver, pool    string
	generation      int64
	slices, devices int32
}

// allocation is how many devices of a pool were allocated at some time.
type allocation struct {
	driver, pool string
	devices      int32
}

// model is a world in which drivers publish pools, devices are allocated, and users ask for them.
type model struct {
	*simulation.World
	t *testing.T
	// generation is the highest that a driver has published of a pool.
	generation map[string]int64
	// complete and allocated are what there was at any time.
	complete  map[poolState]bool
	allocated map[allocation]bool
	// listed are the slices that the controller has listed since it began to reconcile a request, nil for never.
	listed  []*resourcev1.ResourceSlice
	isLossy bool
}

// poolsFor returns the pools of which there are slices, among those for which a request asks.
func poolsFor(r *statusRequest, all []*resourcev1.ResourceSlice) []pool {
	return poolsOf(slices.DeleteFunc(slices.Clone(all), func(s *resourcev1.ResourceSlice) bool {
		name := ptr.Deref(r.Spec.PoolName, "")
		return s.Spec.Driver != r.Spec.Driver || name != "" && s.Spec.Pool.Name != name
	}))
}

// limitOf returns how many pools a request wants at most.
func limitOf(r *statusRequest) int { return int(ptr.Deref(r.Spec.Limit, 100)) }

// remember records the pools and the allocations that there are now.
func (m *model) remember() {
	all := simulation.All[*resourcev1.ResourceSlice](m.World)
	for _, driver := range []string{"d0", "d1"} {
		for _, p := range poolsFor(&statusRequest{Spec: resourcev1alpha3.ResourcePoolStatusRequestSpec{Driver: driver}}, all) {
			if p.isComplete() {
				m.complete[poolState{driver, p.name, p.generation, int32(len(p.slices)), p.devices()}] = true
			}
		}
		for _, name := range []string{"p0", "p1"} {
			now := allocation{driver, name, 0}
			for _, claim := range simulation.All[*resourcev1.ResourceClaim](m.World) {
				for _, result := range claim.Status.Allocation.Devices.Results {
					if result.Driver == driver && result.Pool == name {
						now.devices++
					}
				}
			}
			m.allocated[now] = true
		}
	}
}

// validate checks an answer.
func (m *model) validate(old, new runtime.Object) error {
	was, is := old.(*statusRequest), new.(*statusRequest)
	if was.Status != nil {
		return fmt.Errorf("%s is answered again", is.Name)
	}
	returned := is.Status.Pools
	if int(*is.Status.PoolCount) < len(returned) || len(returned) > limitOf(is) {
		m.t.Errorf("%d of %d pools are returned, and wanted are %d", len(returned), *is.Status.PoolCount, limitOf(is))
	}
	if *is.Status.PoolCount == 0 && !m.IsLateWrite() && (m.listed == nil || len(poolsFor(is, m.listed)) > 0) {
		m.t.Errorf("%s is answered without a pool, and listed are %+v", is.Name, m.listed)
	}
	for i := range returned {
		p := &returned[i]
		if name := ptr.Deref(is.Spec.PoolName, p.PoolName); p.Driver != is.Spec.Driver || p.PoolName != name {
			m.t.Errorf("%s is answered with %+v", is.Name, p)
		}
		if m.isLossy {
			continue
		}
		if !m.complete[poolState{p.Driver, p.PoolName, p.Generation, *p.ResourceSliceCount, *p.TotalDevices}] {
			m.t.Errorf("%s is answered with %+v, which it never was", is.Name, p)
		}
		if !m.allocated[allocation{p.Driver, p.PoolName, *p.AllocatedDevices}] {
			m.t.Errorf("%s is answered with %d allocated devices, as never were", is.Name, *p.AllocatedDevices)
		}
	}
	return nil
}

// deleted checks a deletion by the controller.
func (m *model) deleted(object runtime.Object) {
	if r := object.(*statusRequest); r.Status == nil {
		if age := m.Clock.Since(r.CreationTimestamp.Time); age <= 24*time.Hour {
			m.t.Errorf("%s is deleted after %v, without an answer", r.Name, age)
		}
	} else if kept := m.Clock.Since(r.Status.Conditions[0].LastTransitionTime.Time); kept <= time.Hour {
		m.t.Errorf("%s is deleted %v after it was answered", r.Name, kept)
	}
}

// publish has a driver publish the next slice of a pool, or begin with a new generation of it.
func (m *model) publish() {
	driver, pool := fmt.Sprint("d", m.Rand.IntN(2)), fmt.Sprint("p", m.Rand.IntN(2))
	own := driver + "-" + pool
	first, exists := simulation.Get[*resourcev1.ResourceSlice](m.World, "", own+"-0")
	second, hasSecond := simulation.Get[*resourcev1.ResourceSlice](m.World, "", own+"-1")
	shape := func(count int64) func(s *resourcev1.ResourceSlice) {
		generation, devices := m.generation[own], 1+m.Rand.IntN(3)
		return func(s *resourcev1.ResourceSlice) {
			s.Spec.Driver, s.Spec.Devices = driver, make([]resourcev1.Device, devices)
			s.Spec.Pool = resourcev1.ResourcePool{Name: pool, Generation: generation, ResourceSliceCount: count}
		}
	}
	slice := func(n int) *resourcev1.ResourceSlice {
		return &resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint(own, "-", n)}}
	}
	switch {
	case exists && m.OneIn(6):
		m.Delete(first, nil)
	case hasSecond && m.OneIn(6):
		m.Delete(second, nil)
	case exists && first.Spec.Pool.ResourceSliceCount == 2 && !hasSecond:
		s := slice(1)
		shape(2)(s)
		m.Create(s)
	case exists && hasSecond && first.Spec.Pool.Generation != second.Spec.Pool.Generation:
		m.Note("%s-1 is of generation %d", own, m.generation[own])
		simulation.Change(m.World, second, shape(first.Spec.Pool.ResourceSliceCount))
	case exists:
		m.generation[own]++
		m.Note("%s-0 is of generation %d", own, m.generation[own])
		simulation.Change(m.World, first, shape(int64(1+m.Rand.IntN(2))))
	default:
		s := slice(0)
		m.generation[own]++
		shape(int64(1 + m.Rand.IntN(2)))(s)
		m.Create(s)
	}
}

// finish has drivers publish what is missing of pools that are incomplete.
func (m *model) finish() {
	for _, first := range simulation.All[*resourcev1.ResourceSlice](m.World) {
		own := first.Spec.Driver + "-" + first.Spec.Pool.Name
		_, hasSecond := simulation.Get[*resourcev1.ResourceSlice](m.World, "", own+"-1")
		if first.Spec.Pool.ResourceSliceCount == 2 && first.Name == own+"-0" && !hasSecond {
			m.Create(&resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: own + "-1"}, Spec: first.Spec})
		}
	}
	m.remember()
}

func (m *model) claim() {
	name := fmt.Sprint("claim", m.Rand.IntN(3))
	if claim, ok := simulation.Get[*resourcev1.ResourceClaim](m.World, "ns", name); ok {
		m.Delete(claim, nil)
		return
	}
	m.Create(claim("ns", name, fmt.Sprintf("d%d/p%d/a", m.Rand.IntN(2), m.Rand.IntN(2)), "d0/p0/b"))
}

func (m *model) others() {
	defer m.remember()
	switch m.Rand.IntN(6) {
	case 0, 1:
		m.claim()
	case 2:
		m.Clock.Step(time.Duration(m.Rand.IntN(30*60)) * time.Minute)
	default:
		m.publish()
	}
}

// user asks for pools, or does something with a request.
func (m *model) user() {
	name := fmt.Sprint("request", m.Rand.IntN(4))
	r, ok := simulation.Get[*statusRequest](m.World, "", name)
	switch {
	case !ok:
		r = &statusRequest{ObjectMeta: metav1.ObjectMeta{Name: name}}
		r.Spec.Driver = fmt.Sprint("d", m.Rand.IntN(2))
		if m.OneIn(2) {
			r.Spec.PoolName = ptr.To(fmt.Sprint("p", m.Rand.IntN(2)))
		}
		if m.OneIn(4) {
			r.Spec.Limit = ptr.To[int32](1)
		}
		m.Create(r)
	case m.OneIn(20):
		m.Delete(r, nil)
	case m.OneIn(3):
		m.Note("%s is labelled", name)
		simulation.Change(m.World, r, func(r *statusRequest) { r.Labels = map[string]string{"n": fmt.Sprint(m.Rand.IntN(1000))} })
	}
}

// observe sees what the controller lists.
func (m *model) observe(action clienttesting.Action) {
	if action.Matches("list", "resourceslices") {
		m.listed = append([]*resourcev1.ResourceSlice{}, simulation.All[*resourcev1.ResourceSlice](m.World)...)
	}
}

// TestWhateverHappensRequestsAreAnsweredOnceWithWhatThereWas has pools published one slice after the other and deleted,
// devices allocated, requests created, edited and deleted, writes fail and the controller restarted, while the caches
// are behind, or lack objects.
func TestWhateverHappensRequestsAreAnsweredOnceWithWhatThereWas(t *testing.T) {
	simulation.Run(t, 40, func(t *testing.T, w *simulation.World) {
		(&model{
			World: w, t: t, generation: map[string]int64{}, complete: map[poolState]bool{}, allocated: map[allocation]bool{},
		}).run()
	})
}

func (m *model) run() {
	m.Validate, m.Deleted, m.Answered = m.validate, m.deleted, m.observe
	m.Start = func(env controller.Env, _ any) simulation.Instance {
		c := must.Get(newController(env))(m.t)
		queue := simulation.NewQueue(m.World, func(ctx context.Context, name string) error {
			m.listed = nil
			return c.reconcile(ctx, name)
		})
		c.queue = queue
		var passes *simulation.Queue[string]
		passes = simulation.NewQueue(m.World, func(ctx context.Context, pass string) error {
			c.pass(ctx, ctx)
			passes.AddAfter(pass, passPeriod)
			return nil
		})
		passes.Add("pass")
		return simulation.Instance{Runners: []simulation.Runner{queue, passes}}
	}
	m.remember()
	m.MayComeLate = simulation.AnyWrite
	m.Begin()
	m.Hasty = []int{0, 2}[m.Rand.IntN(2)]
	if m.OneIn(3) {
		m.isLossy, m.Lossy = true, func(runtime.Object) bool { return true }
	}
	m.Play(func() {
		if m.OneIn(4) {
			m.user()
		} else {
			m.others()
		}
	}, m.user)
	if m.OneIn(2) {
		m.Drain()
		m.finish()
	}
	m.Settle(passPeriod/2, nil)
	for _, r := range simulation.All[*statusRequest](m.World) {
		if r.Status != nil {
			continue
		}
		pools := poolsFor(r, simulation.All[*resourcev1.ResourceSlice](m.World))
		pools = pools[:min(len(pools), limitOf(r))]
		if !slices.ContainsFunc(pools, func(p pool) bool { return !p.isComplete() }) {
			m.t.Errorf("%s is not answered: %+v", r.Name, pools)
		}
	}
	m.Settle(26*time.Hour, nil)
	for _, r := range simulation.All[*statusRequest](m.World) {
		m.t.Errorf("after a day there is still %s of %v", r.Name, r.CreationTimestamp)
	}
}
