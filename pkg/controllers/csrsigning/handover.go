package csrsigning

import (
	"context"
	"time"

	"kcmd.dev/pkg/config/authority"
	"kcmd.dev/pkg/controller"
)

// handover is what an instance hands over: the CAs in force, which need not be those that the files contain.
type handover map[authority.Files]*authority.Authority

// HandOver implements controller.HandsOver.
func (c *signingController) HandOver() handover {
	left := handover{}
	for _, one := range c.cas {
		left[one.files] = one.inForce.Load()
	}
	return left
}

// takeOver keeps a CA in force that the predecessor signed with, if its files contain one that has expired.
func (c *signingController) takeOver(ctx context.Context) {
	left, _ := controller.TakeOver(c.Env, c)
	for _, one := range c.cas {
		if one.problem != nil {
			one.inherit(ctx, left[one.files], c.Clock.Now())
		}
	}
}

// inherit puts the CA of the predecessor in force, if there is one and it has not expired either.
func (c *ca) inherit(ctx context.Context, left *authority.Authority, now time.Time) {
	if left == nil || left.Expired(now) != nil {
		c.logger(ctx).Error(c.problem, "The CA of a signer cannot be used; its requests wait until the files change")
		return
	}
	c.inForce.Store(left)
	c.logger(ctx).Error(c.problem, "The CA of a signer cannot be used; the previous one stays in force")
}
