package resourceclaim

import (
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
)

// A successor forgets the oldest first, too. Pins RCLM-56.
func TestARecordThatIsHandedOverKeepsItsOrder(t *testing.T) {
	const capacity = 20
	clock := clocktesting.NewFakeClock(time.Unix(1000, 0))
	predecessor, successor := newRecord(clock, capacity), newRecord(clock, capacity)
	uid := func(i int) types.UID { return types.UID(fmt.Sprint(i)) }
	for i := range capacity {
		predecessor.add(uid(i))
		clock.Step(time.Second)
	}
	successor.takeOver(predecessor.state())
	for i := range capacity / 2 {
		successor.add(uid(capacity + i))
	}
	for i := range capacity + capacity/2 {
		if _, known := successor.age(uid(i)); known != (i >= capacity/2) {
			t.Errorf("%d is known: %v", i, known)
		}
	}
}
