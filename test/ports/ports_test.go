package ports

import (
	"fmt"
	"net"
	"os"
	"strings"
	"testing"

	"kcmd.dev/test/must"
)

func TestAFreePortCanBeListenedOn(t *testing.T) {
	listener := must.Get(net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", FreeFor(t))))(t)
	must.Succeed(t, listener.Close())
}

// A port of this range may be that of a connection by the time that it is listened on.
func TestNoConnectionGoesOutFromAFreePort(t *testing.T) {
	data, err := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range")
	if err != nil {
		t.Skip(err)
	}
	var low, high int
	if _, err := fmt.Fscan(strings.NewReader(string(data)), &low, &high); err != nil {
		t.Fatal(err)
	}
	if low < first+count && high >= first {
		t.Skipf("this machine uses ports %d to %d for connections", low, high)
	}
}
