package runtime

import (
	"fmt"
	"os"
	"time"

	"kcmd.dev/pkg/runtime/statuspage"
)

// statusPage renders the status for a browser, and the policy it is to be shown under.
func (r *Runtime) statusPage(refresh time.Duration) (page []byte, policy string, err error) {
	host, err := os.Hostname()
	if err != nil {
		return nil, "", fmt.Errorf("reading the name of the host: %w", err)
	}
	page, err = statuspage.Render(viewOf(r.Status(), host, r.options.Clock.Now(), refresh))
	return page, statuspage.Policy(), err
}
