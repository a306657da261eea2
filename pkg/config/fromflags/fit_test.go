package fromflags

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// wantNote wants a note that begins like this, and of this importance.
func wantNote(t *testing.T, result *Result, important bool, want string) {
	t.Helper()
	if !slices.ContainsFunc(result.Notes, func(n Note) bool { return n.Important == important && strings.HasPrefix(n.String(), want) }) {
		t.Errorf("no note %q (important %t) in %v", want, important, result.Notes)
	}
}

func TestCommandLinesThatWorkUpstreamAreConverted(t *testing.T) {
	const lifecycle = "controllers:\n  node-lifecycle-controller:\n    "
	const quota = "controllers:\n  resourcequota-controller:\n    "
	tests := []struct {
		name, want string
		args       []string
		important  bool
		note       string
	}{
		{"certificates of a hundred years", "controllers:\n  certificatesigningrequest-signing-controller:\n    certificateDuration: 876000h",
			[]string{"--cluster-signing-duration=876000h"}, false, ""},
		{"nodes without heartbeats", lifecycle + "nodeMonitorPeriod: 1h\n    nodeMonitorGracePeriod: 1h",
			[]string{"--node-monitor-period=1h", "--node-monitor-grace-period=1h"}, false,
			"--node-monitor-grace-period: controllers.node-lifecycle-controller.nodeMonitorGracePeriod nodeMonitorGracePeriod (1h) should be more"},
		{"no workers", quota + "# --concurrent-resource-quota-syncs=0: upstream starts no workers, so that resourcequota-controller\n    #   does nothing: here it is disabled\n    enabled: false",
			[]string{"--concurrent-resource-quota-syncs=0"}, true, "--concurrent-resource-quota-syncs: upstream starts no workers"},
		{"no workers of a controller that is off", quota + "enabled: false",
			[]string{"--concurrent-resource-quota-syncs=-1", "--controllers=*,-resourcequota"}, false, "--concurrent-resource-quota-syncs: --concurrent-resource-quota-syncs=-1 is left out"},
		{"more workers than allowed", quota + "# --concurrent-resource-quota-syncs=5000: must be 1 to 1000, not 5000; it becomes 1000 (upstream\n    #   accepts any number; with 0 it starts no workers, and the controller does nothing)\n    concurrentSyncs: 1000",
			[]string{"--concurrent-resource-quota-syncs=5000"}, true, "--concurrent-resource-quota-syncs: must be 1 to 1000, not 5000; it becomes 1000"},
		{"a duration that is too short", "controllers:\n  legacy-serviceaccount-token-cleaner-controller:\n    # --legacy-service-account-token-clean-up-period=1h0m0s: must be 24h or more, not 1h; it becomes 24h\n    #   (upstream deletes tokens that were used on the same day)\n    cleanUpPeriod: 24h",
			[]string{"--legacy-service-account-token-clean-up-period=1h"}, true, "--legacy-service-account-token-clean-up-period: must be 24h or more"},
		{"QUOTA-7: no recalculation of quotas", quota + "# --resource-quota-sync-period=-1s\n    syncPeriod: 0s",
			[]string{"--resource-quota-sync-period=-1s"}, false, ""},
		{"a mask of a controller that is off", "controllers:\n  # --node-cidr-mask-size-ipv6=180\n  node-ipam-controller:\n    enabled: false",
			[]string{"--node-cidr-mask-size-ipv6=180", "--controllers=*,-nodeipam"}, false, "--node-cidr-mask-size-ipv6: --node-cidr-mask-size-ipv6=180 is left out: must be 1 to 128, not 180; node-ipam-controller is disabled"},
		{"networks of a controller that is off", "controllers:\n  node-ipam-controller:\n    enabled: false\n    allocateNodeCIDRs: true\n    # --node-cidr-mask-size-ipv6=80\n    nodeCIDRMaskSizeIPv6: 80",
			[]string{"--allocate-node-cidrs", "--node-cidr-mask-size-ipv6=80", "--controllers=*,-nodeipam"}, false, "--allocate-node-cidrs: controllers.node-ipam-controller.allocateNodeCIDRs needs networking.clusterCIDRs"},
		{"timings of an election that is off", "leaderElection:\n  leaderElect: false",
			[]string{"--leader-elect=false", "--leader-elect-lease-duration=5s"}, false,
			"--leader-elect-lease-duration: --leader-elect-lease-duration=5s is left out: leaseDuration (5s) must be more than renewDeadline (10s); leader election is disabled"},
		{"a migration without an election", "leaderElection:\n  leaderElect: false", []string{"--leader-elect=false", "--enable-leader-migration"}, false,
			"--enable-leader-migration: --enable-leader-migration=true is left out: needs leaderElection.leaderElect"},
		{"the name of a lease that is not taken", "leaderElection:\n  leaderElect: false",
			[]string{"--leader-elect=false", "--leader-elect-resource-name=Foo_bar"}, false, "--leader-elect-resource-name: --leader-elect-resource-name=Foo_bar is left out: must be a name"},
		{"authorities of a controller that is off", "controllers:\n  certificatesigningrequest-signing-controller:\n    enabled: false\n    allSigners:\n      certFile: a\n      privateKeyFile: b",
			[]string{"--controllers=*,-csrsigning", "--cluster-signing-cert-file=a", "--cluster-signing-key-file=b", "--cluster-signing-kubelet-client-cert-file=c", "--cluster-signing-kubelet-client-key-file=d"}, false,
			"--cluster-signing-kubelet-client-key-file: --cluster-signing-kubelet-client-key-file=d is left out: cannot be combined with allSigners"},
		{"one mask for two families of a controller that is off", "networking:\n  # --cluster-cidr=10.0.0.0/16,fd00::/48\n  clusterCIDRs:\n    - 10.0.0.0/16\n    - fd00::/48",
			[]string{"--cluster-cidr=10.0.0.0/16,fd00::/48", "--node-cidr-mask-size=24"}, false,
			"--node-cidr-mask-size: 24 is left out: node-ipam-controller, which would refuse it, allocates no ranges"},
		{"masks for one family and for any that nothing reads", "networking:\n  # --cluster-cidr=10.0.0.0/16\n  clusterCIDRs:\n    - 10.0.0.0/16\n\ncontrollers:\n  node-ipam-controller:\n    enabled: false\n    allocateNodeCIDRs: true\n    # --node-cidr-mask-size-ipv4=25\n    nodeCIDRMaskSizeIPv4: 25",
			[]string{"--cluster-cidr=10.0.0.0/16", "--allocate-node-cidrs", "--controllers=*,-nodeipam", "--node-cidr-mask-size=24", "--node-cidr-mask-size-ipv4=25"}, false, "--node-cidr-mask-size: 24 is left out"},
		{"no name of the cluster", "", []string{"--cluster-name="}, false, "--cluster-name: an empty name is left out"},
		{"a name of the cluster with white space", "", []string{"--cluster-name=my own"}, false,
			"--cluster-name: --cluster-name=my own is left out: must be a name without white space, not \"my own\"; nothing in upstream 1.36 reads it"},
		{"no name of a lease that is not taken", "leaderElection:\n  leaderElect: false", []string{"--leader-elect=false", "--leader-elect-resource-name=", "--leader-elect-resource-namespace="}, false,
			"--leader-elect-resource-namespace: an empty name is left out: leader election is disabled"},
		{"no content type", "clientConnection:\n  contentType: application/json", []string{"--kube-api-content-type="}, false,
			"--kube-api-content-type: an empty type becomes application/json, as in client-go"},
		{"no directory of FlexVolume drivers", "# --flex-volume-plugin-dir: an empty path means upstream that there are no FlexVolume drivers: it is\n#   left out, and those in the default directory are used", []string{"--flex-volume-plugin-dir="}, true,
			"--flex-volume-plugin-dir: an empty path means upstream that there are no FlexVolume drivers"},
		{"a certificate of all signers without its key", "controllers:\n  certificatesigningrequest-signing-controller:\n    certificateDuration: 1h",
			[]string{"--cluster-signing-cert-file=a", "--cluster-signing-key-file=", "--cluster-signing-duration=1h"}, false,
			"--cluster-signing-cert-file: --cluster-signing-cert-file=a is left out: with one of the two files only, upstream signs nothing"},
		{"a key of all signers without its certificate", "", []string{"--cluster-signing-key-file=a"}, false, "--cluster-signing-key-file: --cluster-signing-key-file=a is left out"},
		{"a comma after the last path", "serving:\n  authorization:\n    alwaysAllowPaths:\n      - /healthz\n      - /", []string{"--authorization-always-allow-paths=/healthz,"}, false,
			"--authorization-always-allow-paths: an empty path becomes /"},
		{"ranges that are not divided", "# --cluster-cidr=10.0.0.0/16,10.1.0.0/16\nnetworking:\n  # --service-cluster-ip-range=10.96.0.0/12\n  serviceCIDRs:\n    - 10.96.0.0/12", []string{"--cluster-cidr=10.0.0.0/16,10.1.0.0/16", "--service-cluster-ip-range=10.96.0.0/12"}, false,
			"--cluster-cidr: --cluster-cidr=10.0.0.0/16,10.1.0.0/16 is left out: 10.0.0.0/16 and 10.1.0.0/16 have the same IP family: two ranges must be one IPv4 range and one IPv6 range; node-ipam-controller allocates no ranges"},
		{"ranges on two lines that are not divided", "# --cluster-cidr=10.0.0.0/16, 10.1.0.0/16", []string{"--cluster-cidr=10.0.0.0/16,\n10.1.0.0/16"}, false, ""},
		{"more ranges than can be divided", "# --cluster-cidr=10.0.0.0/16,10.1.0.0/16,10.2.0.0/16", []string{"--cluster-cidr=10.0.0.0/16,10.1.0.0/16,10.2.0.0/16"}, false, "--cluster-cidr: --cluster-cidr=10.0.0.0/16,10.1.0.0/16,10.2.0.0/16 is left out: must be a list of at most 2 elements, not 3; node-ipam-controller allocates no ranges"},
		{"a mask of ranges that are not divided", "# --node-cidr-mask-size=80", []string{"--node-cidr-mask-size=80"}, false,
			"--node-cidr-mask-size: --node-cidr-mask-size=80 is left out: must be 1 to 32, not 80; node-ipam-controller allocates no ranges"},
		{"a server without a scheme and without a kubeconfig", "clientConnection:\n  server: http://127.0.0.1:8080", []string{"--master=127.0.0.1:8080"}, false,
			"--master: --master=127.0.0.1:8080 becomes http://127.0.0.1:8080"},
		{"a server with an address of IPv6", "clientConnection:\n  server: http://[fd00::1]:6443", []string{"--master=[fd00::1]:6443"}, false,
			"--master: --master=[fd00::1]:6443 becomes http://[fd00::1]:6443"},
		{"a period that another flag overrides", "controllers:\n  persistentvolume-attach-detach-controller:\n    # --disable-attach-detach-reconcile-sync=true\n    reconcilerSyncPeriod: 0s",
			[]string{"--attach-detach-reconcile-sync-period=7s", "--disable-attach-detach-reconcile-sync"}, false,
			"--attach-detach-reconcile-sync-period: --attach-detach-reconcile-sync-period=7s is left out: it has no effect with --disable-attach-detach-reconcile-sync"},
		{"a period that is not overridden", "", []string{"--attach-detach-reconcile-sync-period=1m", "--disable-attach-detach-reconcile-sync=false"}, false,
			"--disable-attach-detach-reconcile-sync: --disable-attach-detach-reconcile-sync=false is the default here too"},
		{"an endpoint that is off", "serving:\n  port: 0\n  authentication:\n    clientCAFile: a", []string{"--secure-port=0", "--client-ca-file=a"}, false,
			"--client-ca-file: serving.authentication has no effect while serving.port is 0"},
		{"a period that Deployments do not have any more", "", []string{"--deployment-controller-sync-period=30s"}, true,
			"--deployment-controller-sync-period: --deployment-controller-sync-period=30s is left out: Kubernetes 1.24 removed the flag"},
		{"ranges that overlap", "networking:\n  # --cluster-cidr=10.0.0.0/8\n  clusterCIDRs:\n    - 10.0.0.0/8\n  # --service-cluster-ip-range=10.96.0.0/12\n  serviceCIDRs:\n    - 10.96.0.0/12",
			[]string{"--cluster-cidr=10.0.0.0/8", "--service-cluster-ip-range=10.96.0.0/12"}, false, "--service-cluster-ip-range: networking.serviceCIDRs[0] 10.96.0.0/12 overlaps"},
		{"a removed flag", "logging:\n  verbosity: 2",
			[]string{"--pod-eviction-timeout", "5m", "--logtostderr=true", "--v=2"}, true,
			"--pod-eviction-timeout: --pod-eviction-timeout 5m is left out: Kubernetes 1.27 removed the flag, and upstream 1.36 does not start with it"},
		{"a removed flag with a successor", "", []string{"--port=0"}, true, "--port: --port=0 is left out: Kubernetes 1.24 removed the flag, and upstream 1.36 does not start with it; its successor is --secure-port"},
		{"a flag that was renamed", "controllers:\n  certificatesigningrequest-signing-controller:\n    certificateDuration: 2h",
			[]string{"--experimental_cluster-signing-duration=2h"}, true, "--experimental-cluster-signing-duration: --experimental_cluster-signing-duration=2h is read as --cluster-signing-duration"},
		{"gates without a component", "# --feature-gates=GenericWorkload=true,WorkloadWithJob=true\nfeatureGates:\n  GenericWorkload: true\n  WorkloadWithJob: true",
			[]string{"--feature-gates=GenericWorkload=true,WorkloadWithJob=true"}, false, ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got, result := body(t, test.args...)
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("%q (-want +got):\n%s", test.args, diff)
			}
			if test.note != "" {
				wantNote(t, result, test.important, test.note)
			}
		})
	}
}

// Every value out of range that upstream does not refuse has a file: no row of the table is
// forgotten.
func TestEveryFlagOutOfRangeIsConvertedOrRefusedAsUpstreamDoes(t *testing.T) {
	flags, _ := newFlags()
	for _, flag := range []string{"concurrent-gc-syncs", "concurrent-endpoint-syncs", "node-eviction-rate", "large-cluster-size-threshold", "terminated-pod-gc-threshold",
		"horizontal-pod-autoscaler-sync-period", "kube-api-qps", "leader-elect-lease-duration", "pvclaimbinder-sync-period", "http2-max-streams-per-connection"} {
		for _, value := range []string{"-5", "0", "1000000000"} {
			if flags.Lookup(flag).Value.Type() == "duration" {
				value += "s"
			}
			if flag == "leader-elect-lease-duration" && !strings.HasPrefix(value, "1") {
				continue // upstream panics
			}
			args := []string{"--" + flag + "=" + value}
			if flag == "kube-api-qps" && value == "0" {
				args = append(args, "--kube-api-burst=1")
			}
			if _, err := Convert(args); err != nil {
				t.Errorf("%q: %v", args, err)
			}
		}
	}
}
