package status

import (
	"fmt"
	"os"
	"time"

	"kcmd.dev/pkg/runtime/status/statuspage"
)

// Page renders the status for a browser, and the policy it is to be shown under.
func (s Status) Page(now time.Time, refresh time.Duration) (page []byte, policy string, err error) {
	host, err := os.Hostname()
	if err != nil {
		return nil, "", fmt.Errorf("reading the host name: %w", err)
	}
	page, err = statuspage.Render(viewOf(s, host, now, refresh))
	return page, statuspage.Policy(), err
}
