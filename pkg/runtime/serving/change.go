package serving

import (
	"context"
	"fmt"
	"reflect"

	"kcmd.dev/pkg/config/v1beta1"
)

// Change is a configuration that is ready to be served. Either Commit or Discard is to be
// called, before anything else is prepared.
type Change struct {
	server *Server
	config v1beta1.Serving
	same   bool       // it is served already
	infos  *infos     // nil if nothing is to be served
	socket *bound     // nil if nothing is to be served
	pair   *generated // of memory, if there is one
}

// Prepare does everything about a configuration that can fail, without any effect on what is
// served.
func (s *Server) Prepare(ctx context.Context, c v1beta1.Serving) (*Change, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.applied != nil && reflect.DeepEqual(*s.applied, c) {
		return &Change{server: s, same: true}, nil
	}
	return s.prepareLocked(ctx, c)
}

// Renew prepares to serve the same configuration with the current content of the files it
// names: certificates, and the kubeconfigs for reviews.
func (s *Server) Renew(ctx context.Context) (*Change, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.applied == nil {
		return &Change{server: s, same: true}, nil
	}
	return s.prepareLocked(ctx, *s.applied)
}

func (s *Server) prepareLocked(ctx context.Context, c v1beta1.Serving) (*Change, error) {
	next := &Change{server: s, config: c, pair: s.generated}
	if *c.Port == 0 {
		return next, nil
	}
	var err error
	if next.infos, next.pair, err = prepare(c, s.generated); err != nil {
		return nil, fmt.Errorf("serving on %s port %d: %w", c.BindAddress, *c.Port, err)
	}
	if next.socket, err = bindBeside(ctx, placeOf(c), s.current); err != nil {
		next.infos.giveUp()
		return nil, notBound(c, err)
	}
	next.infos.follow(ctx)
	if s.current != nil {
		next.infos.trusts.awaitThoseOf(ctx, s.current.infos.trusts)
	}
	return next, nil
}

// Commit serves with the configuration from now on.
func (c *Change) Commit(ctx context.Context) {
	s := c.server
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.same {
		return
	}
	old := s.current
	s.current, s.generated, s.applied = nil, c.pair, &c.config
	if c.socket != nil {
		c.socket.takeOver()
		s.current = s.listen(ctx, c.socket.TCPListener, c.config, c.infos)
	}
	s.leaveLocked(old)
	profileContention(*c.config.Profiling && *c.config.ContentionProfiling)
}

// Discard gives up what was prepared.
func (c *Change) Discard() {
	if c.socket != nil {
		c.socket.giveUp()
		c.infos.close()
	}
}
