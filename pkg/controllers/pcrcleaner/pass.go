package pcrcleaner

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/klog/v2"
)

const (
	// passPeriod is the time between the end of a pass and the next one.
	passPeriod = 5 * time.Minute
	// kept is how long a request is kept.
	kept = 15 * time.Minute
)

// pass finds and deletes requests once. No further one is started once ctx has ended; API
// requests use the context working.
func (c *cleaner) pass(ctx, working context.Context) {
	logger := klog.FromContext(ctx)
	all, err := c.requests.List(labels.Everything())
	if err != nil {
		logger.Error(err, "Unable to list PodCertificateRequests")
		return
	}
	for _, object := range all {
		if ctx.Err() != nil {
			return
		}
		pcr, ok := object.(*metav1.PartialObjectMetadata)
		if !ok || !isDue(pcr, c.Clock.Now()) || c.Pauses.Hold(pcr.Namespace) {
			continue
		}
		if err := c.delete(working, pcr); err != nil {
			logger.Error(err, "Error while attempting to clean PodCertificateRequest", "podCertificateRequest", klog.KObj(pcr))
		}
	}
}

// isDue reports whether a request is old enough to be deleted.
func isDue(pcr *metav1.PartialObjectMetadata, now time.Time) bool {
	return !now.Before(pcr.CreationTimestamp.Add(kept))
}

func (c *cleaner) delete(ctx context.Context, pcr *metav1.PartialObjectMetadata) error {
	err := c.Client.CertificatesV1beta1().PodCertificateRequests(pcr.Namespace).Delete(ctx, pcr.Name, metav1.DeleteOptions{
		Preconditions: &metav1.Preconditions{UID: &pcr.UID},
	})
	if err == nil || apierrors.IsNotFound(err) {
		return nil
	}
	return fmt.Errorf("unable to delete PodCertificateRequest %q: %w", klog.KObj(pcr).String(), err)
}
