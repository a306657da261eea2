package csrcleaner

import (
	"context"
	"fmt"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/klog/v2"
)

// passPeriod is the time between the end of a pass and the next one.
const passPeriod = time.Hour

// pass finds and deletes requests once. No further one is started once ctx has ended; API
// requests use the context working.
func (c *cleaner) pass(ctx, working context.Context) {
	logger := klog.FromContext(ctx)
	all, err := c.requests.List(labels.Everything())
	if err != nil {
		logger.Error(err, "Unable to list CSRs")
		return
	}
	for _, csr := range all {
		if ctx.Err() != nil {
			return
		}
		why := reason(csr, c.Clock.Now())
		if why == "" {
			continue
		}
		logger.Info("Cleaning CSR", "csr", csr.Name, "reason", why)
		if err := c.delete(working, csr); err != nil {
			logger.Error(err, "Error while attempting to clean CSR", "csr", csr.Name)
		}
	}
}

// delete deletes a request in the version that was judged, possibly long ago. It is no error if the request is gone,
// has changed, or was replaced by another one of its name: the next pass judges it again.
func (c *cleaner) delete(ctx context.Context, csr *certificatesv1.CertificateSigningRequest) error {
	err := c.Client.CertificatesV1().CertificateSigningRequests().Delete(ctx, csr.Name, metav1.DeleteOptions{
		Preconditions: &metav1.Preconditions{UID: &csr.UID, ResourceVersion: &csr.ResourceVersion},
	})
	if err == nil || apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	return fmt.Errorf("unable to delete CSR %q: %w", csr.Name, err)
}
