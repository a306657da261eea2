package runtime

import (
	"bytes"
	"crypto/sha256"
	_ "embed" // for the assets of the page
	"encoding/base64"
	"fmt"
	"html/template"
	"os"
	"time"
)

// The status page is one document: no scripts, no requests besides itself. Everything that
// is shown is escaped by html/template, and the policy forbids the browser whatever the page
// does not need, should something get through all the same.

//go:embed page.html
var pageTemplate string

//go:embed page.css
var pageStyle string

// pagePolicy is the content security policy of the page.
func pagePolicy() string {
	hash := sha256.Sum256([]byte(pageStyle))
	return "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(hash[:]) +
		"'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
}

// statusPage renders the status for a browser, and the policy it is to be shown under.
func (r *Runtime) statusPage(refresh time.Duration) (page []byte, policy string, err error) {
	host, err := os.Hostname()
	if err != nil {
		return nil, "", fmt.Errorf("reading the name of the host: %w", err)
	}
	page, err = renderPage(viewOf(r.Status(), host, r.options.Clock.Now(), refresh))
	return page, pagePolicy(), err
}

func renderPage(v view) ([]byte, error) {
	t, err := template.New("status").Parse(pageTemplate)
	if err != nil {
		return nil, fmt.Errorf("parsing the template of the status page: %w", err)
	}
	v.CSS = template.CSS(pageStyle)
	var b bytes.Buffer
	if err := t.Execute(&b, v); err != nil {
		return nil, fmt.Errorf("rendering the status page: %w", err)
	}
	return b.Bytes(), nil
}
