package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Plots draws the images of the documentation, by file name. One that there are no
// results for is left out.
func Plots(comparisons []Comparison) map[string][]byte {
	plots := map[string][]byte{}
	for name, p := range map[string]struct {
		figure, title string
	}{
		"cpu.svg":    {CPU, "Processor time, kcmd divided by upstream"},
		"memory.svg": {PeakRSS, "Peak memory, kcmd divided by upstream"},
		"writes.svg": {Writes, "Requests that write, kcmd divided by upstream"},
		"time.svg":   {Wall, "Time until done, kcmd divided by upstream"},
	} {
		if image := ratioBars(comparisons, p.figure, p.title); image != nil {
			plots[name] = image
		}
	}
	if image := growthLines(comparisons); image != nil {
		plots["growth.svg"] = image
	}
	if image := durationBars(comparisons); image != nil {
		plots["change.svg"] = image
	}
	return plots
}

const (
	plotWidth  = 760
	labelWidth = 300
	rowHeight  = 26
	margin     = 20
	header     = 64
)

// ratioBars shows one bar for each comparison, on a scale from 0 to a little more than 1
// or the largest ratio up to 2; longer bars are cut off.
func ratioBars(comparisons []Comparison, figure, title string) []byte {
	type row struct {
		label string
		ratio float64
	}
	var rows []row
	most := 1.2
	for i := range comparisons {
		c := &comparisons[i]
		if strings.HasPrefix(c.Phase, slopesPrefix) {
			continue // what is of interest about these starts is their difference
		}
		if ratio, ok := c.Ratio(figure); ok {
			rows = append(rows, row{c.label(), ratio})
			most = min(max(most, ratio*1.1), 2)
		}
	}
	if len(rows) == 0 {
		return nil
	}
	c := &canvas{width: plotWidth, height: header + rowHeight*len(rows) + 2*margin}
	scale := float64(plotWidth-labelWidth-margin-50) / most
	bottom := float64(header + rowHeight*len(rows))
	c.text(margin, 28, atStart, "title", title)
	c.text(margin, 46, atStart, "small soft", "shorter is better; the dashed line is upstream")
	for mark := 0.0; mark <= most; mark += 0.25 {
		x := labelWidth + mark*scale
		c.line(x, header-6, x, bottom, "grid")
		c.text(x, bottom+16, atMiddle, "small soft", strconv.FormatFloat(mark, 'f', -1, 64))
	}
	c.line(labelWidth+scale, header-6, labelWidth+scale, bottom, "even")
	for i, r := range rows {
		y := float64(header + i*rowHeight)
		class := "better"
		if r.ratio > 1 {
			class = "worse"
		}
		length := min(r.ratio, most) * scale
		c.text(labelWidth-10, y+16, atEnd, "", r.label)
		c.bar(labelWidth, y+3, length, rowHeight-8, class)
		c.text(labelWidth+length+6, y+16, atStart, "small", significant(r.ratio))
	}
	return c.image(title)
}

// label is short: the phase, and the mode when it is not the usual one.
func (c *Comparison) label() string {
	if c.Mode == usualMode {
		return c.Phase
	}
	return c.Phase + " (" + c.Mode + ")"
}

// growthLines shows memory over the number of pods.
func growthLines(comparisons []Comparison) []byte {
	lines := map[string][]point{}
	var mostPods, mostMemory float64
	for i := range comparisons {
		c := &comparisons[i]
		if !strings.HasPrefix(c.Phase, growthPrefix) {
			continue
		}
		for _, subject := range []string{Ours, Upstream} {
			if memory, ok := c.Figure(subject, PeakRSS); ok {
				lines[subject] = append(lines[subject], point{c.Units, memory.Median})
				mostPods, mostMemory = max(mostPods, c.Units), max(mostMemory, memory.Median)
			}
		}
	}
	if mostPods == 0 {
		return nil
	}
	const height, left, bottom = 360, 70, 310
	const title = "Peak memory over the number of pods"
	step := niceStep(mostMemory)
	top := math.Ceil(mostMemory/step) * step
	c := &canvas{width: plotWidth, height: height}
	place := func(p point) point {
		return point{left + p.x/mostPods*(plotWidth-left-90), bottom - p.y/top*(bottom-header)}
	}
	c.text(margin, 28, atStart, "title", title)
	c.legend(margin, 50)
	for v := 0.0; v <= top; v += step {
		y := place(point{0, v}).y
		c.line(left, y, plotWidth-90, y, "grid")
		c.text(left-8, y+4, atEnd, "small soft", fmt.Sprintf("%.0f MiB", v))
	}
	// From the right, since points are closer the fewer pods there are.
	free := math.Inf(1)
	for _, p := range slices.Backward(lines[Ours]) {
		const width = 70
		if at := place(p).x; at+width/2 <= free {
			c.text(at, bottom+20, atMiddle, "small soft", fmt.Sprintf("%.0f pods", p.x))
			free = at - width/2
		}
	}
	c.series(lines[Upstream], place, "theirs")
	c.series(lines[Ours], place, "ours")
	c.endLabels(place, lines[Upstream], lines[Ours])
	return c.image(title)
}

