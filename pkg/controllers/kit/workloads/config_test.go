package workloads_test

import (
	"maps"
	"strings"
	"testing"

	"kcmd.dev/pkg/config"
	"kcmd.dev/pkg/config/gates"
	"kcmd.dev/pkg/config/registry"
)

// configured reads a configuration with the text in it.
func configured(text string) (*config.Document, error) {
	return config.Load("f.yaml", []byte("apiVersion: config.kcmd.dev/v1beta1\nkind: KubeControllerManagerConfiguration\n"+text))
}

// Pins WL-43.
func TestGatesOfStaleCaches(t *testing.T) {
	const prefix = "StaleControllerConsistency"
	have := map[string]string{
		"daemonset-controller":   prefix + "DaemonSet",
		"job-controller":         prefix + "Job",
		"replicaset-controller":  prefix + "ReplicaSet",
		"statefulset-controller": prefix + "StatefulSet",
	}
	got := map[string]string{}
	for _, controller := range registry.Controllers() {
		for _, gate := range controller.Gates {
			if strings.HasPrefix(gate, prefix) {
				got[controller.Name] = gate
			}
		}
	}
	if !maps.Equal(got, have) {
		t.Errorf("the gates are %v, want %v", got, have)
	}
	for controller, gate := range have {
		for text, want := range map[string]bool{
			"":                                    true,
			"featureGates: {" + gate + ": false}": false,
			"featureGates: {AllBeta: false}":      false,
		} {
			doc, err := configured(text)
			if err != nil {
				t.Fatal(err)
			}
			if got := gates.Enabled(doc.Config, gate); got != want {
				t.Errorf("the gate of %s with %q is %v", controller, text, got)
			}
		}
		want := "featureGates." + gate + ": depends on the gate AtomicFIFO, which is disabled"
		if _, err := configured("featureGates: {AtomicFIFO: false, " + gate + ": true}"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("without AtomicFIFO: %v", err)
		}
	}
}

// Pins WL-111.
func TestNumbersOfWorkers(t *testing.T) {
	for _, name := range []string{
		"cronjob-controller", "daemonset-controller", "deployment-controller", "horizontal-pod-autoscaler-controller",
		"job-controller", "replicaset-controller", "replicationcontroller-controller", "statefulset-controller", "ttl-after-finished-controller",
	} {
		for workers, allowed := range map[string]bool{"-1": false, "0": false, "1": true, "1000": true, "1001": false} {
			_, err := configured("controllers: {" + name + ": {concurrentSyncs: " + workers + "}}")
			if allowed && err != nil {
				t.Errorf("%s workers of %s: %v", workers, name, err)
			}
			want := "controllers." + name + ".concurrentSyncs: must be 1 to 1000, not " + workers
			if !allowed && (err == nil || !strings.Contains(err.Error(), want)) {
				t.Errorf("%s workers of %s: %v, want %s", workers, name, err, want)
			}
		}
	}
}
