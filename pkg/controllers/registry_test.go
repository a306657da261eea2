package controllers

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"kcmd.dev/pkg/config/v1beta1"
	"kcmd.dev/pkg/controller"
	"kcmd.dev/test/controllertest"
	"kcmd.dev/test/must"
)

func TestDescriptorsAreCompleteAndUnique(t *testing.T) {
	canonical := regexp.MustCompile(`^[a-z]([-a-z]*[a-z])?-controller$`)
	names := map[string]string{}
	for _, d := range All() {
		if !canonical.MatchString(d.Name) {
			t.Errorf("%q is no canonical name", d.Name)
		}
		for _, name := range append([]string{d.Name}, d.Aliases...) {
			if other, taken := names[name]; taken {
				t.Errorf("%s and %s are both called %s", d.Name, other, name)
			}
			names[name] = d.Name
		}
		if len(d.Requires)+len(d.Alternatives) == 0 {
			t.Errorf("%s lacks Requires and Alternatives: %+v", d.Name, d)
		}
		if (d.ServiceAccount == "") == (d.ClientName == "") {
			t.Errorf("%s must have either a service account or a client name", d.Name)
		}
	}
}

func descriptorOf(t *testing.T, name string) controller.Descriptor {
	t.Helper()
	all := All()
	i := slices.IndexFunc(all, func(d controller.Descriptor) bool { return d.Name == name })
	if i < 0 {
		t.Fatalf("there is no %s", name)
	}
	return all[i]
}

// TestIdentities is about what users and other components know a controller by: names, service account, source of
// events, and the names of its queues, each with its workers. All of these run by default.
func TestIdentities(t *testing.T) {
	for name, c := range map[string]struct {
		name, alias, account, source string
		queues                       []string
	}{
		"JOB-1: job-controller":                                        {"job-controller", "job", "job-controller", "job-controller", []string{"job 5", "job_orphan_pod 5"}},
		"STS-1, STS-2: statefulset-controller":                         {"statefulset-controller", "statefulset", "statefulset-controller", "statefulset-controller", []string{"statefulset 5"}},
		"DS-1, DS-2: daemonset-controller":                             {"daemonset-controller", "daemonset", "daemon-set-controller", "daemonset-controller", []string{"daemonset 2", "daemonset-node-updates 2"}},
		"DEP-1, DEP-2: deployment-controller":                          {"deployment-controller", "deployment", "deployment-controller", "deployment-controller", []string{"deployment 5"}},
		"RS-1, RS-2: replicaset-controller":                            {"replicaset-controller", "replicaset", "replicaset-controller", "replicaset-controller", []string{"replicaset 5"}},
		"RC-1, RC-2: replicationcontroller-controller":                 {"replicationcontroller-controller", "replicationcontroller", "replication-controller", "replication-controller", []string{"replicationmanager 5"}},
		"HPA-1: horizontal-pod-autoscaler-controller":                  {"horizontal-pod-autoscaler-controller", "horizontalpodautoscaling", "horizontal-pod-autoscaler", "horizontal-pod-autoscaler", []string{"horizontalpodautoscaler 5"}},
		"CRON-1: cronjob-controller":                                   {"cronjob-controller", "cronjob", "cronjob-controller", "cronjob-controller", []string{"cronjob 5"}},
		"EP-1, EP-2, EP-3, EP-4, EP-6: endpoints-controller":           {"endpoints-controller", "endpoint", "endpoint-controller", "endpoint-controller", []string{"endpoint 5", "endpoint_pods 5"}},
		"EPS-1, EPS-2, EPS-5: endpointslice-controller":                {"endpointslice-controller", "endpointslice", "endpointslice-controller", "endpoint-slice-controller", []string{"endpoint_slice 5", "endpoint_slice_pods 5", "endpoint_slice_topology 1"}},
		"EPM-1, EPM-2, EPM-4: endpointslice-mirroring-controller":      {"endpointslice-mirroring-controller", "endpointslicemirroring", "endpointslicemirroring-controller", "endpoint-slice-mirroring-controller", []string{"endpoint_slice_mirroring 5"}},
		"SA-1, SA-2: serviceaccount-controller":                        {"serviceaccount-controller", "serviceaccount", "service-account-controller", "", []string{"serviceaccount 5"}},
		"ROOTCA-1, ROOTCA-2: root-ca-certificate-publisher-controller": {"root-ca-certificate-publisher-controller", "root-ca-cert-publisher", "root-ca-cert-publisher", "", []string{"root_ca_cert_publisher 5"}},
		"PDB-1: disruption-controller":                                 {"disruption-controller", "disruption", "disruption-controller", "controllermanager", []string{"disruption 1", "disruption_recheck 1", "stale_pod_disruption 1"}},
	} {
		t.Run(name, func(t *testing.T) {
			d, cfg := descriptorOf(t, c.name), v1beta1.NewDefault()
			if enabled, _ := d.Enabled(cfg); !enabled || d.Gate != "" {
				t.Errorf("it is enabled: %t, if %q", enabled, d.Gate)
			}
			if !slices.Equal(d.Aliases, []string{c.alias}) || d.ServiceAccount != c.account || d.EventSource != c.source {
				t.Errorf("it is also called %q, acts as %s, and its events are those of %s", d.Aliases, d.ServiceAccount, d.EventSource)
			}
			env := controllertest.New(t)
			must.Get(d.New(env.Env, d.Value(cfg)))(t)
			var queues []string
			for _, loop := range env.Loops() {
				queues = append(queues, fmt.Sprint(loop.Queue, " ", loop.Workers))
			}
			slices.Sort(queues)
			if !slices.Equal(queues, c.queues) {
				t.Errorf("its queues are %q, want %q", queues, c.queues)
			}
		})
	}
}

// TestWhatControllersWaitFor is about those that would take what a cache lacks for what does not exist. These kinds are
// all that they watch.
func TestWhatControllersWaitFor(t *testing.T) {
	for name, resources := range map[string][]string{
		"CRON-3: cronjob-controller":                   {"cronjobs", "jobs"},
		"JOB-7: job-controller":                        {"jobs", "pods"},
		"PDB-3: disruption-controller":                 {"poddisruptionbudgets", "pods", "replicationcontrollers", "replicasets", "deployments", "statefulsets"},
		"EP-12: endpoints-controller":                  {"services", "pods", "endpoints"},
		"EPS-13: endpointslice-controller":             {"services", "pods", "endpointslices", "nodes"},
		"EPM-12: endpointslice-mirroring-controller":   {"services", "endpoints", "endpointslices"},
		"RPSR-5: resourcepoolstatusrequest-controller": {"resourcepoolstatusrequests", "resourceslices", "resourceclaims"},
		"STS-7: statefulset-controller":                {"statefulsets", "pods", "persistentvolumeclaims", "controllerrevisions"},
		"NLC-4: node-lifecycle-controller":             {"nodes", "pods", "leases"},
		"TAINT-4: taint-eviction-controller":           {"nodes", "pods"},
	} {
		for _, resource := range resources {
			t.Run(name+" "+resource, func(t *testing.T) {
				t.Parallel() // the informer waits a while until it lists again
				_, of, _ := strings.Cut(name, ": ")
				d, env := descriptorOf(t, of), controllertest.New(t)
				env.WantWaitsFor(t, must.Get(d.New(env.Env, d.Value(v1beta1.NewDefault())))(t), resource)
				for _, action := range env.Fake.Actions() {
					if listed := action.GetResource().Resource; action.GetVerb() == "list" && !slices.Contains(resources, listed) {
						t.Errorf("%s are watched", listed)
					}
				}
			})
		}
	}
}
