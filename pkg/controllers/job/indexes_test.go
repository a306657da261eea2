package job

import (
	"fmt"
	"testing"
)

// Pins JOB-57.
func TestParseIndexes(t *testing.T) {
	for _, test := range []struct {
		text        string
		completions int
		want        string
		count       int
	}{
		{"", 5, "", 0},
		{"0", 5, "0", 1},
		{"0,1", 5, "0,1", 2},
		{"0-1", 5, "0,1", 2},
		{"0-2", 5, "0-2", 3},
		{"0,1,2", 5, "0-2", 3},
		{"0-2,3,4", 5, "0-4", 5},
		{"1,3-5,7", 10, "1,3-5,7", 5},
		{"1,3-5,7", 7, "1,3-5", 4},
		{"1,3-5,7", 5, "1,3,4", 3},
		{"1,3-5,7", 3, "1", 1},
		{"1,3-5,7", 0, "", 0},
		{"a,1,2-b,-3,3,,5-4", 10, "1,3", 2},
	} {
		t.Run(fmt.Sprintf("%s below %d", test.text, test.completions), func(t *testing.T) {
			got := parseIndexes(test.text, test.completions)
			if got.String() != test.want || got.count() != test.count {
				t.Errorf("got %q with %d, want %q with %d", got, got.count(), test.want, test.count)
			}
		})
	}
}

// Pins JOB-57.
func TestUnionAndOverlap(t *testing.T) {
	for _, test := range []struct {
		a, b, union string
		overlap     int
	}{
		{"", "", "", 0},
		{"1", "", "1", 0},
		{"0,2,4", "1,3", "0-4", 0},
		{"0-5", "2,3", "0-5", 2},
		{"0-2,8-9", "1-8", "0-9", 3},
		{"5", "1", "1,5", 0},
		{"1-3", "3-6", "1-6", 1},
	} {
		a, b := parseIndexes(test.a, 100), parseIndexes(test.b, 100)
		if got := a.union(b).String(); got != test.union {
			t.Errorf("%s with %s is %s, want %s", test.a, test.b, got, test.union)
		}
		if got := b.union(a).String(); got != test.union {
			t.Errorf("%s with %s is %s, want %s", test.b, test.a, got, test.union)
		}
		if x, y := a.overlap(b), b.overlap(a); x != test.overlap || y != test.overlap {
			t.Errorf("%s and %s have %d or %d in common, want %d", test.a, test.b, x, y, test.overlap)
		}
		if a.String() != test.a && test.a != "0-2,8-9" {
			t.Errorf("%s was changed to %s", test.a, a)
		}
	}
}

func TestHasAgreesWithMembers(t *testing.T) {
	set := indexes{}.with(map[int]bool{9: true, 2: true, 3: true, 5: true, 7: true, 8: true})
	if set.String() != "2,3,5,7-9" {
		t.Fatalf("the set is %s", set)
	}
	for i := range 12 {
		if want := i == 2 || i == 3 || i == 5 || i >= 7 && i <= 9; set.has(i) != want {
			t.Errorf("has %d: %t", i, set.has(i))
		}
	}
}
