package ttl

import "math"

// interval is a range of cluster sizes, both ends included, and the seconds for it.
type interval struct{ min, max, seconds int }

// intervals are in order of size. Each overlaps the next.
var intervals = [...]interval{
	{0, 100, 0},
	{90, 500, 15},
	{450, 1000, 30},
	{900, 2000, 60},
	{1800, math.MaxInt32, 300},
}

// grown returns the interval, by its number, of a cluster to which a node was added: the
// current one or the next.
func grown(current, count int) int {
	if count > intervals[current].max {
		return current + 1
	}
	return current
}

// shrunk returns the interval of a cluster from which a node was removed: the current one or
// the previous one.
func shrunk(current, count int) int {
	if count < intervals[current].min {
		return current - 1
	}
	return current
}

// firstInterval returns the interval of a cluster whose past is unknown. shown is the number of
// nodes that are annotated with each number of seconds. Of two intervals that contain the size,
// the one is taken that more nodes show, and the lower one if neither is.
func firstInterval(count int, shown map[int]int) int {
	first := 0
	for count > intervals[first].max {
		first++
	}
	next := first + 1
	if next < len(intervals) && count >= intervals[next].min && shown[intervals[next].seconds] > shown[intervals[first].seconds] {
		return next
	}
	return first
}
