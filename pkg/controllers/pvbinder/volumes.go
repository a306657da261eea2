package pvbinder

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/clock"
)

type quantity = resource.Quantity

// volumeStore is the store of volumes with the index by which claims find them.
type volumeStore struct {
	*store[*corev1.PersistentVolume]
	candidates candidates
}

func newVolumeStore(
	c clock.PassiveClock, cached func(string) (*corev1.PersistentVolume, error),
	counted func(old, current *corev1.PersistentVolume),
) *volumeStore {
	s := &volumeStore{candidates: newCandidates()}
	s.store = newStore(c, cached, func(old, current *corev1.PersistentVolume) {
		s.candidates.changed(old, current)
		counted(old, current)
	})
	return s
}

// find returns the volume to bind to a claim, nil if there is none. See candidates.
func (s *volumeStore) find(claim *corev1.PersistentVolumeClaim, delayed, vac bool) (*corev1.PersistentVolume, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.candidates.find(claim, delayed, vac)
}
