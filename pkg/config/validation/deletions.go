package validation

import (
	"time"

	"kcmd.dev/pkg/config/problem"
	"kcmd.dev/pkg/config/v1beta1"
)

// validateDeletionBreaker checks the time, and warns of a breaker that does not know how many
// objects there are of most kinds: the caches of garbage-collector-controller hold them.
func (v *validator) validateDeletionBreaker() {
	const block, collector = "deletionBreaker.", "garbage-collector-controller"
	b := v.cfg.DeletionBreaker
	if text := b.AllowUntil; text != "" && v.decoded(block+"allowUntil") {
		if _, err := time.Parse(time.RFC3339, text); err != nil {
			v.errorf(block+"allowUntil", "must be a time that exists, not %s", problem.Quote(text))
		}
	}
	if v.decoded(block+"mode", "controllers."+collector+".enabled", "controllerDefaults.enabled") &&
		b.Mode != v1beta1.DeletionsDisabled && !v.cfg.ControllerEnabled(collector) {
		v.warnf(block+"mode",
			"counts only the kinds that other controllers cache: %s, which caches nearly all, is disabled", collector)
	}
}
