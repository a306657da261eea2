package runtime

import (
	"testing"

	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/config"
	"kcmd.dev/pkg/config/v1beta1"
)

// What is shown is what is in force, also after an edit. Pins MGR-178.
func TestTheConfigurationInForceIsShown(t *testing.T) {
	r := &Runtime{}
	pages := r.pages()
	for _, syncs := range []int32{3, 4} {
		c := v1beta1.NewDefault()
		c.Controllers.Job.ConcurrentSyncs = ptr.To(syncs)
		r.document = &config.Document{Config: c}
		ours, ok := pages.Config()["config.kcmd.dev"].(*v1beta1.KubeControllerManagerConfiguration)
		if !ok || *ours.Controllers.Job.ConcurrentSyncs != syncs {
			t.Errorf("the page shows %v, want %d", ours, syncs)
		}
	}
}
