package ttl

import "testing"

func TestSecondsFollowTheNumberOfNodes(t *testing.T) {
	for name, tc := range map[string]struct {
		from, to int // numbers of nodes, one added or removed at a time
		began    int // seconds at the beginning
		want     int
	}{
		"TTL-10, TTL-11: nobody":                             {0, 0, 0, 0},
		"TTL-10, TTL-11: a hundred":                          {0, 100, 0, 0},
		"TTL-10, TTL-11, TTL-15: one more":                   {0, 101, 0, 15},
		"TTL-10, TTL-11: back to where intervals overlap":    {101, 90, 15, 15},
		"TTL-10, TTL-11: below":                              {101, 89, 15, 0},
		"TTL-10, TTL-11: all that a quarter minute is for":   {0, 500, 0, 15},
		"TTL-10, TTL-11: half a minute":                      {0, 501, 0, 30},
		"TTL-10, TTL-11: back from half a minute":            {501, 450, 30, 30},
		"TTL-10, TTL-11: below half a minute":                {501, 449, 30, 15},
		"TTL-10, TTL-11: a minute":                           {0, 1001, 0, 60},
		"TTL-10, TTL-11: below a minute":                     {1001, 899, 60, 30},
		"TTL-10, TTL-11: all that a minute is for":           {0, 2000, 0, 60},
		"TTL-10, TTL-11: five minutes":                       {0, 2001, 0, 300},
		"TTL-10, TTL-11: there is nothing beyond":            {0, 10_001, 0, 300},
		"TTL-10, TTL-11: back from five minutes":             {2001, 1800, 300, 300},
		"TTL-10, TTL-11, TTL-15: one at a time back to none": {2001, 0, 300, 0},
	} {
		t.Run(name, func(t *testing.T) {
			s := size{count: tc.from}
			s.begin(nil)
			if seconds, known := s.seconds(); seconds != tc.began || !known {
				t.Fatalf("began with %d, %v", seconds, known)
			}
			for n := tc.from; n < tc.to; n++ {
				s.added()
			}
			for n := tc.from; n > tc.to; n-- {
				s.removed()
			}
			if got, _ := s.seconds(); got != tc.want {
				t.Errorf("got %d, want %d", got, tc.want)
			}
		})
	}
}

func TestFirstInterval(t *testing.T) {
	for name, tc := range map[string]struct {
		count int
		shown map[int]int
		want  int // seconds
	}{
		"TTL-10: a new cluster":                            {95, nil, 0},
		"TTL-24: as a cluster that has grown shows":        {95, map[int]int{0: 95}, 0},
		"TTL-24: as a cluster that has shrunk shows":       {95, map[int]int{15: 94, 0: 1}, 15},
		"TTL-24: as many show one as the other":            {95, map[int]int{15: 40, 0: 40}, 0},
		"TTL-24: nodes show what is for another size":      {89, map[int]int{15: 89}, 0},
		"TTL-24: nodes show what is for no size":           {95, map[int]int{7: 95}, 0},
		"TTL-24: the highest overlap":                      {1900, map[int]int{300: 1900}, 300},
		"TTL-24: both are shown, only one is for the size": {101, map[int]int{0: 100, 15: 1}, 15},
		"TTL-10, TTL-15: several intervals up":             {5000, map[int]int{0: 5000}, 300},
	} {
		t.Run(name, func(t *testing.T) {
			if got := intervals[firstInterval(tc.count, tc.shown)].seconds; got != tc.want {
				t.Errorf("got %d, want %d", got, tc.want)
			}
		})
	}
}
