package takeover

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	clocktesting "k8s.io/utils/clock/testing"
)

func TestLedger(t *testing.T) {
	nothing := Versions{Rest: none}
	for _, test := range []struct {
		name string
		do   func(*Ledger, *clocktesting.FakeClock)
		want string
	}{
		{"a process that never led knows nothing", func(*Ledger, *clocktesting.FakeClock) {}, "*=?"},
		{"one that took over knows what it was left", func(l *Ledger, _ *clocktesting.FakeClock) {
			l.Inherit(Versions{ByResource: map[schema.GroupResource]string{pods: "7", jobs: "0"}, Rest: none}, time.Time{})
		}, "pods=7 *=0"},
		{"the highest version counts", func(l *Ledger, c *clocktesting.FakeClock) {
			l.Inherit(nothing, time.Time{})
			l.Stored(pods, "9", c.Now())
			l.Stored(pods, "10", c.Now())
			l.Stored(pods, "8", c.Now())
		}, "pods=10 *=0"},
		{"inherited and own writes add up", func(l *Ledger, c *clocktesting.FakeClock) {
			l.Stored(jobs, "5", c.Now())
			l.Inherit(Versions{ByResource: map[schema.GroupResource]string{pods: "7", jobs: "3"}, Rest: none}, c.Now())
		}, "jobs.batch=5 pods=7 *=0"},
		{"an answer without a version", func(l *Ledger, c *clocktesting.FakeClock) {
			l.Inherit(nothing, time.Time{})
			l.Stored(pods, "9", c.Now())
			l.Stored(pods, "", c.Now())
		}, "pods=? *=0"},
		{"a later write makes up for it", func(l *Ledger, c *clocktesting.FakeClock) {
			l.Inherit(nothing, time.Time{})
			l.Stored(pods, "", c.Now())
			c.Step(time.Millisecond)
			l.Stored(pods, "9", c.Now())
		}, "pods=9 *=0"},
		{"one that began before does not", func(l *Ledger, c *clocktesting.FakeClock) {
			l.Inherit(nothing, time.Time{})
			began := c.Now()
			c.Step(time.Millisecond)
			l.Stored(pods, "", c.Now())
			l.Stored(pods, "9", began)
		}, "pods=? *=0"},
		{"a lost answer can come late", func(l *Ledger, c *clocktesting.FakeClock) {
			l.Inherit(nothing, time.Time{})
			l.Lost(pods)
			c.Step(settleTime - 1)
			l.Stored(pods, "9", c.Now())
		}, "pods=? *=0"},
		{"but not for ever", func(l *Ledger, c *clocktesting.FakeClock) {
			l.Inherit(nothing, time.Time{})
			l.Lost(pods)
			c.Step(settleTime)
			l.Stored(pods, "9", c.Now())
		}, "pods=9 *=0"},
		{"an inherited gap stays until it is made up for", func(l *Ledger, c *clocktesting.FakeClock) {
			l.Inherit(Versions{ByResource: map[schema.GroupResource]string{pods: Unknown, jobs: Unknown}, Rest: none}, c.Now())
			c.Step(time.Millisecond)
			l.verified(pods, "20", c.Now())
		}, "jobs.batch=? pods=20 *=0"},
		{"one unknown predecessor of several is enough", func(l *Ledger, c *clocktesting.FakeClock) {
			l.Inherit(NothingLeft(), c.Now())
			l.Inherit(nothing, time.Time{})
		}, "*=?"},
		{"MGR-201: what the process wrote before an unknown predecessor is not all", func(l *Ledger, c *clocktesting.FakeClock) {
			l.Inherit(nothing, time.Time{})
			l.Stored(pods, "5", c.Now())
			c.Step(time.Second)
			l.Inherit(NothingLeft(), c.Now())
		}, "pods=? *=?"},
		{"MGR-201: a write after it is", func(l *Ledger, c *clocktesting.FakeClock) {
			l.Stored(pods, "5", c.Now())
			c.Step(time.Second)
			l.Inherit(NothingLeft(), c.Now())
			c.Step(time.Second)
			l.Stored(pods, "9", c.Now())
		}, "pods=9 *=?"},
		{"MGR-201: so is a cache that was read after it", func(l *Ledger, c *clocktesting.FakeClock) {
			l.Stored(pods, "5", c.Now())
			l.Inherit(NothingLeft(), c.Now())
			l.verified(pods, "9", c.Now())
		}, "pods=9 *=?"},
		{"MGR-201: a write that was under way before is not", func(l *Ledger, c *clocktesting.FakeClock) {
			began := c.Now()
			c.Step(time.Second)
			l.Inherit(NothingLeft(), c.Now())
			l.Stored(pods, "5", began)
		}, "pods=? *=?"},
		{"MGR-201: what the predecessor has left is known", func(l *Ledger, c *clocktesting.FakeClock) {
			l.Inherit(Versions{ByResource: map[schema.GroupResource]string{pods: "7"}, Rest: Unknown}, c.Now())
			l.Inherit(nothing, c.Now())
		}, "pods=7 *=?"},
		{"MGR-201: of one predecessor of two", func(l *Ledger, c *clocktesting.FakeClock) {
			l.Inherit(NothingLeft(), c.Now())
			l.Inherit(Versions{ByResource: map[schema.GroupResource]string{pods: "7"}, Rest: none}, c.Now())
		}, "pods=? *=?"},
		{"MGR-202: a write that has changed nothing settles nothing", func(l *Ledger, c *clocktesting.FakeClock) {
			l.Inherit(nothing, c.Now())
			l.Stored(pods, "", c.Now())
			c.Step(time.Second)
			l.Stored(pods, "5", time.Time{})
		}, "pods=? *=0"},
		{"MGR-202: nor what an unknown predecessor wrote", func(l *Ledger, c *clocktesting.FakeClock) {
			l.Inherit(NothingLeft(), c.Now())
			c.Step(time.Second)
			l.Stored(pods, "5", time.Time{})
		}, "pods=? *=?"},
		{"a cache without a version verifies nothing", func(l *Ledger, c *clocktesting.FakeClock) {
			l.Inherit(NothingLeft(), c.Now())
			l.verified(pods, "", c.Now())
		}, "*=?"},
	} {
		t.Run(test.name, func(t *testing.T) {
			clock := clocktesting.NewFakeClock(time.Unix(1000, 0))
			l := NewLedger(clock)
			test.do(l, clock)
			if got := l.Versions().String(); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}
