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
		{"a mask of a controller that is off", "controllers:\n  # --node-cidr-mask-size-ipv6=180\n  node-ipam-controller:\n    enabled: false",
			[]string{"--node-cidr-mask-size-ipv6=180", "--controllers=*,-nodeipam"}, false, "--node-cidr-mask-size-ipv6: --node-cidr-mask-size-ipv6=180 is left out: must be 1 to 128, not 180; node-ipam-controller is disabled"},
		{"networks of a controller that is off", "controllers:\n  node-ipam-controller:\n    enabled: false\n    allocateNodeCIDRs: true\n    # --node-cidr-mask-size-ipv6=80\n    nodeCIDRMaskSizeIPv6: 80",
			[]string{"--allocate-node-cidrs", "--node-cidr-mask-size-ipv6=80", "--controllers=*,-nodeipam"}, false, "--allocate-node-cidrs: controllers.node-ipam-controller.allocateNodeCIDRs needs networking.clusterCIDRs"},
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
