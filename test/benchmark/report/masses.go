package report

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
)

// massFailure is what TestMassFailure of test/integration/heartbeats has seen: nodes and pods over
// time, and when what was done to them.
type massFailure struct {
	Samples []struct {
		Seconds                   float64
		Unknown, Tainted, Evicted int
	}
	Phases []struct {
		Seconds float64
		Name    string
	}
}

// massFailureData is where that test writes, below the root of the repository.
const massFailureData = "test/benchmark/results/mass-failure.json"

const massFailureImage = "mass-failure.svg"

// massFailurePlot draws what is stored, nil if nothing is.
func massFailurePlot(root string) ([]byte, error) {
	data, err := os.ReadFile(filepath.Join(root, massFailureData))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var seen massFailure
	if err == nil {
		err = json.Unmarshal(data, &seen)
	}
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", massFailureData, err)
	}
	return seen.plot(), nil
}

// plot shows three lines over time, with a mark where each phase begins. The names of phases are below,
// by number.
func (m massFailure) plot() []byte {
	if len(m.Phases) == 0 || len(m.Samples) == 0 {
		return nil
	}
	const left, bottom, right, perLine = 60, 330, plotWidth - margin, 2
	const title = "300 nodes in three zones fail"
	end, most := m.Phases[len(m.Phases)-1].Seconds, 0
	for _, s := range m.Samples {
		most = max(most, s.Unknown, s.Tainted, s.Evicted)
	}
	step := niceStep(float64(most))
	top := math.Ceil(float64(most)/step) * step
	place := func(p point) point {
		return point{left + min(p.x, end)/end*(right-left), bottom - p.y/top*(bottom-header)}
	}
	c := &canvas{width: plotWidth, height: bottom + 60 + 18*((len(m.Phases)+perLine-1)/perLine)}
	c.text(margin, 28, atStart, "title", title)
	for i, name := range []string{"nodes that are Unknown", "nodes tainted so that pods leave", "pods evicted"} {
		x := [...]float64{margin, margin + 190, margin + 440}[i]
		c.bar(x, 40, 12, 12, [...]string{"soft", "ours", "theirs"}[i])
		c.text(x+18, 50, atStart, "", name)
	}
	for v := 0.0; v <= top; v += step {
		y := place(point{0, v}).y
		c.line(left, y, right, y, "grid")
		c.text(left-8, y+4, atEnd, "small soft", fmt.Sprintf("%.0f", v))
	}
	for i, phase := range m.Phases[:len(m.Phases)-1] {
		x := place(point{phase.Seconds, 0}).x
		c.line(x, header-6, x, bottom, "even")
		c.text(x+3, bottom+16, atStart, "small soft", fmt.Sprintf("%d", i+1))
		c.text(left+float64(i%perLine)*(right-left)/perLine, float64(bottom+58+18*(i/perLine)), atStart, "small",
			fmt.Sprintf("%d  from %.0f s: %s", i+1, phase.Seconds, phase.Name))
	}
	c.text(right, bottom+34, atEnd, "small soft", fmt.Sprintf("%.0f s", end))
	var lines [3][]point
	for _, s := range m.Samples {
		for i, n := range []int{s.Unknown, s.Tainted, s.Evicted} {
			if last := len(lines[i]) - 1; last >= 0 {
				lines[i] = append(lines[i], place(point{s.Seconds, 0}))
				lines[i][last+1].y = lines[i][last].y
			}
			lines[i] = append(lines[i], place(point{s.Seconds, float64(n)}))
		}
	}
	for i, class := range []string{"even", "oursLine", "theirsLine"} {
		c.path(append(lines[i], point{right, lines[i][len(lines[i])-1].y}), class)
	}
	return c.image(title)
}
