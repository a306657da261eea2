// Package podtemplate compares pod templates and names the objects made from them.
//
//  1. WithDefaults sets the defaults of the API server, for comparison only. A test compares it
//     with a real API server, field by field.
//  2. The hash of a template names the objects made from it: it is the value of the
//     label pod-template-hash and the suffix of a ReplicaSet of a Deployment.
//  3. The hash covers every Go field of the template, so it may change with the version
//     of k8s.io/api. It must never decide whether two templates are equal.
//  4. If an object of that name exists but has other content, the owner's collision count is
//     incremented, which gives the same template another hash.
//  5. Hashes equal those of kube-controller-manager built with the same minor version of
//     k8s.io/api, so that either can take over from the other.
//
// See docs/specs/workload-common.md, section 12.
package podtemplate
