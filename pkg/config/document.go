package config

import (
	"fmt"
	"time"

	"kcmd.dev/pkg/config/named"
	"kcmd.dev/pkg/config/problem"
	"kcmd.dev/pkg/config/tree"
	"kcmd.dev/pkg/config/v1beta1"
)

// Document is a configuration together with where each of its fields was written.
type Document struct {
	// Name is the name given to Load, usually the path of the file.
	Name string
	// Config is the configuration, defaulted and valid. It must not be modified.
	Config *v1beta1.KubeControllerManagerConfiguration
	// Warnings are settings that are useless, deprecated or unsafe.
	Warnings problem.Errors

	places tree.Places
	// upstream is set if the file has upstream's version.
	upstream *upstreamOrigins
}

// Origin is where the value of a field comes from. The zero Origin is the default.
type Origin struct {
	// At is where the file sets the value.
	At problem.Position
	// Anchor is where the value itself is written, if there is an alias at At.
	Anchor problem.Position
	// Upstream is the field that the value was converted from, if the file has upstream's
	// version. If At is zero, the value is what upstream does without the field.
	Upstream string
}

// Origin is where the value of a field, or of an element of a list, comes from.
func (d *Document) Origin(path string) Origin {
	if d.upstream != nil {
		return d.upstream.of(path)
	}
	value, ok := d.places.Values[path]
	if !ok {
		return Origin{}
	}
	return Origin{At: value.At, Anchor: value.Anchor}
}

// Position is where the value of the field was written; if the file does not set
// the field, the nearest block around it that the file has.
func (d *Document) Position(path string) problem.Position { return d.places.Position(path) }

// CheckFiles checks, on this machine and now, the files that the configuration names. See
// package named.
func (d *Document) CheckFiles() problem.Errors {
	problems, _ := d.CheckEdit(nil)
	return problems
}

// CheckStart is CheckFiles for a process that starts. That time has passed, or that the clock is
// wrong, does not keep it from starting: a CA that has expired is a warning, and so is a time that
// is too far ahead, which then allows nothing.
func (d *Document) CheckStart() problem.Errors {
	return append(named.CheckStart(d.Name, d.Config, d.places), d.checkNow(true)...)
}

// CheckEdit is CheckFiles for a configuration that follows another one, which is in force: a
// file that the edit does not newly name, and that is bad now, is a warning, and so is a time that
// is too far ahead. bad lists these files.
func (d *Document) CheckEdit(
	inForce *v1beta1.KubeControllerManagerConfiguration,
) (problems problem.Errors, bad []string) {
	problems, bad = named.Check(d.Name, d.Config, d.places, inForce)
	kept := inForce != nil && inForce.DeletionBreaker.AllowUntil == d.Config.DeletionBreaker.AllowUntil
	return append(problems, d.checkNow(kept)...), bad
}

// checkNow checks what depends on the time. What is right once stays so, unless the clock is set
// back. tolerant makes it a warning: a process starts, or the time is that of the configuration in
// force.
func (d *Document) checkNow(tolerant bool) problem.Errors {
	const path = "deletionBreaker.allowUntil"
	r := &problem.Report{File: d.Name}
	latest, at := time.Now().Add(v1beta1.MaxAllowance), d.Position(path)
	if !d.Config.DeletionBreaker.AllowedUntil().After(latest) {
		return nil
	}
	message := fmt.Sprintf("must be at most 24 hours from now, %s, not %s",
		latest.UTC().Format(time.RFC3339), d.Config.DeletionBreaker.AllowUntil)
	if tolerant {
		r.Warnf(at, path, "%s: it allows nothing; is the clock right?", message)
	} else {
		r.Errorf(at, path, "%s", message)
	}
	return r.Errors()
}
