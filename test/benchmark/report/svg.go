package report

import (
	"encoding/xml"
	"fmt"
	"strings"
)

// canvas collects the elements of an SVG image. Colours are classes: the style sheet in
// the image gives them values for light and for dark surroundings.
type canvas struct {
	width, height int
	body          strings.Builder
}

// style keeps text readable and bars apart on white as well as on nearly black.
const style = `
  text { font: 13px system-ui, -apple-system, "Segoe UI", sans-serif; fill: #24292f }
  .title { font-size: 15px; font-weight: 600 }
  .small { font-size: 11px }
  .soft { fill: #57606a }
  .grid { stroke: #d0d7de; stroke-width: 1 }
  .even { stroke: #57606a; stroke-width: 1.5; stroke-dasharray: 4 3 }
  .ours { fill: #0969da } .oursLine { stroke: #0969da }
  .theirs { fill: #bc4c00 } .theirsLine { stroke: #bc4c00 }
  .better { fill: #1a7f37 } .worse { fill: #cf222e }
  .line { fill: none; stroke-width: 2.5; stroke-linejoin: round }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6edf3 }
    .soft { fill: #9198a1 }
    .grid { stroke: #3d444d }
    .even { stroke: #9198a1 }
    .ours { fill: #4493f8 } .oursLine { stroke: #4493f8 }
    .theirs { fill: #f0883e } .theirsLine { stroke: #f0883e }
    .better { fill: #3fb950 } .worse { fill: #f85149 }
  }
`

// Anchors of text.
const (
	atStart  = "start"
	atMiddle = "middle"
	atEnd    = "end"
)

func (c *canvas) text(x, y float64, anchor, class, text string) {
	fmt.Fprintf(&c.body, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\" class=\"%s\">%s</text>\n", x, y, anchor, class, escaped(text))
}

func (c *canvas) bar(x, y, width, height float64, class string) {
	fmt.Fprintf(&c.body, "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" rx=\"2\" class=\"%s\"/>\n", x, y, max(width, 1), height, class)
}

func (c *canvas) line(x1, y1, x2, y2 float64, class string) {
	fmt.Fprintf(&c.body, "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" class=\"%s\"/>\n", x1, y1, x2, y2, class)
}

type point struct{ x, y float64 }

func (c *canvas) path(points []point, class string) {
	coordinates := make([]string, 0, len(points))
	for _, p := range points {
		coordinates = append(coordinates, fmt.Sprintf("%.1f,%.1f", p.x, p.y))
	}
	fmt.Fprintf(&c.body, "<polyline points=\"%s\" class=\"line %s\"/>\n", strings.Join(coordinates, " "), class)
}

func (c *canvas) dot(p point, class string) {
	fmt.Fprintf(&c.body, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"4\" class=\"%s\"/>\n", p.x, p.y, class)
}

// legend names the two subjects.
func (c *canvas) legend(x, y float64) {
	c.bar(x, y-10, 12, 12, "ours")
	c.text(x+18, y, atStart, "", Ours)
	c.bar(x+70, y-10, 12, 12, "theirs")
	c.text(x+88, y, atStart, "", Upstream)
}

// image is the whole file; title is what a reader of the page hears.
func (c *canvas) image(title string) []byte {
	return fmt.Appendf(nil, "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" width=\"%d\" height=\"%d\" role=\"img\" aria-label=\"%s\">\n<style>%s</style>\n%s</svg>\n",
		c.width, c.height, c.width, c.height, escaped(title), style, c.body.String())
}

func escaped(text string) string {
	var b strings.Builder
	// A strings.Builder accepts everything.
	_ = xml.EscapeText(&b, []byte(text))
	return b.String()
}
