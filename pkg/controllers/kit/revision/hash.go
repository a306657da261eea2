// Package revision tells the revisions of a pod template apart by name.
//
//  1. The hash of a template names the objects made from it: it is the value of the
//     label pod-template-hash and the suffix of a ReplicaSet of a Deployment.
//  2. The hash covers every Go field of the template, so it may change with the version
//     of k8s.io/api. It must never decide whether two templates are equal.
//  3. If an object of that name exists but has other content, the owner counts one more
//     collision, which gives the same template another hash.
//  4. Hashes agree with those of kube-controller-manager built from the same minor
//     version of k8s.io/api, so that either can take over from the other.
//
// See specs/workload-common.md, section 12.
package revision

import (
	"encoding/binary"
	"hash/fnv"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/utils/dump"
)

// TemplateHash is the hash of a pod template after a number of name collisions, nil if
// there never was one. It consists of 1 to 10 letters and digits that are safe in names
// and label values.
func TemplateHash(template *corev1.PodTemplateSpec, collisionCount *int32) string {
	hash := fnv.New32a()
	// A hash never fails to be written to. The value is dumped, not the pointer, which
	// would be printed with a leading ampersand.
	_, _ = hash.Write([]byte(dump.ForHash(*template)))
	if collisionCount != nil {
		// Eight bytes, of which the count takes four.
		var count [8]byte
		binary.LittleEndian.PutUint32(count[:4], uint32(*collisionCount))
		_, _ = hash.Write(count[:])
	}
	return rand.SafeEncodeString(strconv.FormatUint(uint64(hash.Sum32()), 10))
}
