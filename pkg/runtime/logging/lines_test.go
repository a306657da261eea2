package logging

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	logsapi "k8s.io/component-base/logs/api/v1"
	"k8s.io/klog/v2"

	"kcmd.dev/pkg/config/v1beta1"
)

// Both formats go to stderr, unless streams are split, for which a gate is needed. Pins MGR-116.
func TestWhereLinesGo(t *testing.T) {
	split := func(c *v1beta1.KubeControllerManagerConfiguration) {
		c.FeatureGates = map[string]bool{"LoggingAlphaOptions": true}
		c.Logging.Options.Text.SplitStream, c.Logging.Options.JSON.SplitStream = true, true
	}
	buffered := func(c *v1beta1.KubeControllerManagerConfiguration) {
		split(c)
		size := resource.QuantityValue{Quantity: resource.MustParse("1Ki")}
		c.Logging.Options.Text.InfoBufferSize, c.Logging.Options.JSON.InfoBufferSize = size, size
	}
	for _, format := range []string{logsapi.DefaultLogFormat, logsapi.JSONLogFormat} {
		for name, test := range map[string]struct {
			change         func(*v1beta1.KubeControllerManagerConfiguration)
			stdout, stderr string // the messages there, in order
			flushed        string // the messages on stdout after a flush
		}{
			"by default":         {func(*v1beta1.KubeControllerManagerConfiguration) {}, "", "info problem", ""},
			"split":              {split, "info", "problem", "info"},
			"split and buffered": {buffered, "", "problem", "info"},
		} {
			t.Run(format+" "+name, func(t *testing.T) {
				var stderr, stdout bytes.Buffer
				o := newOutput(logsapi.LoggingOptions{ErrorStream: &stderr, InfoStream: &stdout})
				t.Cleanup(klog.ClearLogger)
				c := configuration(format, 0)
				test.change(c)
				if err := apply(o, c); err != nil {
					t.Fatal(err)
				}
				klog.Background().Info("info")
				klog.Background().Error(nil, "problem")
				for stream, want := range map[*bytes.Buffer]string{&stdout: test.stdout, &stderr: test.stderr} {
					if got := messages(stream.String()); got != want {
						t.Errorf("%q, want %q", stream, want)
					}
				}
				klog.Flush()
				if got := messages(stdout.String()); got != test.flushed {
					t.Errorf("after a flush %q, want %q", stdout.String(), test.flushed)
				}
			})
		}
		without := configuration(format, 0)
		split(without)
		without.FeatureGates = nil
		if _, err := newOutput(logsapi.LoggingOptions{ErrorStream: &bytes.Buffer{}}).Prepare(without); err == nil {
			t.Errorf("%s: streams are split without the gate", format)
		}
	}
}

// messages are those that this test logs, in order.
func messages(output string) string {
	var all []string
	for line := range strings.Lines(output) {
		for _, message := range []string{"info", "problem"} {
			if strings.Contains(line, `"`+message+`"`) {
				all = append(all, message)
			}
		}
	}
	return strings.Join(all, " ")
}

// What lines in JSON hold: the level if it is information, the error if it is a problem, and the name of the controller
// that logs. Patterns are for text only. Pins MGR-116.
func TestWhatLinesHold(t *testing.T) {
	var stderr bytes.Buffer
	o := newOutput(logsapi.LoggingOptions{ErrorStream: &stderr, InfoStream: &stderr})
	t.Cleanup(klog.ClearLogger)
	if err := apply(o, configuration(logsapi.JSONLogFormat, 2)); err != nil {
		t.Fatal(err)
	}
	named := klog.LoggerWithName(klog.Background(), "job-controller")
	for _, test := range []struct {
		log  func()
		want map[string]any // but for ts and caller
	}{
		{func() { klog.Background().Info("m", "a", "b") }, map[string]any{"msg": "m", "v": 0.0, "a": "b"}},
		{func() { named.V(2).Info("m") }, map[string]any{"msg": "m", "v": 2.0, "logger": "job-controller"}},
		{func() { named.Error(errors.New("e"), "m", "n", 1) }, map[string]any{"msg": "m", "err": "e", "n": 1.0, "logger": "job-controller"}},
	} {
		stderr.Reset()
		before := time.Now()
		test.log()
		var entry map[string]any
		if err := json.Unmarshal(stderr.Bytes(), &entry); err != nil {
			t.Fatalf("%q: %v", stderr.String(), err)
		}
		at, _ := entry["ts"].(float64)
		if from, to := float64(before.UnixNano())/1e6, float64(time.Now().UnixNano())/1e6; at < from-1 || at > to+1 {
			t.Errorf("it is logged at %v, want a time in milliseconds between %v and %v", entry["ts"], from, to)
		}
		if caller, _ := entry["caller"].(string); !strings.HasPrefix(caller, "logging/lines_test.go:") {
			t.Errorf("caller is %q", caller)
		}
		delete(entry, "ts")
		delete(entry, "caller")
		if !maps.Equal(entry, test.want) {
			t.Errorf("got %v, want %v", entry, test.want)
		}
	}
	patterns := configuration(logsapi.JSONLogFormat, 0)
	patterns.Logging.VModule = logsapi.VModuleConfiguration{{FilePattern: "lines_test", Verbosity: 5}}
	if _, err := o.Prepare(patterns); err == nil || !strings.Contains(err.Error(), "Only supported for text log format") {
		t.Errorf("patterns with JSON: %v", err)
	}
	patterns.Logging.Format = logsapi.DefaultLogFormat
	if err := apply(o, patterns); err != nil {
		t.Fatal(err)
	}
	stderr.Reset()
	klog.Background().V(5).Info("by a pattern")
	if !strings.Contains(stderr.String(), "by a pattern") {
		t.Error("a pattern has no effect")
	}
}

// klog quotes a text of one line and writes one of several lines as it is: the messages of webhooks, and of events that
// others have recorded. A terminal that shows the log must not obey them. Pins MGR-264.
func TestALogCannotSteerATerminal(t *testing.T) {
	const forged = "denied\n\x1b[2J\x1b]0;title\x07\rE1130 12:00:00.000000 1 a.go:1] \"forged\"\u202e\ttab"
	for name, change := range map[string]func(*v1beta1.KubeControllerManagerConfiguration){
		"to one stream": func(*v1beta1.KubeControllerManagerConfiguration) {},
		"split": func(c *v1beta1.KubeControllerManagerConfiguration) {
			c.FeatureGates = map[string]bool{"LoggingAlphaOptions": true}
			c.Logging.Options.Text.SplitStream = true
		},
	} {
		t.Run(name, func(t *testing.T) {
			var stderr, stdout bytes.Buffer
			o := newOutput(logsapi.LoggingOptions{ErrorStream: &stderr, InfoStream: &stdout})
			t.Cleanup(klog.ClearLogger)
			c := configuration(logsapi.DefaultLogFormat, 0)
			change(c)
			if err := apply(o, c); err != nil {
				t.Fatal(err)
			}
			klog.Background().Error(errors.New(forged), "problem")
			klog.Background().Info("info", "message", forged)
			all := stderr.String() + stdout.String()
			if strings.ContainsAny(all, "\x1b\x07\r\u202e") {
				t.Errorf("the log has what a terminal obeys: %q", all)
			}
			if got := strings.Count(all, "\uFFFD[2J"); got != 2 || !strings.Contains(all, "\ttab\n") {
				t.Errorf("the log lacks the rest: %q", all)
			}
			if got := messages(all); got != "problem info" {
				t.Errorf("logged %q", got)
			}
		})
	}
}
