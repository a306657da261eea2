package cloud

import (
	"slices"
	"strings"
	"testing"
	"time"

	"kcmd.dev/pkg/config/fromflags"
	"kcmd.dev/pkg/config/v1beta1"
	"kcmd.dev/test/must"
)

// What upstream's flags that its cloud loops share are without being given, and when they are.
func TestSharedFlags(t *testing.T) {
	const ranges = "--cluster-cidr=10.244.0.0/16,fd00::/56"
	type configuration = v1beta1.KubeControllerManagerConfiguration
	tests := map[string]struct {
		given []string
		value func(*configuration) any
		// before and after are the value without the flags and with them.
		before, after any
	}{
		"CLOUD-24: --cluster-cidr": {
			[]string{ranges},
			func(c *configuration) any {
				var both [2]string
				copy(both[:], c.Networking.ClusterCIDRs)
				return both
			},
			[2]string{}, [2]string{"10.244.0.0/16", "fd00::/56"},
		},
		"CLOUD-25: --allocate-node-cidrs": {
			[]string{"--allocate-node-cidrs", ranges},
			func(c *configuration) any { return *c.Controllers.NodeIPAM.AllocateNodeCIDRs },
			false, true,
		},
		"CLOUD-27: --route-reconciliation-period": {
			[]string{"--route-reconciliation-period=20s"},
			func(c *configuration) any { return c.Controllers.NodeRoute.ReconciliationPeriod.Duration },
			10 * time.Second, 20 * time.Second,
		},
		"CLOUD-28, CLOUD-44: --node-monitor-period, not of cloud-node-lifecycle-controller": {
			[]string{"--node-monitor-period=7s"},
			func(c *configuration) any {
				return [2]time.Duration{c.Controllers.NodeLifecycle.NodeMonitorPeriod.Duration, c.Controllers.CloudNodeLifecycle.NodeMonitorPeriod.Duration}
			},
			[2]time.Duration{5 * time.Second, 5 * time.Second}, [2]time.Duration{7 * time.Second, 5 * time.Second},
		},
		"CLOUD-30: --use-service-account-credentials": {
			[]string{"--use-service-account-credentials"},
			func(c *configuration) any { return *c.ClientConnection.UseServiceAccountCredentials },
			false, true,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			for _, given := range []struct {
				flags []string
				want  any
			}{{nil, test.before}, {test.given, test.after}} {
				if got := test.value(must.Get(fromflags.Convert(given.flags))(t).Config); got != given.want {
					t.Errorf("with %q it is %v, want %v", given.flags, got, given.want)
				}
			}
		})
	}
}

// Flags that have no effect upstream are accepted, left out, and noted. Pins CLOUD-44.
func TestSharedFlagsWithoutEffect(t *testing.T) {
	plain := must.Get(fromflags.Convert(nil))(t)
	for flag, value := range map[string]string{
		"--configure-cloud-routes": "false", "--external-cloud-volume-plugin": "blue", "--node-sync-period": "5s",
	} {
		got := must.Get(fromflags.Convert([]string{flag + "=" + value}))(t)
		if string(got.File) != string(plain.File) {
			t.Errorf("with %s the file is\n%s", flag, got.File)
		}
		if !slices.ContainsFunc(got.Notes, func(n fromflags.Note) bool { return n.Field == flag && strings.Contains(n.Message, "left out") }) {
			t.Errorf("%s is not among the notes %v", flag, got.Notes)
		}
	}
}
