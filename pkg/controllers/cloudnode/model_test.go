package cloudnode

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	cloudprovider "k8s.io/cloud-provider"
	cloudproviderapi "k8s.io/cloud-provider/api"
	"k8s.io/component-helpers/node/util"

	"kcmd.dev/pkg/config/v1beta1"
	"kcmd.dev/pkg/controller"
	"kcmd.dev/pkg/controllers/cloudnodelifecycle"
	"kcmd.dev/test/fakecloud"
	"kcmd.dev/test/must"
	"kcmd.dev/test/simulation"
	"kcmd.dev/test/simulation/clouds"
)

// model is a world with a cloud whose instances register as nodes, and both controllers of such nodes.
type model struct {
	*simulation.World
	t         *testing.T
	cloud     *clouds.Cloud
	instances map[string]*instance // by name of the node
	last      int
	// born is the number of the instance that a node was registered by, gone has the nodes that had none at any time.
	born map[types.UID]int
	gone map[types.UID]bool
}

// instance is a machine of the cloud.
type instance struct {
	number, address int
	gone, off       bool
}

// TestWhateverHappensNodesAreAsTheirInstancesInTheEnd has instances come, go, shut down and change, nodes become ready
// or not, calls of the cloud fail or take long, and the controllers restarted, while the caches are behind. No node is
// deleted that is ready or whose instance was there all the time, none gets the ID of an earlier instance, and in the
// end nodes are as the cloud has them.
func TestWhateverHappensNodesAreAsTheirInstancesInTheEnd(t *testing.T) {
	simulation.RunInBubbles(t, 30, func(t *testing.T, w *simulation.World) {
		cfg := v1beta1.NewDefault()
		cfg.Cloud.Provider = fakecloud.Name
		made := func(d controller.Descriptor) clouds.Make {
			return func(env controller.Env) (controller.Controller, error) {
				env.Name = d.Name
				return d.New(env, d.Value(cfg))
			}
		}
		cloud := clouds.New(t, w, []string{"InstanceMetadata", "InstanceExists", "InstanceShutdown", ""},
			made(Descriptor()), made(cloudnodelifecycle.Descriptor()))
		(&model{
			World: w, t: t, cloud: cloud,
			instances: map[string]*instance{}, born: map[types.UID]int{}, gone: map[types.UID]bool{},
		}).run()
	})
}

func (m *model) run() {
	m.Deleted, m.cloud.Refuses = m.deleted, m.refuses
	m.machines()
	// Addresses are compared every five minutes, and initializations repeated after 17 minutes.
	m.MayComeLate = simulation.AnyWrite
	m.cloud.Live(m.others, m.machines, 5, 5*time.Minute)
	m.check()
	m.cloud.Stop()
}

// refuses has the cloud not find instances that are gone.
func (m *model) refuses(what string) error {
	method, name, _ := strings.Cut(what, " ")
	if method == "InstanceMetadata" && m.instances[name].gone {
		return cloudprovider.InstanceNotFound
	}
	return nil
}

// deleted is called when a node was deleted for a controller.
func (m *model) deleted(o runtime.Object) {
	node := o.(*corev1.Node)
	if isReady(node) || !m.gone[node.UID] {
		m.t.Errorf("%s is deleted, ready: %t, and its instance is there", node.Name, isReady(node))
	}
}

func isReady(node *corev1.Node) bool {
	_, c := util.GetNodeCondition(&node.Status, corev1.NodeReady)
	return c != nil && c.Status == corev1.ConditionTrue
}

func (m *model) others() {
	if m.OneIn(2) {
		m.machines()
	} else {
		m.cloud.Meddle()
	}
	m.observe()
}

// machines has an instance come, go, shut down or change, or its node change.
func (m *model) machines() {
	name := fmt.Sprint("n", m.Rand.IntN(3))
	is := m.instances[name]
	node, registered := simulation.Get[*corev1.Node](m.World, "", name)
	switch {
	case is == nil || is.gone && !registered:
		m.last++
		is = &instance{number: m.last, address: m.last}
		m.instances[name] = is
		m.shape(name, is)
		m.cloud.Restore(name)
		m.Note("instance %d of %s", is.number, name)
	case is.gone:
		m.ready(node, false)
	case !registered:
		m.born[m.Create(registering(name)).(*corev1.Node).UID] = is.number
	case m.OneIn(4):
		m.Note("instance of %s is gone", name)
		is.gone = true
		m.gone[node.UID] = true
		m.cloud.Remove(name)
		if m.OneIn(2) {
			m.ready(node, false)
		}
	case m.OneIn(4):
		is.off = !is.off
		m.Note("instance of %s is off: %t", name, is.off)
		if m.cloud.Restore(name); is.off {
			m.cloud.ShutDown(name)
		}
		m.ready(node, !is.off)
	case m.OneIn(3):
		is.address++
		m.Note("instance of %s has address %d", name, is.address)
		m.shape(name, is)
	case m.OneIn(4):
		m.Delete(node, nil)
	default:
		m.ready(node, !is.off && m.OneIn(2))
	}
}

// shape has the cloud answer what an instance is.
func (m *model) shape(name string, is *instance) {
	number, address := is.number, is.address
	m.cloud.Shape(name, func(d *cloudprovider.InstanceMetadata) {
		d.ProviderID = fmt.Sprint("fake://", number)
		d.NodeAddresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: fmt.Sprint("10.0.0.", address)}}
	})
}

func registering(name string) *corev1.Node {
	taint := corev1.Taint{Key: cloudproviderapi.TaintExternalCloudProvider, Effect: corev1.TaintEffectNoSchedule}
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.NodeSpec{Taints: []corev1.Taint{taint}}}
}

func (m *model) ready(node *corev1.Node, ready bool) {
	m.Note("node %s is ready: %t", node.Name, ready)
	status := corev1.ConditionUnknown
	if ready {
		status = corev1.ConditionTrue
	}
	simulation.Change(m.World, node, func(n *corev1.Node) {
		n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: status}}
	})
}

// observe checks that no node has the ID of an instance that was there before it.
func (m *model) observe() {
	for _, node := range simulation.All[*corev1.Node](m.World) {
		if id, found := strings.CutPrefix(node.Spec.ProviderID, "fake://"); found {
			if number := must.Get(strconv.Atoi(id))(m.t); number < m.born[node.UID] {
				m.t.Errorf("%s of instance %d has the ID of %d", node.Name, m.born[node.UID], number)
			}
		}
	}
}

func (m *model) check() {
	m.observe()
	for _, node := range simulation.All[*corev1.Node](m.World) {
		is := m.instances[node.Name]
		if is.gone {
			if !isReady(node) {
				m.t.Errorf("%s stays, and its instance is gone", node.Name)
			}
			continue
		}
		a := node.Status.Addresses
		if node.Spec.ProviderID == "" || node.Labels[corev1.LabelTopologyZone] != fakecloud.Zone ||
			len(a) != 1 || a[0].Address != fmt.Sprint("10.0.0.", is.address) {
			m.t.Errorf("%s is not as its instance %+v: %q, %v", node.Name, is, node.Spec.ProviderID, a)
		}
		shut := false
		for _, taint := range node.Spec.Taints {
			shut = shut || taint.Key == cloudproviderapi.TaintNodeShutdown
			if taint.Key == cloudproviderapi.TaintExternalCloudProvider {
				m.t.Errorf("%s is not initialized", node.Name)
			}
		}
		if is.off && !shut || isReady(node) && shut {
			m.t.Errorf("%s is off: %t, ready: %t, tainted: %t", node.Name, is.off, isReady(node), shut)
		}
	}
}
