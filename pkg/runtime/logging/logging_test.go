package logging

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/api/resource"
	logsapi "k8s.io/component-base/logs/api/v1"
	"k8s.io/klog/v2"

	"kcmd.dev/pkg/config/v1beta1"
)

func configuration(format string, verbosity uint32) *v1beta1.KubeControllerManagerConfiguration {
	c := &v1beta1.KubeControllerManagerConfiguration{}
	logsapi.SetRecommendedLoggingConfiguration(&c.Logging)
	c.Logging.Format = format
	c.Logging.Verbosity = logsapi.VerbosityLevel(verbosity)
	return c
}

func apply(o *Output, c *v1beta1.KubeControllerManagerConfiguration) error {
	change, err := o.Prepare(c)
	if err == nil {
		change.Commit()
	}
	return err
}

func TestLoggersMadeEarlierFollowEveryChange(t *testing.T) {
	var stderr, stdout bytes.Buffer
	o := newOutput(logsapi.LoggingOptions{ErrorStream: &stderr, InfoStream: &stdout})
	t.Cleanup(klog.ClearLogger)
	take := func(c *v1beta1.KubeControllerManagerConfiguration) {
		t.Helper()
		if err := apply(o, c); err != nil {
			t.Fatal(err)
		}
		stderr.Reset()
	}

	take(configuration("text", 0))
	logger := klog.LoggerWithValues(klog.LoggerWithName(klog.Background(), "deployment-controller"), "key", "a/b")
	logger.Info("one")
	if line := stderr.String(); !strings.HasPrefix(line, "I") || !strings.Contains(line, `logging_test.go:`) ||
		!strings.Contains(line, `"one"`) || !strings.Contains(line, `logger="deployment-controller" key="a/b"`) {
		t.Errorf("text line is %q", line)
	}
	logger.V(2).Info("hidden")
	if strings.Contains(stderr.String(), "hidden") {
		t.Error("verbosity 0 shows a message of level 2")
	}

	take(configuration("text", 2))
	logger.V(2).Info("shown")
	if !strings.Contains(stderr.String(), "shown") {
		t.Error("verbosity 2 hides a message of level 2")
	}

	take(configuration("json", 1))
	logger.Info("two", "n", 1)
	var entry map[string]any
	if err := json.Unmarshal(stderr.Bytes(), &entry); err != nil {
		t.Fatalf("%q: %v", stderr.String(), err)
	}
	if entry["msg"] != "two" || entry["logger"] != "deployment-controller" || entry["key"] != "a/b" {
		t.Errorf("json entry is %v", entry)
	}
	if caller, _ := entry["caller"].(string); !strings.Contains(caller, "logging_test.go") {
		t.Errorf("caller is %q", caller)
	}
	if stdout.Len() != 0 {
		t.Errorf("stdout got %q", stdout.String())
	}
}

func TestWhatIsPreparedChangesNothing(t *testing.T) {
	var stderr bytes.Buffer
	o := newOutput(logsapi.LoggingOptions{ErrorStream: &stderr, InfoStream: &stderr})
	t.Cleanup(klog.ClearLogger)
	if err := apply(o, configuration("text", 0)); err != nil {
		t.Fatal(err)
	}
	next := configuration("json", 3)
	change, err := o.Prepare(next)
	if err != nil {
		t.Fatal(err)
	}
	klog.Background().V(3).Info("hidden")
	klog.Background().Info("one")
	if line := stderr.String(); strings.Contains(line, "hidden") || !strings.HasPrefix(line, "I") || klog.V(3).Enabled() {
		t.Errorf("before it is committed: %q", line)
	}
	stderr.Reset()
	change.Commit()
	klog.Background().V(3).Info("shown")
	if line := stderr.String(); !strings.HasPrefix(line, "{") || !strings.Contains(line, "shown") {
		t.Errorf("after it: %q", line)
	}
}

func TestAnInvalidConfigurationIsRefused(t *testing.T) {
	o := newOutput(logsapi.LoggingOptions{ErrorStream: &bytes.Buffer{}})
	patterns := configuration("json", 0)
	patterns.Logging.VModule = logsapi.VModuleConfiguration{{FilePattern: "=", Verbosity: 1}}
	if _, err := o.Prepare(patterns); err == nil {
		t.Error("a pattern that klog does not take is accepted")
	}
	if err := apply(o, configuration("xml", 0)); err == nil || !strings.Contains(err.Error(), "Unsupported log format") {
		t.Errorf("got %v", err)
	}
}

