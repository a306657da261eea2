package statuspage

import (
	"fmt"
	"strings"

	dom "maragu.dev/gomponents"
	"maragu.dev/gomponents/html"
)

// plots are the large plots of the page.
func plots(span string, all []Plot) dom.Node {
	return section("work", "Work", span, html.Div(html.Class("cards"), dom.Map(all, plot)))
}

func plot(p Plot) dom.Node {
	below := p.Most
	if len(p.Points) == 0 {
		below = "nothing to draw; a sample is taken when the page is loaded or metrics are scraped"
	}
	return html.Div(html.Class("card"), html.Data("plot", p.Label),
		html.Dl(html.Dt(dom.Text(p.Label)), html.Dd(dom.Text(p.Now), html.Small(dom.Text(below)))),
		curve("plot", p.Label+", "+p.Most, 300, 60, p.Points))
}

// curve draws a line through points, with the area below it, as a picture that is part of the
// document. It is as wide as there is room. There is none without points.
func curve(class, label string, width, height float64, points []Point) dom.Node {
	if len(points) == 0 {
		return nil
	}
	var line strings.Builder
	for _, p := range points {
		// A line along an edge would be cut in half.
		fmt.Fprintf(&line, "%.1f,%.1f ", p.X*width, 1+(1-p.Y)*(height-2))
	}
	area := fmt.Sprintf("%.1f,%.1f %s%.1f,%.1f", points[0].X*width, height, line.String(), points[len(points)-1].X*width, height)
	return dom.El("svg", html.Class(class), html.Role("img"), dom.Attr("aria-label", label),
		dom.Attr("viewBox", fmt.Sprintf("0 0 %.0f %.0f", width, height)), dom.Attr("preserveAspectRatio", "none"),
		dom.El("polygon", dom.Attr("points", area)),
		dom.El("polyline", dom.Attr("points", strings.TrimSpace(line.String()))))
}
