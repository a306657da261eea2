package statuspage

import (
	"bytes"
	"crypto/sha256"
	_ "embed" // for the style of the page
	"encoding/base64"
	"fmt"
	"strconv"

	dom "maragu.dev/gomponents"
	"maragu.dev/gomponents/html"
)

//go:embed page.css
var style string

// Policy is the content security policy that the page is to be shown under. It allows the
// style of the page and nothing else that a page could load, run or send.
func Policy() string {
	hash := sha256.Sum256([]byte(style))
	return "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(hash[:]) +
		"'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
}

// Render draws the page as an HTML document.
func Render(v View) ([]byte, error) {
	var b bytes.Buffer
	b.WriteString("<!DOCTYPE html>\n")
	if err := document(v).Render(&b); err != nil {
		return nil, fmt.Errorf("rendering the status page: %w", err)
	}
	return b.Bytes(), nil
}

func document(v View) dom.Node {
	return html.HTML(html.Lang("en"),
		head(v),
		html.Body(
			header(v),
			html.Main(
				plots(v.Span, v.Plots),
				configuration(v.Configuration),
				leases(v.Connection, v.Leases),
				controllers(v.Running, v.Span, v.Controllers),
				reloads(v.Reloads),
				caches(v.Objects, v.Informers),
			),
			footer(),
		),
	)
}

// head has an empty icon of its own, for browsers would ask for one otherwise.
func head(v View) dom.Node {
	return html.Head(
		html.Meta(html.Charset("utf-8")),
		html.Meta(html.Name("viewport"), html.Content("width=device-width, initial-scale=1")),
		dom.If(v.Refresh > 0, html.Meta(dom.Attr("http-equiv", "refresh"), html.Content(strconv.Itoa(v.Refresh)))),
		html.TitleEl(dom.Text(v.Title)),
		html.Link(html.Rel("icon"), html.Href("data:,")),
		html.StyleEl(dom.Raw(style)),
	)
}
