package conversion

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/config/v1beta1"
)

func TestFileSaysOnlyWhatIsNotTheDefault(t *testing.T) {
	cfg := v1beta1.NewDefault()
	cfg.Controllers.Deployment.ConcurrentSyncs = ptr.To[int32](20)
	cfg.Controllers.ServiceAccount.Enabled = ptr.To(false)
	cfg.Resync.MinPeriod = &metav1.Duration{Duration: 90 * time.Minute}
	cfg.ClientConnection.Kubeconfig = "yes"
	cfg.Serving.Authorization.AlwaysAllowPaths = []string{}
	cfg.LeaderElection.Groups = []v1beta1.LeaseGroup{{Name: "a", Controllers: []string{"job-controller"}}}
	cfg.Controllers.HorizontalPodAutoscaler.Tolerance = ptr.To(0.25)
	long := "A comment of many words that does not fit into one line of a file which people are supposed to read without turning their heads."
	file := File{Config: cfg, Head: []string{"At the top.", ""}, Comments: map[string][]string{
		"controllers.deployment-controller.concurrentSyncs": {"Twenty.", "Really."},
		"controllers.job-controller.concurrentSyncs":        {"The default."},
		"logging.verbosity":                                 {"Quiet."},
		"resync":                                            {long},
	}}
	got, err := file.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	const want = `# At the top.
#
# Quiet.
apiVersion: config.kcmd.dev/v1beta1
kind: KubeControllerManagerConfiguration

clientConnection:
  kubeconfig: "yes"

leaderElection:
  groups:
    - name: a
      controllers:
        - job-controller

# A comment of many words that does not fit into one line of a file which people are supposed to read
#   without turning their heads.
resync:
  minPeriod: 1h30m

serving:
  authorization:
    alwaysAllowPaths: []

# The default.
controllers:
  serviceaccount-controller:
    enabled: false
  deployment-controller:
    # Twenty.
    # Really.
    concurrentSyncs: 20
  horizontal-pod-autoscaler-controller:
    tolerance: 0.25
`
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	written, err := file.Written()
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]bool{
		"resync.minPeriod": true, "resync": true, "logging": false, "controllers.job-controller": false, "controllers.deployment-controller.concurrentSyncs": true,
		"resync.minPeriod.more": false,
	} {
		if written(path) != want {
			t.Errorf("written(%s) is %t", path, !want)
		}
	}
}

func TestBurstThatFollowsFromQPSIsWrittenOut(t *testing.T) {
	cfg := v1beta1.NewDefault()
	cfg.ClientConnection.QPS = ptr.To[float32](50.5)
	out := FromHub(cfg)
	if c := out.Generic.ClientConnection; c.QPS != 50.5 || c.Burst != 101 {
		t.Errorf("qps %v, burst %v", c.QPS, c.Burst)
	}
	if c := FromHub(v1beta1.NewDefault()).Generic.ClientConnection; c.QPS != Unlimited {
		t.Errorf("no limit is %v", c.QPS)
	}
}

func TestDurationsAreReadable(t *testing.T) {
	for d, want := range map[time.Duration]string{12 * time.Hour: "12h", 90 * time.Second: "1m30s", 0: "0s", 5 * time.Minute: "5m", 100 * time.Millisecond: "100ms", time.Hour + time.Second: "1h0m1s"} {
		if got := v1beta1.FormatDuration(d); got != want {
			t.Errorf("%d is %s, want %s", d, got, want)
		}
	}
}
