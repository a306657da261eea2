package plan

import (
	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/config/locks"
	"kcmd.dev/pkg/config/v1beta1"
)

// Config is the configuration that everything here is a function of. It is whole, with its
// defaults, and not modified.
type Config = v1beta1.KubeControllerManagerConfiguration

// Subject is one controller as a Plan sees it.
type Subject struct {
	// Name is the canonical name.
	Name string
	// Enabled is whether the configuration wants it to run, with the reason if not. Value
	// returns the small comparable value that it reads. Both are pure.
	Enabled func(*Config) (ok bool, reason string)
	Value   func(*Config) any
	// WithoutLease says that it runs in every replica, under no lock.
	WithoutLease bool
}

// Spec is everything in a configuration that one controller depends on. Specs are compared
// with ==; those of all controllers that are not to run differ in Off at most.
type Spec struct {
	// Off is why the controller is not to run; the rest is zero then.
	Off string
	// Value is what the controller reads.
	Value any
	// Paused says that no instance works, and that its caches stay.
	Paused bool
	// Source is how the process reaches the API server.
	Source Source
	// Lock is what it runs under, zero if it needs no lease.
	Lock locks.Key
}

// Runs reports whether the controller is to run where its lock is held, unless it is paused.
func (s Spec) Runs() bool { return s.Off == "" }

// SpecOf is what a controller depends on in a configuration.
func SpecOf(cfg *Config, s Subject) Spec {
	if ok, reason := s.Enabled(cfg); !ok {
		return Spec{Off: reason}
	}
	spec := Spec{Value: s.Value(cfg), Paused: cfg.ControllerPaused(s.Name), Source: SourceOf(cfg)}
	if s.WithoutLease {
		return spec
	}
	lock, ours := s.lock(cfg)
	if !ours {
		return Spec{Off: "leader migration assigns it to another component"}
	}
	spec.Lock = lock
	return spec
}

// lock is what a controller runs under; ours is false if another component runs it.
func (s Subject) lock(cfg *Config) (key locks.Key, ours bool) {
	name, ours := locks.Of(cfg, s.Name)
	if !ours {
		return locks.Key{}, false
	}
	return locks.KeyOf(cfg, name), true
}

// parts read the parts of the Spec of a controller that runs.
func (s Subject) parts() []part {
	paused := func(cfg *Config) any { return cfg.ControllerPaused(s.Name) }
	parts := []part{s.Value, paused, func(cfg *Config) any { return SourceOf(cfg) }}
	if s.WithoutLease {
		return parts
	}
	return append(parts, func(cfg *Config) any {
		lock, _ := s.lock(cfg)
		return lock
	})
}

// Source is how the process reaches the API server, and as whom. A change of it takes another
// connection: other clients and caches.
type Source struct {
	Kubeconfig, Server              string
	ContentType, AcceptContentTypes string
	// ServiceAccounts is set if each controller has credentials of its own.
	ServiceAccounts bool
}

// SourceOf is how a configuration has the process reach the API server.
func SourceOf(cfg *Config) Source {
	c := cfg.ClientConnection
	return Source{
		Kubeconfig:         c.Kubeconfig,
		Server:             c.Server,
		ContentType:        c.ContentType,
		AcceptContentTypes: c.AcceptContentTypes,
		ServiceAccounts:    ptr.Deref(c.UseServiceAccountCredentials, false),
	}
}