func TestTheLevelCanBeSetUntilTheConfigurationChanges(t *testing.T) {
	var stderr bytes.Buffer
	o := newOutput(logsapi.LoggingOptions{ErrorStream: &stderr, InfoStream: &stderr})
	if _, err := o.SetVerbosity("3"); err == nil {
		t.Error("a level was set before there is a log")
	}
	if err := apply(o, configuration("text", 0)); err != nil {
		t.Fatal(err)
	}
	logger := klog.LoggerWithName(klog.Background(), "deployment-controller")
	shows := func(want bool) {
		t.Helper()
		stderr.Reset()
		logger.V(3).Info("detail")
		if got := strings.Contains(stderr.String(), "detail"); got != want || klog.V(3).Enabled() != want {
			t.Errorf("level 3 is shown: %v, klog says %v, want %v", got, klog.V(3).Enabled(), want)
		}
	}
	shows(false)
	answer, err := o.SetVerbosity("3\n")
	if err != nil || answer != "successfully set klog.logging.verbosity to 3" {
		t.Errorf("got %q, %v", answer, err)
	}
	shows(true)
	for _, bad := range []string{"", "-1", "three", "4294967296"} {
		if _, err := o.SetVerbosity(bad); err == nil {
			t.Errorf("%q was accepted", bad)
		}
	}
	// A reload that leaves logging as it was leaves the level, too.
	if err := apply(o, configuration("text", 0)); err != nil {
		t.Fatal(err)
	}
	shows(true)
	if err := apply(o, configuration("json", 0)); err != nil {
		t.Fatal(err)
	}
	shows(false)
}

// Zap, which writes the log in JSON, has levels of 8 bits. A higher one, which people set to see everything, hides
// nothing. Pins MGR-212.
func TestTheHighestLevelsShowEverything(t *testing.T) {
	for _, format := range []string{"text", "json"} {
		var stderr bytes.Buffer
		o := newOutput(logsapi.LoggingOptions{ErrorStream: &stderr, InfoStream: &stderr})
		t.Cleanup(klog.ClearLogger)
		shows := func(how string) {
			t.Helper()
			stderr.Reset()
			klog.Background().Error(nil, "failure")
			klog.Background().Info("news")
			klog.Background().V(10).Info("detail")
			for _, want := range []string{"failure", "news", "detail"} {
				if !strings.Contains(stderr.String(), want) {
					t.Errorf("%s, %s: %s is hidden", format, how, want)
				}
			}
		}
		for _, level := range []uint32{127, 128, 129, 200, 255, 256, 999, math.MaxInt32} {
			if err := apply(o, configuration(format, level)); err != nil {
				t.Fatal(err)
			}
			shows(fmt.Sprintf("configured level %d", level))
			if _, err := o.SetVerbosity(fmt.Sprint(level)); err != nil {
				t.Fatal(err)
			}
			shows(fmt.Sprintf("level %d", level))
		}
	}
}

// Lines are held back while a target is in use. Whoever loaded it before a change may write to it
// after its last flush: such a line is not lost.
func TestALineWrittenToAPreviousTargetIsNotLost(t *testing.T) {
	for _, format := range []string{"text", "json"} {
		t.Run(format, func(t *testing.T) {
			var stderr, stdout bytes.Buffer
			o := newOutput(logsapi.LoggingOptions{ErrorStream: &stderr, InfoStream: &stdout})
			t.Cleanup(klog.ClearLogger)
			c := configuration(format, 0)
			c.FeatureGates = map[string]bool{"LoggingAlphaOptions": true}
			routing := logsapi.OutputRoutingOptions{SplitStream: true, InfoBufferSize: resource.QuantityValue{Quantity: resource.MustParse("64Ki")}}
			c.Logging.Options.Text.OutputRoutingOptions, c.Logging.Options.JSON.OutputRoutingOptions = routing, routing
			if err := apply(o, c); err != nil {
				t.Fatal(err)
			}
			previous := logr.New(o.root.target.Load().sink)
			previous.Info("one")
			previous.Error(nil, "two")
			if stdout.Len() != 0 || !strings.Contains(stderr.String(), "two") {
				t.Errorf("nothing is held back: stdout has %q, stderr %q", stdout.String(), stderr.String())
			}
			klog.Flush()
			if !strings.Contains(stdout.String(), "one") {
				t.Errorf("after a flush stdout has %q", stdout.String())
			}
			previous.Info("three")
			if err := apply(o, configuration(format, 1)); err != nil {
				t.Fatal(err)
			}
			previous.Info("four")
			if !strings.Contains(stdout.String(), "three") || !strings.Contains(stdout.String(), "four") {
				t.Errorf("after the change stdout has %q", stdout.String())
			}
		})
	}
}
