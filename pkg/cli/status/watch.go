package status

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"k8s.io/utils/clock"

	"kcmd.dev/pkg/cli/endpoint"
	"kcmd.dev/pkg/cli/terminal"
	"kcmd.dev/pkg/runtime/status"
)

// Source is where the status comes from; an endpoint.Client is one.
type Source interface {
	Status(context.Context) (s *status.Status, raw []byte, err error)
}

// Viewer shows the status of one process.
type Viewer struct {
	Source Source
	// Server names the process.
	Server string
	Out    io.Writer
	Colors terminal.Colors
	Clock  clock.WithTicker
	// JSON shows the answer of the process as it is.
	JSON bool
	// Redraw clears the screen before each status; else statuses follow one another.
	Redraw bool
}

// Once shows the status.
func (v Viewer) Once(ctx context.Context) error {
	text, err := v.render(ctx)
	if err != nil {
		return err
	}
	_, err = v.Out.Write(text)
	return err
}

// Watch shows the status now and then every interval, until ctx ends. A process that does
// not answer any more, such as one that restarts, is reported, and requests continue; one
// that never answered, or that refuses, ends the watch.
func (v Viewer) Watch(ctx context.Context, interval time.Duration) error {
	ticker := v.Clock.NewTicker(interval)
	defer ticker.Stop()
	answered := false
	for {
		text, err := v.render(ctx)
		var refused *endpoint.Error
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil && (!answered || (errors.As(err, &refused) && refused.Refused)):
			return err
		case err != nil:
			text = fmt.Appendf(nil, "%s %v\n", v.Clock.Now().Format(time.TimeOnly), err)
		}
		answered = true
		if err := v.write(text); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C():
		}
	}
}

func (v Viewer) write(text []byte) error {
	if v.Redraw {
		text = append([]byte(terminal.Clear), text...)
	} else if !v.JSON {
		text = append(text, '\n')
	}
	_, err := v.Out.Write(text)
	return err
}

func (v Viewer) render(ctx context.Context) ([]byte, error) {
	s, raw, err := v.Source.Status(ctx)
	if err != nil || v.JSON {
		return raw, err
	}
	var text bytes.Buffer
	if err := Show(&text, v.Server, s, v.Clock.Now(), v.Colors); err != nil {
		return nil, err
	}
	return text.Bytes(), nil
}
