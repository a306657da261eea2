// Command kube-controller-manager runs the control loops of Kubernetes as one
// configuration file says, and follows the file while it runs.
package main

import "kcmd.dev/cmd/kube-controller-manager/app"

func main() { app.Main() }
