package registry

import (
	"fmt"
	"strings"
	"sync"

	"kcmd.dev/pkg/config/problem"
	"kcmd.dev/pkg/config/v1beta1"
)

// blocks are the canonical names, in the order of the blocks of a configuration.
var blocks = sync.OnceValue(func() []string {
	var names []string
	for _, c := range new(v1beta1.Controllers).All() {
		names = append(names, c.Name)
	}
	return names
})

// Unknown explains a name that is no canonical name: it is a former name, or similar to
// another one. Otherwise the message starts with the subject, such as "unknown controller".
func Unknown(subject, name string) string {
	if canonical, ok := Canonical(name); ok {
		return fmt.Sprintf("%q is a former name: write %q", name, canonical)
	}
	switch similar := Similar(name); len(similar) {
	case 0:
		return subject + ": none has this or a similar name"
	case 1:
		return fmt.Sprintf("%s, did you mean %q?", subject, similar[0])
	default:
		return fmt.Sprintf("%s, did you mean one of %s?", subject, strings.Join(similar, ", "))
	}
}

// shortNames are what people call a controller besides its names: by what kubectl calls its
// resource, or by its initials.
var shortNames = map[string]string{
	"autoscaler": "horizontal-pod-autoscaler",
	"cj":         "cronjob",
	"csr":        "certificatesigningrequest",
	"ctb":        "clustertrustbundle",
	"deploy":     "deployment",
	"ds":         "daemonset",
	"ep":         "endpoints",
	"gc":         "garbage-collector",
	"hpa":        "horizontal-pod-autoscaler",
	"ipam":       "node-ipam",
	"nlc":        "node-lifecycle",
	"ns":         "namespace",
	"pdb":        "disruption",
	"pv":         "persistentvolume-",
	"pvc":        "persistentvolumeclaim",
	"quota":      "resourcequota",
	"rc":         "replicationcontroller",
	"rs":         "replicaset",
	"sa":         "serviceaccount",
	"sts":        "statefulset",
	"svc":        "service-lb",
	"svm":        "storage-version-migrator",
	"vac":        "volumeattributesclass",
	"vap":        "validatingadmissionpolicy",
}

const (
	controllerSuffix = "-controller"
	// maxSimilar is how many controllers a message names.
	maxSimilar = 6
)

// stemOf cuts off the suffix, even if it is misspelt, or has no hyphen as in the blocks of upstream's configuration
// (deploymentController).
func stemOf(name string) string {
	last := strings.LastIndexByte(name, '-')
	if last > 0 && problem.Nearest(name[last:], []string{controllerSuffix}) != "" {
		return name[:last]
	}
	if stem := strings.TrimSuffix(name, controllerSuffix[1:]); stem != "" {
		return stem
	}
	return name
}

// Similar returns the canonical names that a name, which is none, was probably meant to be: the
// one that is spelt almost like it, or those that have it in their names.
func Similar(name string) []string {
	stem := stemOf(strings.ToLower(strings.ReplaceAll(name, "_", "-")))
	if short, ok := shortNames[stem]; ok {
		stem = short
	}
	if canonical, ok := Canonical(stem); ok {
		return []string{canonical}
	}
	var stems, within []string
	for _, known := range blocks() {
		known = strings.TrimSuffix(known, controllerSuffix)
		stems = append(stems, known)
		if len(stem) >= 3 && stem != controllerSuffix[1:] && strings.Contains(known, stem) {
			within = append(within, known+controllerSuffix)
		}
	}
	if best := problem.Nearest(stem, stems); best != "" && stem != controllerSuffix[1:] {
		return []string{best + controllerSuffix}
	}
	if len(within) > maxSimilar {
		return nil
	}
	return within
}
