package conversion

import (
	"k8s.io/utils/ptr"
)

// Upstream's own limits of requests.
const (
	DefaultQPS   = 20
	DefaultBurst = 30
)

// What client-go takes for 0.
const (
	clientGoQPS   = 5
	clientGoBurst = 10
)

// Unlimited is the qps of v1alpha1 with which clients have no limit.
const Unlimited = -1

const limitsHow = "a value that is set stays a limit, even 20 and 30; " +
	"a qps that is negative or not set means no limit; 0 means 5 and 10, as in client-go"

// limitsToHub carries over the limits in force. Upstream has limits unless someone asks for
// none; here it is the other way round. A reader of a file therefore fills in Unlimited, not
// upstream's default, for a limit that the file does not set.
func (c *converter) limitsToHub() {
	const qpsPath, burstPath = "Generic.ClientConnection.qps", "Generic.ClientConnection.burst"
	qps, burst := c.in.Generic.ClientConnection.QPS, c.in.Generic.ClientConnection.Burst
	if qps < 0 {
		c.out.ClientConnection.QPS, c.out.ClientConnection.Burst = ptr.To[float32](0), ptr.To[int32](0)
		return
	}
	if qps == 0 {
		qps = clientGoQPS
		if burst == 0 {
			burst = clientGoBurst
		}
		c.noteImportant(qpsPath, "0 means no limit here, but 5 upstream: it becomes 5")
	}
	if burst <= 0 {
		c.errs.addf(burstPath, "must be 1 or more with a qps, not %d: upstream fails to build its clients", burst)
		return
	}
	if qps == DefaultQPS && burst == DefaultBurst {
		c.note(qpsPath, "20 requests per second with bursts of 30, upstream's default, stays the limit: "+
			"remove clientConnection.qps and burst to rely on API Priority and Fairness")
	}
	c.out.ClientConnection.QPS, c.out.ClientConnection.Burst = &qps, &burst
	c.origin("clientConnection.qps", qpsPath)
	c.origin("clientConnection.burst", burstPath)
}

func (c *exporter) limitsFromHub() {
	client := &c.out.Generic.ClientConnection
	client.QPS, client.Burst = Unlimited, 0
	if qps := c.in.ClientConnection.QPS; qps != nil && *qps > 0 {
		client.QPS = *qps
		client.Burst = int32(c.in.ClientConnection.EffectiveBurst())
	}
}
