package job

import (
	"reflect"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// TestEveryPartOfTheMemoryIsHandled fails for a part that forget or the handover leaves out: the state of Jobs that do
// not exist would stay in memory, or be lost with the instance.
func TestEveryPartOfTheMemoryIsHandled(t *testing.T) {
	first, second := &newFixture(t, defaults).c.memory, &newFixture(t, defaults).c.memory
	first.backoffs.set(key, "u", backoffRecord{failures: 1})
	first.sightings.set(key, "u", sightings{"p": start})
	first.removals.add(key, []*corev1.Pod{newPod("p")})
	first.missed.add(key, "p")
	first.finished.set(key, "u", start)
	parts := reflect.TypeFor[memory]().NumField()
	if n := len(first.all()); n != parts {
		t.Errorf("all lists %d of %d parts", n, parts)
	}
	left := first.handOver()
	second.takeOver(left)
	for name, m := range map[string]*memory{"the first instance": first, "its successor": second} {
		for i, part := range m.all() {
			if !part.knows(key) {
				t.Errorf("%s does not know the Job in part %d", name, i)
			}
		}
		m.forget(key)
		for i, part := range m.all() {
			if part.knows(key) {
				t.Errorf("%s does not forget the Job in part %d", name, i)
			}
		}
	}
	handed := reflect.ValueOf(left)
	if n := handed.NumField(); n != parts {
		t.Errorf("%d of %d parts are handed over", n, parts)
	}
	for i := range handed.NumField() {
		if handed.Field(i).Len() != 1 {
			t.Errorf("%s is not handed over", handed.Type().Field(i).Name)
		}
	}
}
