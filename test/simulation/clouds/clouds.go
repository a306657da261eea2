// Package clouds is the cloud of a simulated world whose controllers run in goroutines of their own.
//
//  1. Live is a whole history of such a world, from its beginning until everything has settled.
//  2. While the world is Faulty, calls fail, or are carried out and their answers are lost.
//  3. Meddle holds calls, or lets those go on that are held. None is held when a controller stops, but some may be when
//     it is killed.
package clouds

import (
	"errors"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime"

	"kcmd.dev/pkg/controller"
	"kcmd.dev/test/fakecloud"
	"kcmd.dev/test/must"
	"kcmd.dev/test/simulation"
)

// Make makes a controller.
type Make func(controller.Env) (controller.Controller, error)

// Cloud is the cloud of a world.
type Cloud struct {
	*fakecloud.Cloud
	// Refuses returns the error with which the cloud itself answers a call, nil if it carries it out. Default: nil.
	Refuses func(what string) error

	w           *simulation.World
	t           *testing.T
	controllers []Make
	runs        []*simulation.Running
	holds       []string
	hold        *fakecloud.Hold // the calls that are held, nil for none
}

var errOutOfOrder = errors.New("the cloud is out of order")

// New makes the cloud of a world with controllers. holds are what calls begin with that Meddle may hold.
func New(t *testing.T, w *simulation.World, holds []string, controllers ...Make) *Cloud {
	c := &Cloud{Cloud: fakecloud.The(), w: w, t: t, controllers: controllers, holds: holds}
	c.Reset()
	c.Disturb(c.trouble)
	w.Start = c.start
	w.Lossy = func(runtime.Object) bool { return w.OneIn(2) }
	return c
}

// Live begins, plays with others and users, and settles: time passes so many times, for as long as controllers wait
// before they look at the cloud again. The controllers run until Stop.
func (c *Cloud) Live(others, users func(), times int, wait time.Duration) {
	c.w.Begin()
	c.w.Play(others, users)
	c.w.Faulty = false
	c.w.Settle(0, nil)
	c.Release()
	for range times {
		c.w.Pass(wait)
		c.w.Drain()
	}
}

// Stop stops the controllers.
func (c *Cloud) Stop() {
	for _, r := range c.runs {
		r.Stop()
	}
}

// start replaces the controllers.
func (c *Cloud) start(env controller.Env, _ any) simulation.Instance {
	end := (*simulation.Running).Kill
	if c.w.OneIn(2) {
		end = (*simulation.Running).Stop
		c.Release()
	}
	for _, r := range c.runs {
		end(r)
	}
	c.runs = nil
	for _, create := range c.controllers {
		c.runs = append(c.runs, simulation.RunFree(c.w, env, func(env controller.Env) controller.Controller {
			return must.Get(create(env))(c.t)
		}))
	}
	return simulation.Instance{}
}

// trouble is what becomes of a call. Like the API server, the cloud answers one at a time.
func (c *Cloud) trouble(what string) (refused, lost error) {
	c.w.Fake.Lock()
	defer c.w.Fake.Unlock()
	if c.Refuses != nil {
		refused = c.Refuses(what)
	}
	if refused == nil && c.w.Faulty {
		switch c.w.Rand.IntN(8) {
		case 0:
			refused = errOutOfOrder
		case 1:
			lost = errOutOfOrder
		}
	}
	c.w.Note("cloud: %s -> %v, %v", what, refused, lost)
	return refused, lost
}

// Meddle lets the calls go on that are held, or holds some if none are.
func (c *Cloud) Meddle() {
	if c.w.OneIn(2) {
		c.Release()
	} else if c.hold == nil {
		c.hold = c.Hold(c.holds[c.w.Rand.IntN(len(c.holds))])
	}
}

// Release lets the calls go on that are held.
func (c *Cloud) Release() {
	if c.hold != nil {
		c.hold.Release()
		c.hold = nil
		c.w.Pass(0)
	}
}
