package identity

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"kcmd.dev/test/must"
)

// established is the state of a connection in /proc/net/tcp.
const established = "01"

// connectionsToAPIServer counts the connections of this process to the API server, those of
// the test's own clients included.
func connectionsToAPIServer(t testing.TB) int {
	t.Helper()
	address, err := url.Parse(plane.URL())
	must.Succeed(t, err)
	port, err := strconv.Atoi(address.Port())
	must.Succeed(t, err)
	suffix := fmt.Sprintf(":%04X", port)
	mine := sockets(t)
	count := 0
	for _, table := range []string{"/proc/self/net/tcp", "/proc/self/net/tcp6"} {
		data, err := os.ReadFile(table)
		must.Succeed(t, err)
		for _, line := range strings.Split(string(data), "\n") {
			fields := strings.Fields(line)
			if len(fields) > 9 && strings.HasSuffix(fields[2], suffix) && fields[3] == established && mine[fields[9]] {
				count++
			}
		}
	}
	return count
}

// sockets are the inodes of the sockets of this process.
func sockets(t testing.TB) map[string]bool {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	must.Succeed(t, err)
	inodes := map[string]bool{}
	for _, e := range entries {
		target, err := os.Readlink(filepath.Join("/proc/self/fd", e.Name()))
		if err != nil {
			continue // closed meanwhile
		}
		if inode, ok := strings.CutPrefix(target, "socket:["); ok {
			inodes[strings.TrimSuffix(inode, "]")] = true
		}
	}
	return inodes
}
