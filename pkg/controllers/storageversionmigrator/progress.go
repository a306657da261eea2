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
}

// positions is how far each migration is, by its name.
type positions map[string]position

// progress remembers how far migrations are: which object was rewritten last.
type progress struct {
	mu  sync.Mutex
	all positions
}

func newProgress() *progress { return &progress{all: positions{}} }

// of returns the object that was rewritten last, the zero name if there is none.
func (p *progress) of(migration *svm) types.NamespacedName {
	p.mu.Lock()
	defer p.mu.Unlock()
	if at := p.all[migration.Name]; at.uid == migration.UID {
		return at.last
	}
	return types.NamespacedName{}
}

// reached records the object that was rewritten last.
func (p *progress) reached(migration *svm, last types.NamespacedName) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.all[migration.Name] = position{uid: migration.UID, last: last}
}

func (p *progress) forget(migration string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.all, migration)
}

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
