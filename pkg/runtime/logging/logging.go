// Package logging applies the logging part of the configuration to the process, repeatedly.
// component-base does so once per process and rejects a second time, so its loggers are put
// behind a sink whose target can be replaced.
//
//  1. Loggers that were created before a change write through it like all others.
//  2. A change has two phases: Prepare does what can fail and has no effect, Commit cannot
//     fail.
//  3. Formats, options and keys are component-base's: text is klog's, json is that of
//     k8s.io/component-base/logs/json. Everything goes to stderr unless streams are split.
//  4. The bodies of requests and responses, which client-go logs at high levels, are withheld.
//  5. Lines in text are safe to show on a terminal.
package logging

import (
	"errors"
	"flag"
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"
	"sync"

	"github.com/go-logr/logr"
	"k8s.io/component-base/logs"
	logsapi "k8s.io/component-base/logs/api/v1"
	jsonlogs "k8s.io/component-base/logs/json"
	_ "k8s.io/component-base/logs/json/register" // makes the log format json known
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/textlogger"

	"kcmd.dev/pkg/config/gates"
	"kcmd.dev/pkg/config/v1beta1"
)

// Output is where the log of the process goes.
type Output struct {
	root    *root
	klog    *flag.FlagSet
	streams logsapi.LoggingOptions

	mu      sync.Mutex
	applied string
	current logsapi.LoggingConfiguration // as applied, with the verbosity as it is now
}

// Standard returns an output to stderr and, for split streams, stdout. It has no effect
// before the first Commit.
func Standard() *Output {
	return newOutput(logsapi.LoggingOptions{ErrorStream: os.Stderr, InfoStream: os.Stdout})
}

func newOutput(streams logsapi.LoggingOptions) *Output {
	o := &Output{root: &root{}, klog: flag.NewFlagSet("klog", flag.ContinueOnError), streams: streams}
	klog.InitFlags(o.klog)
	return o
}

// Change is a configuration that is ready to be that of the process. It holds no resources.
type Change struct {
	output *Output
	config logsapi.LoggingConfiguration
	logger logr.Logger
	buffer *buffered
}

// Prepare does everything about a configuration that can fail.
func (o *Output) Prepare(c *v1beta1.KubeControllerManagerConfiguration) (*Change, error) {
	gates, err := gates.Logging(c)
	if err != nil {
		return nil, err
	}
	if err := logsapi.Validate(&c.Logging, gates, nil).ToAggregate(); err != nil {
		return nil, err
	}
	logger, buffer, err := o.logger(c.Logging)
	if err != nil {
		return nil, err
	}
	return &Change{output: o, config: c.Logging, logger: logger, buffer: buffer}, nil
}

// Commit applies the configuration to the process. The first one takes over klog.
func (n *Change) Commit() {
	o := n.output
	o.mu.Lock()
	defer o.mu.Unlock()
	first := o.applied == ""
	key := fmt.Sprintf("%+v", n.config)
	if key == o.applied {
		return
	}
	// A process has one klog, whose logger must not be replaced while it is used: the sink
	// that it has is pointed elsewhere instead.
	ours, taken := klog.Background().GetSink().(*sink)
	if first && taken {
		o.root = ours.root
	}
	o.pointAt(n.logger, n.buffer, n.config)
	if first && !taken {
		klog.SetLoggerWithOptions(logr.New(&sink{root: o.root}), klog.ContextualLogger(true), klog.FlushLogger(o.root.flush))
	}
	klog.StartFlushDaemon(n.config.FlushFrequency.Duration.Duration)
	o.applied = key
}

// SetVerbosity sets the log level until the logging configuration changes, or the process
// ends. It returns a sentence about what it did, worded as upstream's.
func (o *Output) SetVerbosity(level string) (string, error) {
	v, err := strconv.ParseUint(strings.TrimSpace(level), 10, 31)
	if err != nil {
		return "", fmt.Errorf("failed to set klog.logging.verbosity: %q is not a level", level)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.applied == "" {
		return "", errors.New("failed to set klog.logging.verbosity: logging is not configured yet")
	}
	c := o.current
	c.Verbosity = logsapi.VerbosityLevel(v)
	logger, buffer, err := o.logger(c)
	if err != nil {
		return "", err
	}
	o.pointAt(logger, buffer, c)
	return fmt.Sprintf("successfully set klog.logging.verbosity to %d", v), nil
}

// maxJSONVerbosity is the highest level of zap, which writes JSON. A higher one would wrap around and hide even errors.
const maxJSONVerbosity = math.MaxInt8

// logger returns a logger, and what holds its lines back.
func (o *Output) logger(c logsapi.LoggingConfiguration) (logr.Logger, *buffered, error) {
	output, buffer := o.textStream(c.Options.Text.OutputRoutingOptions)
	text := textlogger.NewConfig(textlogger.Verbosity(int(c.Verbosity)), textlogger.Output(output))
	if err := text.VModule().Set(vmodule(c)); err != nil {
		return logr.Logger{}, nil, fmt.Errorf("setting vmodule: %w", err)
	}
	if c.Format == logsapi.JSONLogFormat {
		streams, buffer := o.jsonStreams(&c.Options.JSON.OutputRoutingOptions)
		c.Verbosity = min(c.Verbosity, maxJSONVerbosity)
		logger, _ := jsonlogs.Factory{}.Create(c, streams)
		return logger, buffer, nil
	}
	return textlogger.NewLogger(text), buffer, nil
}

// pointAt sends all logs to a logger, and sets the levels that klog checks before it calls
// the logger.
func (o *Output) pointAt(logger logr.Logger, buffer *buffered, c logsapi.LoggingConfiguration) {
	o.root.pointAt(logger.GetSink(), buffer)
	o.current = c
	_, err := logs.GlogSetter(strconv.Itoa(int(c.Verbosity)))
	if err := errors.Join(err, o.klog.Set("vmodule", vmodule(c))); err != nil {
		// A number, and patterns that a logger has taken: see logger.
		klog.Background().Error(err, "The log levels are only partly in force")
	}
}

func vmodule(c logsapi.LoggingConfiguration) string {
	items := make([]string, 0, len(c.VModule))
	for _, item := range c.VModule {
		items = append(items, fmt.Sprintf("%s=%d", item.FilePattern, item.Verbosity))
	}
	return strings.Join(items, ",")
}
