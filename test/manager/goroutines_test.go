package manager

import (
	"maps"
	"testing"
)

const profile = `goroutine profile: total 6
2 @ 0x1 0x2
# labels: {"manager":"/tmp/manager-1"}
#	0x1	net/http.(*persistConn).readLoop+0x1b	net/http/transport.go:1
#	0x2	example.com/x.run+0x2	/x.go:2

1 @ 0x1 0x2
# labels: {"controller":"a", "manager":"/tmp/manager-1"}
#	0x1	net/http.(*persistConn).readLoop+0x2c	net/http/transport.go:2
#	0x2	example.com/x.run+0x2	/x.go:2

1 @ 0x3
# labels: {"controller":"job-controller", "manager":"/tmp/manager-12"}
#	0x3	example.com/x.handle+0x2	/x.go:3

1 @ 0x4
# labels: {"other":"x"}
#	0x4	example.com/x.other+0x2	/x.go:4

1 @ 0x5
#	0x5	main.main+0x2	/x.go:5
`

func TestOnlyGoroutinesOfAManagerAreCounted(t *testing.T) {
	want := map[string]int{
		"net/http.(*persistConn).readLoop < example.com/x.run": 3,
	}
	if got := labelled(profile, "/tmp/manager-1"); !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
