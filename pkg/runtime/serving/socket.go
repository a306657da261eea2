package serving

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"kcmd.dev/pkg/config/v1beta1"
)

// place is what a socket is bound to, and how.
type place struct {
	address                   string
	port                      int32
	sharePort, shareAddresses bool
}

func placeOf(c v1beta1.Serving) place {
	return place{
		address:        c.BindAddress,
		port:           *c.Port,
		sharePort:      *c.PermitPortSharing,
		shareAddresses: *c.PermitAddressSharing,
	}
}

// bind opens a socket.
func (p place) bind(ctx context.Context) (*net.TCPListener, error) {
	how := net.ListenConfig{Control: p.control}
	opened, err := how.Listen(ctx, "tcp", net.JoinHostPort(p.address, strconv.Itoa(int(p.port))))
	if err != nil {
		return nil, fmt.Errorf("opening the port: %w", err)
	}
	socket, ok := opened.(*net.TCPListener)
	if !ok {
		return nil, errors.Join(fmt.Errorf("opening the port: a %T is not a TCP listener", opened), opened.Close())
	}
	return socket, nil
}

// sameSocket reports whether a socket of one place serves the other as well. The wildcard
// address is the same place however it is written.
func (p place) sameSocket(other place) bool {
	return p.port == other.port && (p.address == other.address || p.everywhere() && other.everywhere())
}

// everywhere reports whether the address is that of all interfaces.
func (p place) everywhere() bool { return net.ParseIP(p.address).IsUnspecified() }

// control sets the options of a socket before it is bound.
func (p place) control(_, _ string, raw syscall.RawConn) error {
	var failed error
	set := func(option int) func(uintptr) {
		return func(fd uintptr) { failed = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, option, 1) }
	}
	if p.sharePort {
		if err := errors.Join(raw.Control(set(unix.SO_REUSEPORT)), failed); err != nil {
			return fmt.Errorf("permitting port sharing: %w", err)
		}
	}
	if p.shareAddresses {
		if err := errors.Join(raw.Control(set(unix.SO_REUSEADDR)), failed); err != nil {
			return fmt.Errorf("permitting address sharing: %w", err)
		}
	}
	return nil
}
