package pvbinder

import (
	"cmp"
	"slices"

	storagev1 "k8s.io/api/storage/v1"
)

const (
	annDefaultClass     = "storageclass.kubernetes.io/is-default-class"
	annBetaDefaultClass = "storageclass.beta.kubernetes.io/is-default-class"
)

// defaultClass returns the default class of the cluster, nil if there is none. If several are marked,
// the newest counts, and among equally old ones the first by name.
func defaultClass(classes []*storagev1.StorageClass) *storagev1.StorageClass {
	marked := slices.DeleteFunc(slices.Clone(classes), func(class *storagev1.StorageClass) bool {
		return !isDefault(class)
	})
	if len(marked) == 0 {
		return nil
	}
	return slices.MinFunc(marked, func(a, b *storagev1.StorageClass) int {
		if order := b.CreationTimestamp.Compare(a.CreationTimestamp.Time); order != 0 {
			return order
		}
		return cmp.Compare(a.Name, b.Name)
	})
}

func isDefault(class *storagev1.StorageClass) bool {
	return class.Annotations[annDefaultClass] == "true" || class.Annotations[annBetaDefaultClass] == "true"
}
