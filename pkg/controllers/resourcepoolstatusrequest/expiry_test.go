package resourcepoolstatusrequest

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	resourcev1alpha3 "k8s.io/api/resource/v1alpha3"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"

	"kcmd.dev/test/controllertest"
	"kcmd.dev/test/must"
)

func TestIsExpired(t *testing.T) {
	at := func(kind string, ago time.Duration) metav1.Condition {
		return metav1.Condition{Type: kind, LastTransitionTime: metav1.NewTime(epoch.Add(-ago))}
	}
	created := func(ago time.Duration) func(*resourcev1alpha3.ResourcePoolStatusRequest) {
		return func(r *resourcev1alpha3.ResourcePoolStatusRequest) {
			r.CreationTimestamp = metav1.NewTime(epoch.Add(-ago))
		}
	}
	never := func(r *resourcev1alpha3.ResourcePoolStatusRequest) { r.CreationTimestamp = metav1.Time{} }
	const hour, day = time.Hour, 24 * time.Hour
	type changes = []func(*resourcev1alpha3.ResourcePoolStatusRequest)
	for name, tc := range map[string]struct {
		changes changes
		want    bool
	}{
		"RPSR-17, RPSR-19: pending for a day":          {changes{created(day)}, false},
		"RPSR-17, RPSR-19: pending for longer":         {changes{created(day + 1)}, true},
		"RPSR-17: pending since nobody knows when":     {changes{never}, false},
		"RPSR-17, RPSR-19: answered an hour ago":       {changes{created(day * 2), answered(at("Complete", hour))}, false},
		"RPSR-17, RPSR-19: answered longer ago":        {changes{answered(at("Complete", hour+1))}, true},
		"RPSR-17: failed longer ago":                   {changes{answered(at("Failed", hour+1))}, true},
		"RPSR-17: the first of both counts":            {changes{answered(at("Failed", hour), at("Complete", day))}, false},
		"RPSR-17: other conditions do not":             {changes{created(1), answered(at("Other", day))}, false},
		"RPSR-17: without a condition, since creation": {changes{created(hour + 1), answered()}, true},
		"RPSR-17: answered nobody knows when":          {changes{created(day * 2), answered(metav1.Condition{Type: "Complete"})}, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := isExpired(request(tc.changes...), epoch); got != tc.want {
				t.Errorf("got %v", got)
			}
		})
	}
}

func named(name string, answeredAgo time.Duration) *resourcev1alpha3.ResourcePoolStatusRequest {
	return request(answered(metav1.Condition{Type: "Complete", LastTransitionTime: metav1.NewTime(epoch.Add(-answeredAgo))}),
		func(r *resourcev1alpha3.ResourcePoolStatusRequest) { r.Name, r.UID = name, types.UID("uid-of-"+name) })
}

// Pins RPSR-6, RPSR-17 and RPSR-30.
func TestAPassDeletesWhatHasExpired(t *testing.T) {
	env, c := fixture(t, named("old", 2*time.Hour), named("new", time.Minute), request())
	c.pass(env.Context(), env.Context())
	writes := env.Writes()
	env.WantRequests(t, "delete resourcepoolstatusrequests old")
	if is := writes[0].(clienttesting.DeleteActionImpl).DeleteOptions; *is.Preconditions.UID != "uid-of-old" || is.Preconditions.ResourceVersion != nil {
		t.Errorf("deleted with %+v", is)
	}
}

// The cache does not show yet that it is answered. Pins RPSR-37.
func TestAPassDoesNotDeleteWhatWasAnsweredMeanwhile(t *testing.T) {
	pending := request(func(r *resourcev1alpha3.ResourcePoolStatusRequest) {
		r.CreationTimestamp = metav1.NewTime(epoch.Add(-25 * time.Hour))
	})
	env, c := fixture(t, pending)
	c.pass(env.Context(), env.Context())
	is := env.Writes()[0].(clienttesting.DeleteActionImpl).DeleteOptions.Preconditions
	if *is.UID != "uid" || is.ResourceVersion == nil || *is.ResourceVersion != "7" {
		t.Errorf("deleted with %+v", is)
	}
}

func TestWhatAPassCannotDelete(t *testing.T) {
	for name, tc := range map[string]struct {
		refusal error
		logged  bool
	}{
		"RPSR-17: gone":          {apierrors.NewNotFound(resource.GroupResource(), "a"), false},
		"RPSR-17: replaced":      {apierrors.NewConflict(resource.GroupResource(), "a", errors.New("the UID differs")), true},
		"RPSR-17: anything else": {errors.New("boom"), true},
	} {
		t.Run(name, func(t *testing.T) {
			env, c := fixture(t, named("a", 2*time.Hour), named("b", 2*time.Hour))
			env.Refuse("delete resourcepoolstatusrequests a", tc.refusal)
			logger := ktesting.NewLogger(t, ktesting.NewConfig(ktesting.BufferLogs(true)))
			c.pass(klog.NewContext(t.Context(), logger), t.Context())
			env.WantRequestsInAnyOrder(t, "delete resourcepoolstatusrequests a", "delete resourcepoolstatusrequests b")
			log := logger.GetSink().(ktesting.Underlier).GetBuffer().String()
			if got := strings.Contains(log, "deleting ResourcePoolStatusRequest a: "); got != tc.logged {
				t.Errorf("log:\n%s", log)
			}
		})
	}
}

// Pins RPSR-17, RPSR-19, RPSR-27 and RPSR-29.
func TestAPassAtTheStartAndTenMinutesAfterTheLast(t *testing.T) {
	controllertest.InBubble(func(t *testing.T) {
		env := controllertest.New(t, named("old", 2*time.Hour), named("next", 55*time.Minute))
		c := must.Get(newController(env.Env))(t)
		env.Start(t)
		stop := env.Run(t, c)
		for _, step := range []struct {
			after   time.Duration
			deleted int
		}{{0, 1}, {10*time.Minute - time.Second, 1}, {time.Second, 2}} {
			env.Clock.Step(step.after)
			synctest.Wait()
			if got := len(env.Writes()); got != step.deleted {
				t.Errorf("%d are deleted after %v more, want %d", got, step.after, step.deleted)
			}
		}
		stop()
		env.Clock.Step(time.Hour)
		synctest.Wait()
		if got := len(env.Writes()); got != 2 {
			t.Errorf("%d are deleted after the end", got)
		}
	})(t)
}

// Pins RPSR-27.
func TestAPassEndsWithTheController(t *testing.T) {
	env, c := fixture(t, named("a", 2*time.Hour), named("b", 2*time.Hour), named("c", 2*time.Hour))
	ctx, cancel := context.WithCancel(t.Context())
	env.Intercept("delete resourcepoolstatusrequests", func(clienttesting.Action) error {
		cancel()
		return nil
	})
	c.pass(ctx, t.Context())
	if got := len(env.Writes()); got != 1 {
		t.Errorf("%d requests", got)
	}
}
