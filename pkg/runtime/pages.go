package runtime

import (
	"net/http"

	"kcmd.dev/pkg/config/upstream"
	"kcmd.dev/pkg/config/upstream/conversion"
	"kcmd.dev/pkg/config/v1beta1"
	"kcmd.dev/pkg/runtime/serving"
)

// pages is what the endpoint serves.
func (r *Runtime) pages() serving.Content {
	return serving.Content{
		Health:       r.healthChecks(),
		Live:         r.liveChecks(),
		Ready:        r.readyChecks(),
		Metrics:      r.hub,
		Config:       r.configz,
		Flags:        r.flags,
		Debug:        r.debug,
		SetVerbosity: r.logging.SetVerbosity,
		Status: serving.Status{
			JSON: func() any { return r.Status() },
			Text: func() string { return r.Status().Text(r.options.Clock.Now()) },
			Page: r.statusPage,
		},
	}
}

func (r *Runtime) debug(name string) http.Handler {
	r.mu.Lock()
	s := r.supervisor
	r.mu.Unlock()
	if s == nil {
		return nil
	}
	return s.DebuggingHandler(name)
}

// configz is the configuration in force, in our form and in that of an unmodified
// kube-controller-manager. It names files and never shows what they hold.
func (r *Runtime) configz() map[string]any {
	c := r.inForce()
	theirs := upstream.FromHub(c)
	theirs.APIVersion, theirs.Kind = conversion.APIVersion, conversion.Kind
	return map[string]any{v1beta1.GroupName: c, conversion.Group: theirs}
}

func (r *Runtime) inForce() *v1beta1.KubeControllerManagerConfiguration {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.document.Config
}
