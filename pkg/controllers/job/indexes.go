package job

import (
	"slices"
	"strconv"
	"strings"
)

// span is the indexes from first to last, both included.
type span struct{ first, last int }

// indexes is a set of completion indexes: ascending spans that neither overlap nor touch.
type indexes []span

// parseIndexes reads the text form, like "1,3-5,7", as far as it is below completions. Invalid
// parts are skipped, since anybody may have written the text.
func parseIndexes(text string, completions int) indexes {
	var set indexes
	for text != "" {
		var element string
		element, text, _ = strings.Cut(text, ",")
		s, ok := parseSpan(element)
		if !ok {
			continue
		}
		if s.first >= completions {
			break
		}
		s.last = min(s.last, completions-1)
		set = set.extend(s)
	}
	return set
}

func parseSpan(text string) (span, bool) {
	firstText, lastText, isRange := strings.Cut(text, "-")
	first, err := strconv.Atoi(firstText)
	if err != nil {
		return span{}, false
	}
	if !isRange {
		return span{first, first}, true
	}
	last, err := strconv.Atoi(lastText)
	if err != nil || last < first {
		return span{}, false
	}
	return span{first, last}, true
}

// indexesOf returns the set of ascending numbers.
func indexesOf(ascending []int) indexes {
	var set indexes
	for _, i := range ascending {
		set = set.extend(span{i, i})
	}
	return set
}

// extend adds a span that begins no earlier than the last one, merged with it if they
// overlap or touch.
func (x indexes) extend(s span) indexes {
	if n := len(x); n > 0 && s.first <= x[n-1].last+1 {
		x[n-1].last = max(x[n-1].last, s.last)
		return x
	}
	return append(x, s)
}

// union returns the indexes in x or y.
func (x indexes) union(y indexes) indexes {
	out := make(indexes, 0, len(x)+len(y))
	for len(x) > 0 || len(y) > 0 {
		if len(y) == 0 || len(x) > 0 && x[0].first <= y[0].first {
			out, x = out.extend(x[0]), x[1:]
		} else {
			out, y = out.extend(y[0]), y[1:]
		}
	}
	return out
}

// with returns x and further indexes, given in any order.
func (x indexes) with(further map[int]bool) indexes {
	if len(further) == 0 {
		return x
	}
	return x.union(indexesOf(sortedKeys(further)))
}

func (x indexes) has(i int) bool {
	_, ok := slices.BinarySearchFunc(x, i, func(s span, i int) int {
		switch {
		case s.last < i:
			return -1
		case s.first > i:
			return 1
		}
		return 0
	})
	return ok
}

func (x indexes) count() int {
	n := 0
	for _, s := range x {
		n += s.last - s.first + 1
	}
	return n
}

// overlap returns the number of indexes in both x and y.
func (x indexes) overlap(y indexes) int {
	n := 0
	for len(x) > 0 && len(y) > 0 {
		n += max(0, min(x[0].last, y[0].last)-max(x[0].first, y[0].first)+1)
		if x[0].last < y[0].last {
			x = x[1:]
		} else {
			y = y[1:]
		}
	}
	return n
}

// String returns the text form. Two consecutive indexes are written "1,2", more of them "1-3".
func (x indexes) String() string {
	var text []byte
	for i, s := range x {
		if i > 0 {
			text = append(text, ',')
		}
		text = strconv.AppendInt(text, int64(s.first), 10)
		switch {
		case s.last == s.first+1:
			text = append(text, ',')
		case s.last > s.first:
			text = append(text, '-')
		default:
			continue
		}
		text = strconv.AppendInt(text, int64(s.last), 10)
	}
	return string(text)
}

func sortedKeys(set map[int]bool) []int {
	keys := make([]int, 0, len(set))
	for i := range set {
		keys = append(keys, i)
	}
	slices.Sort(keys)
	return keys
}
