package status

import (
	"fmt"
	"time"

	"kcmd.dev/pkg/runtime/status/statuspage"
)

// addPlots adds what the page draws of the last minutes.
func addPlots(v *statuspage.View, past []Sample, now time.Time) {
	v.Span = fmt.Sprintf("the last %d minutes", int(pastSpan.Minutes()))
	v.Plots = []statuspage.Plot{
		plotOf("Keys waiting", "%.0f", queued(past, ""), now),
		plotOf("Keys done per second", "%.1f", done(past, ""), now),
	}
	for i := range v.Controllers {
		c := &v.Controllers[i]
		if c.Loops == 0 {
			continue
		}
		c.QueuedPast, _ = points(queued(past, c.Name), now)
		c.DonePast, _ = points(done(past, c.Name), now)
	}
}

func plotOf(label, format string, values []value, now time.Time) statuspage.Plot {
	p := statuspage.Plot{Label: label, Now: "–"}
	if len(values) > 0 {
		p.Now = fmt.Sprintf(format, values[len(values)-1].n)
	}
	all, most := points(values, now)
	p.Points, p.Most = all, fmt.Sprintf("at most "+format, most)
	return p
}

// points places values on a plot. There are none if there is no line to draw, or if it would be
// zero all the time.
func points(values []value, now time.Time) (all []statuspage.Point, most float64) {
	for _, v := range values {
		most = max(most, v.n)
	}
	if most == 0 || len(values) < 2 {
		return nil, most
	}
	for _, v := range values {
		if age := now.Sub(v.at); age >= 0 && age <= pastSpan {
			all = append(all, statuspage.Point{X: 1 - age.Seconds()/pastSpan.Seconds(), Y: v.n / most})
		}
	}
	return all, most
}
