package validation_test

import (
	"io"
	"testing"

	cloudprovider "k8s.io/cloud-provider"
)

func init() {
	cloudprovider.RegisterCloudProvider("linked", func(io.Reader) (cloudprovider.Interface, error) { return nil, nil })
}

// Pins CLOUD-4, CLOUD-44, ROUTE-5, ROUTE-30, CNODE-6, CNODE-30 and SLB-29.
func TestValidateCloud(t *testing.T) {
	checkProblems(t, []problemTest{
		{"cloud: {provider: aws}", []string{
			"3:19: cloud.provider: no cloud provider \"aws\" is linked into this build: set it to external, or use a build that has the provider",
		}},
		{"cloud: {provider: external, configFile: /nonexistent}\ncontrollers: {service-lb-controller: {enabled: true}}", []string{
			"4:48: warning: controllers.service-lb-controller.enabled: the controller stays idle until cloud.provider names a provider that is linked into the program",
		}},
		{"cloud: {provider: linked}\ncontrollers: {service-lb-controller: {enabled: true}}", nil},
		{"cloud: {provider: linked}\ncontrollers: {node-route-controller: {enabled: true}}", []string{
			"4:48: controllers.node-route-controller.enabled: needs networking.clusterCIDRs",
		}},
		{"cloud: {provider: linked}\nnetworking: {clusterCIDRs: [10.0.0.0/16]}\ncontrollers: {node-route-controller: {enabled: true}}", nil},
		{"controllers: {service-lb-controller: {concurrentSyncs: 0}}", []string{
			"3:56: controllers.service-lb-controller.concurrentSyncs: must be 1 to 1000, not 0",
		}},
		{"controllers: {cloud-node-controller: {concurrentSyncs: 0, concurrentStatusUpdates: -1}}", []string{
			"3:56: controllers.cloud-node-controller.concurrentSyncs: must be 1 to 1000, not 0",
			"3:84: controllers.cloud-node-controller.concurrentStatusUpdates: must be 0 to 1000, not -1",
		}},
	})
}
