package csrsigning

import (
	"context"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/klog/v2"

	"kcmd.dev/pkg/config/authority"
)

// ca is the CA that was read from a pair of files. It stays in force if they become invalid.
type ca struct {
	files   authority.Files
	inForce atomic.Pointer[authority.Authority]
	// problem is why nothing is to be signed with what the files contain, nil if it is. Once the controller runs, only
	// follow uses it.
	problem error
}

// loadCA reads a CA. One that has expired is in force as well until another one replaces it: nothing is signed with it.
func loadCA(files authority.Files, now time.Time) (*ca, error) {
	read, err := files.Read()
	if err != nil {
		return nil, err
	}
	c := &ca{files: files, problem: read.Expired(now)}
	c.inForce.Store(read)
	return c, nil
}

// readCA reads a CA and verifies that it has not expired.
func readCA(files authority.Files, now time.Time) (*authority.Authority, error) {
	read, err := files.Read()
	if err == nil {
		err = read.Expired(now)
	}
	if err != nil {
		return nil, err
	}
	return read, nil
}

// follow reads the files again whenever they have changed.
func (c *signingController) follow(ctx context.Context) error {
	for {
		select {
		case <-c.FilesChanged:
			for _, one := range c.cas {
				if one.renew(ctx, c.Clock.Now()) {
					c.retryWith(ctx, one)
				}
			}
		case <-ctx.Done():
			return nil
		}
	}
}

// retryWith enqueues the requests that a renewed CA has to sign. The previous one may be the cause that they failed, or
// that they are about to, and their next retry may be far off.
func (c *signingController) retryWith(ctx context.Context, renewed *ca) {
	all, err := c.requests.List(labels.Everything())
	if err != nil {
		klog.FromContext(ctx).Error(err,
			"Listing the cached requests failed, those that wait are not signed before their next retry")
		return
	}
	for _, csr := range all {
		if signer := c.signerOf(csr); signer != nil && signer.ca == renewed {
			c.loop.Add(csr.Name)
		}
	}
}

// renew puts the content of the files in force if it is valid, and reports whether the CA has changed. It logs each
// problem once.
func (c *ca) renew(ctx context.Context, now time.Time) bool {
	logger, was := c.logger(ctx), c.problem
	next, err := readCA(c.files, now)
	if err != nil {
		if c.problem = err; was == nil || was.Error() != err.Error() {
			logger.Error(err, "The CA of a signer has changed and cannot be used; the previous one stays in force")
		}
		return false
	}
	c.problem = nil
	if next.Equal(c.inForce.Load()) {
		if was != nil {
			logger.Info("The files contain the CA in force again")
		}
		return false
	}
	c.inForce.Store(next)
	logger.Info("The CA of a signer has changed",
		"subject", next.Certificate.Subject.String(), "notAfter", next.Certificate.NotAfter)
	return true
}

func (c *ca) logger(ctx context.Context) klog.Logger {
	return klog.FromContext(ctx).WithValues("certFile", c.files.Cert, "privateKeyFile", c.files.Key)
}
