// Command withcloud is the manager with the provider of a cloud: the one in memory.
package main

import (
	"kcmd.dev/cmd/kube-controller-manager/app"
	_ "kcmd.dev/test/fakecloud" // registers the provider fake
)

func main() { app.Main() }
