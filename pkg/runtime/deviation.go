package runtime

import (
	"cmp"
	"context"
	"maps"
	"slices"

	"k8s.io/klog/v2"

	"kcmd.dev/pkg/config/plan"
	"kcmd.dev/pkg/runtime/status"
	"kcmd.dev/pkg/runtime/supervisor"
)

// done is what a transaction did.
type done struct {
	controllers []supervisor.Done
	leases      map[string]plan.Action // by lock, of those that are not kept
	reconnected bool
}

// deviations compares what was done with what was planned.
func deviations(p plan.Plan, did done) []status.Deviation {
	var all []status.Deviation
	for _, c := range did.controllers {
		if d := deviation(p.Controller(c.Name), c); d != nil {
			all = append(all, *d)
		}
	}
	planned := map[string]plan.Action{}
	for _, l := range p.Leases {
		planned[l.Lock] = l.Action
	}
	locks := maps.Clone(planned)
	maps.Copy(locks, did.leases)
	for _, lock := range slices.Sorted(maps.Keys(locks)) {
		if planned[lock] != did.leases[lock] {
			all = append(all, status.Deviation{Subject: "lease " + lock,
				Planned: cmp.Or(planned[lock], plan.Keep), Done: cmp.Or(did.leases[lock], plan.Keep)})
		}
	}
	if action := map[bool]plan.Action{true: plan.Restart, false: plan.Keep}; p.Reconnects() != did.reconnected {
		all = append(all, status.Deviation{Subject: "connection", Planned: action[p.Reconnects()], Done: action[did.reconnected]})
	}
	return all
}

// deviation compares what was planned for a controller with what it was told to do. It is nil
// if they agree, or if the controller does not run anyway but waits or stands by.
func deviation(planned plan.Action, d supervisor.Done) *status.Deviation {
	did := d.Action()
	if planned == did {
		return nil
	}
	out := &status.Deviation{Subject: d.Name, Planned: planned, Done: did}
	was, is := d.Before.State != supervisor.Disabled, d.After.State != supervisor.Disabled
	agrees := map[plan.Action]bool{plan.Start: !was && is, plan.Stop: was && !is, plan.Restart: was && is, plan.Keep: was && is, plan.Pause: is, plan.Resume: was && is}
	switch {
	case !agrees[planned]:
	case d.Before.State != supervisor.Running || d.After.State != supervisor.Running:
		if planned == plan.Keep && d.Before.State == d.After.State {
			return nil // it stands by, or waits, as before
		}
		out.Because = cmp.Or(d.After.Reason, d.Before.Reason)
	case planned == plan.Keep:
		out.Because = unplanned(d.Before.Spec, d.After.Spec)
	}
	return out
}

// unplanned describes how two specs differ apart from the configuration.
func unplanned(before, after supervisor.Spec) string {
	switch {
	case before.Planned != after.Planned:
		return ""
	case before.Files != after.Files:
		return "the contents of its files have changed"
	case before.Chosen != after.Chosen:
		return "the API server serves another version of its resource"
	case before.Term != after.Term:
		return "another leadership term has begun"
	}
	return ""
}

// report makes deviations visible. Those that differ in their subject only are reported together.
func (r *Runtime) report(ctx context.Context, all []status.Deviation) {
	logger := klog.FromContext(ctx)
	var explained []status.Deviation // without subjects
	subjects := map[status.Deviation][]string{}
	for _, d := range all {
		if d.Because == "" {
			r.reloads.Deviated()
			logger.Error(nil, "A reload did something else than planned", "subject", d.Subject, "planned", d.Planned, "done", d.Done)
			continue
		}
		subject := d.Subject
		d.Subject = ""
		if subjects[d] == nil {
			explained = append(explained, d)
		}
		subjects[d] = append(subjects[d], subject)
	}
	for _, d := range explained {
		logger.Info("A reload was carried out differently", "subjects", subjects[d], "planned", d.Planned, "done", d.Done, "because", d.Because)
	}
}
