package podtemplate

import (
	"encoding/binary"
	"hash/fnv"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/utils/dump"
)

// Hash returns the hash of a pod template after a number of name collisions, nil if there was
// none. It consists of 1 to 10 letters and digits that are safe in names and label values.
func Hash(template *corev1.PodTemplateSpec, collisionCount *int32) string {
	hash := fnv.New32a()
	// Writing to a hash never fails. The value is dumped, not the pointer, which would be
	// printed with a leading ampersand.
	_, _ = hash.Write([]byte(dump.ForHash(*template)))
	if collisionCount != nil {
		// Eight bytes, of which the count occupies four.
		var count [8]byte
		binary.LittleEndian.PutUint32(count[:4], uint32(*collisionCount))
		_, _ = hash.Write(count[:])
	}
	return rand.SafeEncodeString(strconv.FormatUint(uint64(hash.Sum32()), 10))
}

// Name returns the name of an object made from a template with a hash. The name of the owner is truncated if it is too long
// to append the hash, and then loses the dots at its end: no part of a name between two dots begins with a hyphen.
func Name(owner, hash string) string {
	if room := validation.DNS1123SubdomainMaxLength - len(hash) - 1; len(owner) > room {
		owner = strings.TrimRight(owner[:room], ".")
	}
	return owner + "-" + hash
}
