package controller

import "k8s.io/apimachinery/pkg/util/resourceversion"

// IsOlder reports whether a resource version is lower than another one of the same resource. It is false if they cannot
// be compared.
func IsOlder(version, than string) bool {
	order, err := resourceversion.CompareResourceVersion(version, than)
	return err == nil && order < 0
}
