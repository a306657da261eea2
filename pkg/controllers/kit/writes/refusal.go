package writes

import (
	"errors"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	utilnet "k8s.io/apimachinery/pkg/util/net"

	"kcmd.dev/pkg/controller"
)

// IsRefusal reports whether an error of a write says that it has not been executed. A timeout and an
// error inside the API server do not say so, nor does one of the connection, except if there was none.
func IsRefusal(err error) bool {
	var paused *controller.PausedError
	var stopped *controller.StoppedError
	if errors.As(err, &paused) || errors.As(err, &stopped) || utilnet.IsConnectionRefused(err) {
		return true
	}
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return false
	}
	code := status.Status().Code
	return code >= http.StatusBadRequest && code < http.StatusInternalServerError && code != http.StatusRequestTimeout
}
