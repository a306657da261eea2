package monitoring

import (
	"slices"
	"strings"
	"testing"
)

// scenario provokes an alert.
type scenario struct {
	// targets are the URLs that Prometheus scrapes. The alert does not fire.
	targets []string
	// fire makes it fire, resolve removes the cause.
	fire, resolve func(*testing.T, *prometheus)
}

// scenarios begin the scenario of each alert.
var scenarios = map[string]func(*testing.T) scenario{
	"KubeControllerManagerDown":                  down,
	"KubeControllerManagerNoLeader":              noLeader,
	"KubeControllerManagerNothingRuns":           nothingRuns,
	"KubeControllerManagerConfigurationRejected": rejected,
	"KubeControllerManagerLastGoodConfiguration": lastGood,
	"KubeControllerManagerConfigurationNotKept":  notKept,
	"KubeControllerManagerConfigurationsDiffer":  differ,
	"KubeControllerManagerControllerFails":       fails,
	"KubeControllerManagerControllerCrashes":     crashes,
	"KubeControllerManagerWorkIsStuck":           stuck,
	"KubeControllerManagerQueueGrows":            grows,
	"KubeControllerManagerPaused":                paused,
	"KubeControllerManagerDeletionsStopped":      deletionsStopped,
	"KubeControllerManagerDeletionsExceeded":     deletionsExceeded,
	"KubeControllerManagerCredentialsRejected":   credentials,
	"KubeControllerManagerRequestsFail":          requestsFail,
	"KubeControllerManagerEndpointFlooded":       flooded,
}

// Each alert fires when it is provoked, says what is wrong in words, and resolves.
func TestEveryAlertFiresAndResolves(t *testing.T) {
	for _, alert := range alerts(t) {
		begin := scenarios[alert.Alert]
		if begin == nil {
			t.Errorf("nothing provokes %s", alert.Alert)
			continue
		}
		t.Run(strings.TrimPrefix(alert.Alert, "KubeControllerManager"), func(t *testing.T) {
			t.Parallel()
			s := begin(t)
			p := startPrometheus(t, hasty(alert), s.targets...)
			p.holds(t, "up == 1")
			p.alertIs(t, alert.Alert, "inactive")
			s.fire(t, p)
			firing := p.alertIs(t, alert.Alert, "firing")
			for _, a := range firing.Alerts {
				for _, name := range []string{"summary", "description", "runbook_url"} {
					if text := a.Annotations[name]; text == "" || strings.Contains(text, "<no value>") || strings.Contains(text, "error expanding") {
						t.Errorf("%s is %q", name, text)
					}
				}
			}
			s.resolve(t, p)
			p.alertIs(t, alert.Alert, "inactive")
		})
	}
}

// No scenario is left of an alert that is gone.
func TestEveryScenarioIsOfAnAlert(t *testing.T) {
	for name := range scenarios {
		if !slices.ContainsFunc(alerts(t), func(r rule) bool { return r.Alert == name }) {
			t.Errorf("there is no alert %s", name)
		}
	}
}
