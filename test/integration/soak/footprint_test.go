package soak

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"kcmd.dev/pkg/config"
	"kcmd.dev/pkg/runtime"
)

// What may be more in the end than in the beginning.
const (
	moreGoroutines  = 10      // requests that are just under way
	moreDescriptors = 4       // connections of those
	moreHeap        = 8 << 20 // bytes
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
	handlers                      map[string]string
	series                        map[string]bool
}

func (f footprint) String() string {
	return fmt.Sprintf("%.0f goroutines, %.0f descriptors, %.1f MiB heap, %d informers, %d series",
		f.goroutines, f.descriptors, f.heap/(1<<20), len(f.handlers), len(f.series))
}

// measure takes the footprint once it does not shrink any more.
func (s *storm) measure() footprint {
	s.t.Helper()
	least, stable := footprint{}, 0
	eventually(s.t, "the footprint is stable", func(ctx context.Context) error {
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
	f := footprint{handlers: map[string]string{}, series: map[string]bool{}}
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
		for _, one := range family.Metric {
			if steady(name) {
				f.series[name+fmt.Sprint(one.Label)] = true
			}
		}
	}
	status, err := s.manager.Status(ctx)
	for _, i := range status.Informers {
		f.handlers[fmt.Sprint(i.Group, "/", i.Resource, " ", i.Form, i.Namespace, i.FieldSelector, i.LabelSelector)] = fmt.Sprintf("%d handlers of %v", i.Handlers, i.Scopes)
	}
	return f, err
}

// watching waits until every cache has its watch again: after a restart of the API server a
// reflector waits for up to a minute before it opens another, with fewer goroutines.
func (s *storm) watching() {
	s.t.Helper()
	eventually(s.t, "every cache has a watch", func(ctx context.Context) error {
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
	// An idle connection may take its minute and a half to go, an informer nobody uses five.
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
		"goroutines":       {f.goroutines, was.goroutines, moreGoroutines},
		"file descriptors": {f.descriptors, was.descriptors, moreDescriptors},
		"bytes of heap":    {f.heap, was.heap, moreHeap},
	} {
		if pair[0] > pair[1]+pair[2] {
			errs = append(errs, fmt.Errorf("%.0f %s, before %.0f", pair[0], what, pair[1]))
		}
	}
	if !maps.Equal(f.handlers, was.handlers) {
		errs = append(errs, fmt.Errorf("informers are\n%v\nbefore\n%v", f.handlers, was.handlers))
	}
	for _, series := range slices.Sorted(maps.Keys(f.series)) {
		if !was.series[series] {
			errs = append(errs, fmt.Errorf("series %s is new", series))
		}
	}
	return errors.Join(errs...)
}

// wellBehaved fails if a controller panicked, was given up, or the configuration in force is
// not the last good one.
func (s *storm) wellBehaved() {
	s.t.Helper()
	hash, err := config.Hash(s.manager.Config())
	must(s.t, err)
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
