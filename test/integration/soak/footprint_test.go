package soak

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"kcmd.dev/pkg/config"
	"kcmd.dev/pkg/runtime"
	"kcmd.dev/test/await"
	"kcmd.dev/test/must"
)

// What may be more in the end than in the beginning.
const (
	moreGoroutines  = 10      // requests that are just under way
	moreDescriptors = 4       // connections of those
	moreHeap        = 8 << 20 // bytes
	moreLabels      = 3       // outcomes that had not occurred before

	// goroutinesOfCache is what one more cache adds at most.
	goroutinesOfCache = 12
)

func notFoundIsFine(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// footprint is what a manager could leave behind of what it no longer needs.
type footprint struct {
	goroutines, descriptors, heap float64
	caches, handlers              int
	// users of each resource, in order. In which form it is cached for one of them depends
	// on who was there before: there may be one cache more.
	users map[string][]string
	// series are those of all metrics; labels are their labels with values. Counters begin
	// with the first event they count, so only series of gauges are compared themselves. A
	// counter leaks if its labels take ever new values: names of objects, or hashes.
	series, gauges, labels map[string]bool
}

func (f footprint) String() string {
	return fmt.Sprintf("%.0f goroutines, %.0f descriptors, %.1f MiB heap, %d informers, %d series",
		f.goroutines, f.descriptors, f.heap/(1<<20), f.caches, len(f.series))
}

// measure takes the footprint once it does not shrink any more.
func (s *storm) measure() footprint {
	s.t.Helper()
	least, stable := footprint{}, 0
	await.Within(s.t, patience, "the footprint is stable", func(ctx context.Context) error {
		f, err := s.measureOnce(ctx)
		if err != nil {
			return err
		}
		if least.series == nil || f.goroutines < least.goroutines || f.descriptors < least.descriptors || f.heap < least.heap-1<<20 {
			least, stable = f, 0
		}
		if stable++; stable < 20 {
			return errors.New("it is not")
		}
		return nil
	})
	s.t.Logf("footprint: %v", least)
	return least
}

func (s *storm) measureOnce(ctx context.Context) (footprint, error) {
	f := footprint{users: map[string][]string{}, series: map[string]bool{}, gauges: map[string]bool{}, labels: map[string]bool{}}
	if _, err := s.manager.Get(ctx, "/debug/pprof/heap?gc=1"); err != nil {
		return f, err
	}
	page, err := s.manager.Get(ctx, "/metrics")
	if err != nil {
		return f, err
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(page))
	if err != nil {
		return f, err
	}
	gauge := func(name string) float64 {
		if m := families[name]; m != nil {
			return m.Metric[0].GetGauge().GetValue()
		}
		return -1
	}
	f.goroutines, f.descriptors, f.heap = gauge("go_goroutines"), gauge("process_open_fds"), gauge("go_memstats_heap_alloc_bytes")
	for name, family := range families {
		if steady(name) {
			f.addSeries(name, family)
		}
	}
	status, err := s.manager.Status(ctx)
	f.caches = len(status.Informers)
	for _, i := range status.Informers {
		resource := fmt.Sprint(i.Group, "/", i.Resource, " ", i.Namespace, i.FieldSelector, i.LabelSelector)
		if len(i.Scopes) > 0 { // else it is idle, for five minutes at most
			f.users[resource] = append(f.users[resource], i.Scopes...)
			slices.Sort(f.users[resource])
			f.handlers += i.Handlers
		}
	}
	return f, err
}

func (f footprint) addSeries(name string, family *dto.MetricFamily) {
	for _, one := range family.Metric {
		series := name + fmt.Sprint(one.Label)
		f.series[series] = true
		if family.GetType() == dto.MetricType_GAUGE {
			f.gauges[series] = true
		}
		for _, label := range one.Label {
			f.labels[label.GetName()+"="+label.GetValue()] = true
		}
	}
}

// watching waits until every cache has its watch again: after a restart of the API server a
// reflector waits for up to a minute before it opens another, with fewer goroutines.
func (s *storm) watching() {
	s.t.Helper()
	await.Within(s.t, patience, "every cache has a watch", func(ctx context.Context) error {
		status, err := s.manager.Status(ctx)
		if err != nil {
			return err
		}
		dump, err := s.manager.Get(ctx, "/debug/pprof/goroutine?debug=1")
		if err != nil {
			return err
		}
		watches := 0
		for _, group := range strings.Split(string(dump), "\n\n") {
			if n := 0; strings.Contains(group, "cache.handleAnyWatch") {
				if _, err := fmt.Sscanf(group, "%d @", &n); err != nil {
					return err
				}
				watches += n
			}
		}
		if watches < len(status.Informers) {
			return fmt.Errorf("%d watches, %d caches", watches, len(status.Informers))
		}
		return nil
	})
}

// steady reports that the series of a metric do not depend on what happened: on the answers
// of an API server in trouble, the causes of restarts and the hashes of configurations.
func steady(metric string) bool {
	for _, prefix := range []string{"rest_client_", "kcmd_controller_restarts_total", "kcmd_config_last_config_info", "go_", "apiserver_", "authenti", "authoriz"} {
		if strings.HasPrefix(metric, prefix) {
			return false
		}
	}
	return true
}

// compare fails unless the footprint is again what it was.
func (s *storm) compare(was footprint) {
	s.t.Helper()
	is := s.measure()
	// An idle connection may take its minute and a half to go.
	for end := time.Now().Add(patience); is.over(was) != nil && time.Now().Before(end); {
		is = s.measure()
	}
	if err := is.over(was); err != nil {
		s.t.Error(err)
		if dump, err := s.manager.Get(s.t.Context(), "/debug/pprof/goroutine?debug=1"); err == nil {
			s.t.Logf("%s", dump)
		}
	}
}

// over is an error if there is more than there was.
func (f footprint) over(was footprint) error {
	var errs []error
	for what, pair := range map[string][3]float64{
		"goroutines":       {f.goroutines, was.goroutines, moreGoroutines + goroutinesOfCache*float64(max(0, f.caches-was.caches))},
		"file descriptors": {f.descriptors, was.descriptors, moreDescriptors},
		"bytes of heap":    {f.heap, was.heap, moreHeap},
	} {
		if pair[0] > pair[1]+pair[2] {
			errs = append(errs, fmt.Errorf("%.0f %s, before %.0f", pair[0], what, pair[1]))
		}
	}
	if f.handlers != was.handlers || !maps.EqualFunc(f.users, was.users, slices.Equal) {
		errs = append(errs, fmt.Errorf("%d handlers, of\n%v\nbefore %d, of\n%v", f.handlers, f.users, was.handlers, was.users))
	}
	if more := beyond(f.gauges, was.gauges); len(more) > 0 {
		errs = append(errs, fmt.Errorf("gauges %q are new", more))
	}
	if more := beyond(f.labels, was.labels); len(more) > moreLabels {
		errs = append(errs, fmt.Errorf("labels %q are new", more))
	}
	return errors.Join(errs...)
}

// beyond lists what was not there.
func beyond(is, was map[string]bool) (more []string) {
	for _, one := range slices.Sorted(maps.Keys(is)) {
		if !was[one] {
			more = append(more, one)
		}
	}
	return more
}

// TestFootprintFindsLeaks tests the comparison.
func TestFootprintFindsLeaks(t *testing.T) {
	of := func(text string) footprint {
		parser := expfmt.NewTextParser(model.UTF8Validation)
		families, err := parser.TextToMetricFamilies(strings.NewReader(text))
		must.Succeed(t, err)
		f := footprint{series: map[string]bool{}, gauges: map[string]bool{}, labels: map[string]bool{}}
		for name, family := range families {
			f.addSeries(name, family)
		}
		return f
	}
	const before = "# TYPE c counter\nc{result=\"success\"} 1\n# TYPE g gauge\ng{name=\"a\"} 1\n"
	many := ""
	for n := range moreLabels + 1 {
		many += fmt.Sprintf("c{pod=\"p-%d\"} 1\n", n)
	}
	for name, tc := range map[string]struct {
		text string
		leak bool
	}{
		"the same":                    {before, false},
		"less":                        {"", false},
		"another outcome":             {"# TYPE c counter\nc{result=\"error\"} 1\n", false},
		"a known label elsewhere":     {"# TYPE d counter\nd{name=\"a\"} 1\n", false},
		"a counter for each of many":  {"# TYPE c counter\n" + many, true},
		"a gauge of something new":    {"# TYPE g gauge\ng{name=\"b\"} 1\n", true},
		"another gauge of known name": {"# TYPE h gauge\nh{name=\"a\"} 1\n", true},
	} {
		t.Run(name, func(t *testing.T) {
			if err := of(tc.text).over(of(before)); (err != nil) != tc.leak {
				t.Errorf("got %v", err)
			}
		})
	}
}

// wellBehaved fails if a controller panicked, was given up, or the configuration in force is
// not the last good one.
func (s *storm) wellBehaved() {
	s.t.Helper()
	hash, err := config.Hash(s.manager.Config())
	must.Succeed(s.t, err)
	s.wait("it can be read", func(st *runtime.Status) error {
		if st.Configuration.Hash != hash || st.Configuration.Rejected != "" {
			s.t.Errorf("in force is %s, want %s; rejected: %s", st.Configuration.Hash, hash, st.Configuration.Rejected)
		}
		for _, c := range st.Controllers {
			if c.Abandoned > 0 || c.LastError != "" {
				s.t.Errorf("%s: %d instances given up, last error %s", c.Name, c.Abandoned, c.LastError)
			}
			for _, l := range c.Loops {
				if l.Panicked > 0 {
					s.t.Errorf("%s: %d panics, %s", c.Name, l.Panicked, l.LastError)
				}
			}
		}
		s.t.Logf("term %d, %d reloads, generation %d, credentials renewed %d times", st.Leadership.Term, len(st.Reloads), st.Configuration.Generation, st.Connection.Renewed)
		return nil
	})
}
