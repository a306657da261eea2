package runtime

import (
	"iter"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"kcmd.dev/pkg/config/plan"
	"kcmd.dev/pkg/config/v1beta1"
	"kcmd.dev/pkg/controller"
)

// plannedSpec returns everything in a configuration that a controller depends on.
func plannedSpec(cfg *v1beta1.KubeControllerManagerConfiguration, d controller.Descriptor) plan.Spec {
	return plan.SpecOf(cfg, subject(d))
}

// subject is a controller as a Plan sees it.
func subject(d controller.Descriptor) plan.Subject {
	return plan.Subject{Name: d.Name, Enabled: d.Enabled, Value: d.Value, WithoutLease: d.RunsWithoutLease}
}

// Subjects returns the controllers as a Plan sees them.
func Subjects(descriptors []controller.Descriptor) []plan.Subject {
	subjects := make([]plan.Subject, 0, len(descriptors))
	for _, d := range descriptors {
		subjects = append(subjects, subject(d))
	}
	return subjects
}

// enabled are the controllers that a configuration turns on, each with what it depends on.
func enabled(cfg *v1beta1.KubeControllerManagerConfiguration, descriptors []controller.Descriptor) iter.Seq2[controller.Descriptor, plan.Spec] {
	return func(yield func(controller.Descriptor, plan.Spec) bool) {
		for _, d := range descriptors {
			if spec := plannedSpec(cfg, d); spec.Runs() && !yield(d, spec) {
				return
			}
		}
	}
}

// enabledUnder returns the names of the enabled controllers of a lock.
func enabledUnder(lock string, cfg *v1beta1.KubeControllerManagerConfiguration, descriptors []controller.Descriptor) []string {
	var names []string
	for d, spec := range enabled(cfg, descriptors) {
		if spec.Lock.Name == lock {
			names = append(names, d.Name)
		}
	}
	return names
}

// cachedWhole returns the resources that enabled controllers cache whole, including while they wait
// or stand by.
func cachedWhole(cfg *v1beta1.KubeControllerManagerConfiguration, descriptors []controller.Descriptor) map[schema.GroupVersionResource]bool {
	all := map[schema.GroupVersionResource]bool{}
	for d, spec := range enabled(cfg, descriptors) {
		for _, r := range d.Whole(spec.Value) {
			all[r] = true
		}
	}
	return all
}

// inputFiles lists the files whose content enabled controllers depend on: they restart when it changes.
func inputFiles(cfg *v1beta1.KubeControllerManagerConfiguration, descriptors []controller.Descriptor) []string {
	var all []string
	for d, spec := range enabled(cfg, descriptors) {
		all = append(all, d.Files(spec.Value)...)
	}
	return all
}

// followedFiles lists the files that enabled controllers read again while they run.
func followedFiles(cfg *v1beta1.KubeControllerManagerConfiguration, descriptors []controller.Descriptor) []string {
	var all []string
	for d, spec := range enabled(cfg, descriptors) {
		all = append(all, d.FollowedFiles(spec.Value)...)
	}
	return all
}
