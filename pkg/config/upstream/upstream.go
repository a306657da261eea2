// Package upstream reads and writes the configuration of an unmodified
// kube-controller-manager, kubecontrollermanager.config.k8s.io/v1alpha1.
//
// The model:
//
//  1. Upstream has no configuration file. Its configuration is seen at /configz, and as
//     the type that k8s.io/kube-controller-manager publishes. Both are read, in YAML or
//     JSON, and also with the field names that the conventions of the API would give.
//  2. Everything strict about v1beta1 is strict here: unknown and duplicate fields are
//     errors with positions, and all problems are reported at once (config.Load reads
//     both versions).
//  3. What a setting becomes is in the table of package conversion, and rendered from it in
//     docs/flags.md.
//  4. v1alpha1 does not include serving (except profiling), logging, metrics, feature gates
//     and what upstream lacks. FromHub leaves these out.
package upstream

import (
	"fmt"

	"k8s.io/kube-controller-manager/config/v1alpha1"

	"kcmd.dev/pkg/config"
	"kcmd.dev/pkg/config/upstream/conversion"
	"kcmd.dev/pkg/config/v1beta1"
)

// Note is what a user should know about a conversion.
type Note = conversion.Note

// FromHub converts a defaulted configuration to upstream's version.
func FromHub(in *v1beta1.KubeControllerManagerConfiguration) *v1alpha1.KubeControllerManagerConfiguration {
	return conversion.FromHub(in)
}

// ConvertFile converts a file of v1alpha1, or an answer of /configz, to a file of v1beta1
// that contains what differs from the defaults. Comments stay with the fields they belong to.
// The error is of type problem.Errors, with positions in the file.
func ConvertFile(name string, data []byte) (out []byte, notes []Note, err error) {
	doc, err := config.LoadV1alpha1(name, data)
	if err != nil {
		return nil, nil, err
	}
	file := conversion.File{Config: doc.Config}
	written, err := file.Written()
	if err != nil {
		return nil, nil, err
	}
	found := readComments(data)
	file.Comments = found.byField(doc.Origins, written)
	file.Head = found.head
	for _, note := range doc.Notes {
		if note.Important {
			file.Head = append(file.Head, "NOTE "+note.String())
		}
	}
	if out, err = file.Bytes(); err != nil {
		return nil, nil, err
	}
	if _, err := config.Load(name, out); err != nil {
		return nil, nil, fmt.Errorf("reading back the converted file: %w", err)
	}
	return out, doc.Notes, nil
}
