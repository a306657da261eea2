// Package app is the program kube-controller-manager: its commands, flags and exit codes.
//
// It is a separate package so that a program can be built with more in it. A cloud provider registers
// itself when its package is initialized, so a program with a provider is a main that imports it:
//
//	package main
//
//	import (
//		_ "example.com/cloud/provider"
//
//		"kcmd.dev/cmd/kube-controller-manager/app"
//	)
//
//	func main() { app.Main() }
//
// docs/cloud.md describes what else is needed.
package app

import (
	"os"
	_ "time/tzdata" // time zones of CronJobs, wherever the process runs

	_ "k8s.io/component-base/metrics/prometheus/clientgo/fifo" // informer_* metrics
	_ "k8s.io/component-base/metrics/prometheus/restclient"    // rest_client_* metrics
	_ "k8s.io/component-base/metrics/prometheus/version"       // kubernetes_build_info
)

// Main runs the command line of the process and ends the process with its exit code.
func Main() { os.Exit(execute(os.Args[1:], os.Stdout, os.Stderr)) }