func (c *canvas) series(values []point, place func(point) point, class string) {
	if len(values) == 0 {
		return
	}
	var placed []point
	for _, v := range values {
		placed = append(placed, place(v))
	}
	c.path(placed, class+"Line")
	for _, p := range placed {
		c.dot(p, class)
	}
}

// endLabels writes the last value of each line beside it, the labels far enough apart to
// be read.
func (c *canvas) endLabels(place func(point) point, lines ...[]point) {
	const apart = 14.0
	var ends []point
	for _, line := range lines {
		if len(line) > 0 {
			ends = append(ends, line[len(line)-1])
		}
	}
	slices.SortFunc(ends, func(a, b point) int { return cmp.Compare(b.y, a.y) })
	above := 0.0
	for _, end := range ends {
		at := place(end)
		y := max(at.y+4, above+apart)
		c.text(at.x+10, y, atStart, "small", fmt.Sprintf("%.0f MiB", end.y))
		above = y
	}
}

// niceStep returns a step of 1, 2 or 5 times a power of ten that divides the range in
// about five.
func niceStep(most float64) float64 {
	raw := most / 5
	power := math.Pow(10, math.Floor(math.Log10(raw)))
	for _, factor := range []float64{1, 2, 5} {
		if raw <= factor*power {
			return factor * power
		}
	}
	return 10 * power
}

// durationBars shows how long changes and failovers take, on a logarithmic scale from a
// hundredth of a second to a hundred seconds.
func durationBars(comparisons []Comparison) []byte {
	var rows []*Comparison
	for i := range comparisons {
		if c := &comparisons[i]; c.Scenario == "change" || c.Scenario == "failover" {
			rows = append(rows, c)
		}
	}
	if len(rows) == 0 {
		return nil
	}
	const title = "Time until a new Deployment has its pod, after a change or the loss of the leader"
	const shortest, longest, pair = 0.01, 100.0, 44
	c := &canvas{width: plotWidth, height: header + pair*len(rows) + 2*margin}
	scale := float64(plotWidth-labelWidth-margin-60) / math.Log10(longest/shortest)
	place := func(seconds float64) float64 {
		return labelWidth + math.Log10(min(max(seconds, shortest), longest)/shortest)*scale
	}
	bottom := float64(header + pair*len(rows))
	c.text(margin, 28, atStart, "title", title)
	c.legend(margin, 50)
	for mark := shortest; mark <= longest*1.01; mark *= 10 {
		c.line(place(mark), header-6, place(mark), bottom, "grid")
		c.text(place(mark), bottom+16, atMiddle, "small soft", seconds(mark))
	}
	for i, r := range rows {
		y := float64(header + i*pair)
		c.text(labelWidth-10, y+24, atEnd, "", r.label())
		for j, subject := range []string{Ours, Upstream} {
			took, ok := r.Figure(subject, Wall)
			if !ok {
				continue
			}
			at := y + 3 + float64(j)*18
			c.bar(labelWidth, at, place(took.Median)-labelWidth, 15, []string{"ours", "theirs"}[j])
			c.text(place(took.Median)+6, at+12, atStart, "small", seconds(took.Median))
		}
	}
	return c.image(title)
}

// seconds writes a duration with about three digits.
func seconds(v float64) string {
	if v < 1 {
		return strconv.FormatFloat(math.Round(v*1e3), 'f', -1, 64) + " ms"
	}
	return strconv.FormatFloat(math.Round(v*10)/10, 'f', -1, 64) + " s"
}
