// Command kube-controller-manager runs the control loops of Kubernetes as one
// configuration file says, and follows the file while it runs.
package main

import (
	"os"
	_ "time/tzdata" // time zones of CronJobs, wherever the process runs

	_ "k8s.io/component-base/metrics/prometheus/restclient" // rest_client_* metrics
	_ "k8s.io/component-base/metrics/prometheus/version"    // kubernetes_build_info
)

func main() {
	os.Exit(execute(os.Args[1:], os.Stdout, os.Stderr))
}
