package storageversionmigrator

import (
	"maps"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	migrationlisters "k8s.io/client-go/listers/storagemigration/v1beta1"
)

// position is how far a migration is.
type position struct {
	uid  types.UID // of the migration
	last types.NamespacedName
	// unchanged are the UIDs of the objects that were applied to and have kept their resource versions, since they were
	// stored in the present way before. Only by this they differ from those that are left to be rewritten.
	unchanged map[types.UID]bool
}

// positions is how far each migration is, by its name.
type positions map[string]position

// progress remembers how far migrations are: which cached object was rewritten last, and which ones did not change.
type progress struct {
	mu  sync.Mutex
	all positions
}

func newProgress() *progress { return &progress{all: positions{}} }

// of returns the object that was rewritten last, the zero name if there is none.
func (p *progress) of(migration *svm) types.NamespacedName {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.at(migration).last
}

// at returns how far a migration is. What is remembered of a namesake does not count.
func (p *progress) at(migration *svm) position {
	if at, found := p.all[migration.Name]; found && at.uid == migration.UID {
		return at
	}
	return position{uid: migration.UID, unchanged: map[types.UID]bool{}}
}

// reached records the object that was rewritten last.
func (p *progress) reached(migration *svm, last types.NamespacedName) {
	p.mu.Lock()
	defer p.mu.Unlock()
	at := p.at(migration)
	at.last = last
	p.all[migration.Name] = at
}

// unchanged records an object that was applied to and has not changed.
func (p *progress) unchanged(migration *svm, object types.UID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	at := p.at(migration)
	at.unchanged[object] = true
	p.all[migration.Name] = at
}

// isUnchanged reports whether an object was applied to and has not changed.
func (p *progress) isUnchanged(migration *svm, object types.UID) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.at(migration).unchanged[object]
}

func (p *progress) forget(migration string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.all, migration)
}

// handOver returns what the successor goes on with. It is not used here any more: the maps within are the same.
func (p *progress) handOver() positions {
	p.mu.Lock()
	defer p.mu.Unlock()
	return maps.Clone(p.all)
}

// takeOver adds how far a predecessor got with the migrations that still exist.
func (p *progress) takeOver(left positions, migrations migrationlisters.StorageVersionMigrationLister) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for name, at := range left {
		if migration, err := migrations.Get(name); err == nil && migration.UID == at.uid {
			p.all[name] = at
		}
	}
}
