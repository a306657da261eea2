package endpoints

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/endpointslice/util"

	"kcmd.dev/pkg/controller"
	"kcmd.dev/pkg/controllers/kit/services/podchanges"
	"kcmd.dev/test/must"
	"kcmd.dev/test/simulation"
)

// model is a world with Services and their pods.
type model struct {
	simulation.Backends
	t *testing.T
}

// TestWhateverHappensTheEndpointsAreThoseOfThePods has pods come and go, Services edited, Endpoints deleted, requests
// fail and the controller restarted, while the caches are behind or incomplete.
func TestWhateverHappensTheEndpointsAreThoseOfThePods(t *testing.T) {
	simulation.Run(t, 40, func(t *testing.T, w *simulation.World) {
		(&model{Backends: simulation.Backends{World: w}, t: t}).run()
	})
}

func (m *model) run() {
	config := config{concurrentSyncs: 1, batchPeriod: time.Duration(m.Rand.IntN(2)) * time.Second}
	m.World.Start = func(env controller.Env, _ any) simulation.Instance {
		c := assemble(env, config)
		services := simulation.NewQueue(m.World, c.reconcile)
		changes := simulation.NewQueue(m.World, c.reconcilePodChange)
		c.serviceQueue, c.podQueue = services, changes
		c.watch()
		m.SyncHandlers()
		must.Succeed(m.t, c.begin(m.Context()))
		return simulation.Instance{
			Runners: []simulation.Runner{services, changes}, HandOver: func() any { return c.HandOver() },
		}
	}
	m.Populate()
	m.MayBeLossy(2)
	m.MayComeLate = simulation.AnyWrite
	m.Begin()
	m.Hasty = []int{0, 0, 5}[m.Rand.IntN(3)]
	m.Play(func() { m.Act(false) }, m.users)
	m.Settle(outdatedFor+time.Minute, func() bool { return m.Act(true) })
	m.check()
	m.Settle(leftoverAfter, func() bool { return m.Act(true) })
	for _, e := range simulation.All[*corev1.Endpoints](m.World) {
		if _, ok := simulation.Get[*corev1.Service](m.World, "ns", e.Name); !ok {
			m.t.Errorf("the Endpoints of Service %s, which is gone, stay", e.Name)
		}
	}
}

func (m *model) users() {
	if all := simulation.All[*corev1.Endpoints](m.World); len(all) > 0 && m.OneIn(6) {
		m.Delete(all[m.Rand.IntN(len(all))], nil)
		return
	}
	m.User()
}

func (m *model) check() {
	for _, service := range simulation.All[*corev1.Service](m.World) {
		if !podchanges.Selects(service) {
			continue
		}
		endpoints, ok := simulation.Get[*corev1.Endpoints](m.World, "ns", service.Name)
		if !ok {
			m.t.Errorf("Service %s has no Endpoints", service.Name)
			continue
		}
		if endpoints.Labels["team"] != service.Labels["team"] {
			m.t.Errorf("Endpoints %s have the labels %v", service.Name, endpoints.Labels)
		}
		got, want := held(endpoints), m.desired(service)
		if !slices.Equal(got, want) {
			m.t.Errorf("Service %s, ports %v\ngot\n%s\nwant\n%s", service.Name, service.Spec.Ports,
				strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
}

// held is what Endpoints hold, one port of one address per line.
func held(e *corev1.Endpoints) (all []string) {
	for _, s := range e.Subsets {
		for _, p := range s.Ports {
			for _, a := range s.Addresses {
				all = append(all, line(a.IP, p, true, a.TargetRef, *a.NodeName, a.Hostname))
			}
			for _, a := range s.NotReadyAddresses {
				all = append(all, line(a.IP, p, false, a.TargetRef, *a.NodeName, a.Hostname))
			}
		}
	}
	slices.Sort(all)
	return all
}

func line(ip string, p corev1.EndpointPort, ready bool, pod *corev1.ObjectReference, node, hostname string) string {
	return fmt.Sprint(ip, " ", p.Name, "=", p.Port, " ", ready, " ", pod.Name, pod.UID, node, hostname)
}

// desired is what the Endpoints of a Service are to hold.
func (m *model) desired(s *corev1.Service) (all []string) {
	for _, pod := range simulation.All[*corev1.Pod](m.World) {
		at := slices.IndexFunc(pod.Status.PodIPs, func(ip corev1.PodIP) bool {
			return strings.Contains(ip.IP, ":") == (s.Spec.IPFamilies[0] == corev1.IPv6Protocol)
		})
		any := s.Spec.PublishNotReadyAddresses
		isIn := pod.Labels["app"] == s.Spec.Selector["app"] && pod.Status.Phase == corev1.PodRunning && at >= 0
		if !isIn || pod.DeletionTimestamp != nil && !any {
			continue
		}
		hostname := ""
		if pod.Spec.Subdomain == s.Name {
			hostname = pod.Spec.Hostname
		}
		for _, p := range s.Spec.Ports {
			number := p.TargetPort.IntVal
			for _, of := range pod.Spec.Containers[0].Ports {
				if of.Name == p.TargetPort.StrVal {
					number = of.ContainerPort
				}
			}
			if number > 0 {
				ref := &corev1.ObjectReference{Name: pod.Name, UID: pod.UID}
				port := corev1.EndpointPort{Name: p.Name, Port: number}
				isReady := any || util.IsPodReady(pod)
				all = append(all, line(pod.Status.PodIPs[at].IP, port, isReady, ref, pod.Spec.NodeName, hostname))
			}
		}
	}
	slices.Sort(all)
	return all
}
