package serving

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
	"k8s.io/klog/v2"
)

// bound is a socket that is not served yet. Neither step fails.
type bound struct {
	*net.TCPListener
	takeOver func() // lets the socket accept the clients of its place
	giveUp   func() // closes it, and leaves the current socket as it was
}

// bindBeside binds a socket for a place while the current listener, if there is one, goes on
// and keeps all its clients:
//
//   - The same address and port: it is the socket of the current listener. No connection is
//     refused when one takes over from the other.
//   - Another port, or an address that the current socket is not in the way of: an ordinary
//     socket of its own.
//   - All addresses instead of one, with the same port: the kernel permits both if they share
//     the port, and gives a connection to the socket that names its address.
//   - One address instead of all of them: the same, but then the new socket would be given
//     connections as soon as it listens. So it is only bound, and listens when it takes over.
func bindBeside(ctx context.Context, at place, current *listening) (*bound, error) {
	if current == nil {
		return at.bindAlone(ctx)
	}
	if current.place.sameSocket(at) {
		return takeAgain(at, current)
	}
	alone, err := at.bindAlone(ctx)
	if !errors.Is(err, syscall.EADDRINUSE) || current.place.port != at.port {
		return alone, err
	}
	// The address may be taken by the current listener.
	sharePort(current.socket, true)
	unshare := func() { sharePort(current.socket, current.place.sharePort) }
	shared, err := at.bindShared(ctx)
	if err != nil {
		unshare()
		return nil, err
	}
	giveUp := shared.giveUp
	shared.giveUp = func() { giveUp(); unshare() }
	return shared, nil
}

func (p place) bindAlone(ctx context.Context) (*bound, error) {
	socket, err := p.bind(ctx)
	if err != nil {
		return nil, err
	}
	return &bound{TCPListener: socket, takeOver: func() {}, giveUp: closing(socket)}, nil
}

// bindShared binds to a port that another socket shares for the time being.
func (p place) bindShared(ctx context.Context) (*bound, error) {
	if p.everywhere() {
		shared := p
		shared.sharePort = true
		socket, err := shared.bind(ctx)
		if err != nil {
			return nil, err
		}
		return &bound{TCPListener: socket, takeOver: func() { sharePort(socket, p.sharePort) }, giveUp: closing(socket)}, nil
	}
	socket, err := p.reserve()
	if err != nil {
		return nil, fmt.Errorf("opening the port: %w", err)
	}
	return &bound{TCPListener: socket, takeOver: func() {
		onSocket(socket, "listening", func(fd int) error { return unix.Listen(fd, unix.SOMAXCONN) })
		sharePort(socket, p.sharePort)
	}, giveUp: closing(socket)}, nil
}

// reserve returns a socket that is bound to one address and does not listen.
func (p place) reserve() (*net.TCPListener, error) {
	family, address := p.sockaddr()
	syscall.ForkLock.RLock()
	fd, err := unix.Socket(family, unix.SOCK_STREAM, 0)
	if err == nil {
		unix.CloseOnExec(fd)
	}
	syscall.ForkLock.RUnlock()
	if err != nil {
		return nil, os.NewSyscallError("socket", err)
	}
	file := os.NewFile(uintptr(fd), "socket")
	for _, option := range []int{unix.SO_REUSEADDR, unix.SO_REUSEPORT} {
		err = errors.Join(err, os.NewSyscallError("setsockopt", unix.SetsockoptInt(fd, unix.SOL_SOCKET, option, 1)))
	}
	err = errors.Join(err, os.NewSyscallError("bind", unix.Bind(fd, address)))
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return listenerOf(file)
}

// sockaddr is the one address of a place.
func (p place) sockaddr() (family int, address unix.Sockaddr) {
	ip := net.ParseIP(p.address)
	if v4 := ip.To4(); v4 != nil {
		return unix.AF_INET, &unix.SockaddrInet4{Port: int(p.port), Addr: [4]byte(v4)}
	}
	return unix.AF_INET6, &unix.SockaddrInet6{Port: int(p.port), Addr: [16]byte(ip.To16())}
}

// takeAgain returns a second listener on the socket of the current one: it stays open when
// the first is closed.
func takeAgain(at place, current *listening) (*bound, error) {
	file, err := current.socket.File()
	if err != nil {
		return nil, fmt.Errorf("taking over the port: %w", err)
	}
	socket, err := listenerOf(file)
	if err != nil {
		return nil, fmt.Errorf("taking over the port: %w", err)
	}
	return &bound{TCPListener: socket, takeOver: func() { sharePort(socket, at.sharePort) }, giveUp: closing(socket)}, nil
}

// listenerOf makes a listener of a socket, and closes the file.
func listenerOf(file *os.File) (*net.TCPListener, error) {
	made, err := net.FileListener(file)
	if err := errors.Join(err, file.Close()); err != nil {
		return nil, err
	}
	socket, ok := made.(*net.TCPListener)
	if !ok {
		return nil, errors.Join(fmt.Errorf("a %T is not a TCP listener", made), made.Close())
	}
	return socket, nil
}

func closing(socket *net.TCPListener) func() { return func() { _ = socket.Close() } }

// sharePort changes whether sockets of other processes may share the port of one.
func sharePort(socket *net.TCPListener, on bool) {
	value := 0
	if on {
		value = 1
	}
	onSocket(socket, "sharing the port", func(fd int) error {
		return unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEPORT, value)
	})
}

// onSocket does something to a socket that cannot fail on one that is open and bound.
func onSocket(socket *net.TCPListener, what string, do func(fd int) error) {
	raw, err := socket.SyscallConn()
	var failed error
	if err == nil {
		err = raw.Control(func(fd uintptr) { failed = do(int(fd)) })
	}
	if err := errors.Join(err, failed); err != nil {
		klog.Background().Error(err, "The socket of the endpoint cannot be changed", "doing", what, "address", socket.Addr().String())
	}
}
