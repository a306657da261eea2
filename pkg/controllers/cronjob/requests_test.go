package cronjob

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	typedbatchv1 "k8s.io/client-go/kubernetes/typed/batch/v1"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/test/controllertest"
	"kcmd.dev/test/must"
)

func replacing(cj *batchv1.CronJob) { cj.Spec.ConcurrencyPolicy = batchv1.ReplaceConcurrent }

// eventful is a CronJob, and Jobs of it, for which each kind of request is sent: one Job is beyond the history, one is
// not listed, one is gone, one is replaced, and one is due.
func eventful() []runtime.Object {
	return []runtime.Object{
		cronJob("0 * * * *", limits(0, 0), listing("lost", "old"), replacing, func(cj *batchv1.CronJob) {
			cj.Status.LastSuccessfulTime = &metav1.Time{Time: at("02:30:00")}
		}),
		child("failed", ended(batchv1.JobFailed, at("02:00:00"), time.Time{})), child("stranger"), child("old"),
	}
}

// Pins CRON-8.
func TestRequests(t *testing.T) {
	env, c := fixture(t, eventful()...)
	if err := c.owners.Reconcile(env.Context(), key); err != nil {
		t.Fatal(err)
	}
	for _, action := range env.Fake.Actions() {
		switch a := action.(type) {
		case clienttesting.GetActionImpl:
			if a.GetOptions.ResourceVersion != "" {
				t.Errorf("%s %s is read in version %q, which need not be the newest", a.Resource.Resource, a.Name, a.GetOptions.ResourceVersion)
			}
		case clienttesting.DeleteActionImpl:
			if got := a.DeleteOptions.PropagationPolicy; ptr.Deref(got, "") != metav1.DeletePropagationBackground {
				t.Errorf("job %s is deleted with propagation %v", a.Name, got)
			}
		}
	}
	env.WantRequests(t, "delete jobs failed", "get cronjobs cj", "get jobs lost", "get jobs old", "delete jobs old",
		"create jobs "+due0300, "update cronjobs/status cj")
}

// objectRecorder is a recorder that keeps the objects that events are about.
type objectRecorder struct {
	record.EventRecorder
	all []runtime.Object
}

func (r *objectRecorder) Event(object runtime.Object, kind, reason, message string) {
	r.all = append(r.all, object)
	r.EventRecorder.Event(object, kind, reason, message)
}

// Pins CRON-29.
func TestTheStatusAndWhatEventsAreOf(t *testing.T) {
	env := controllertest.New(t, eventful()...)
	recorder := &objectRecorder{EventRecorder: env.Events}
	env.Env.Events = recorder
	c := must.Get(newController(env.Env, config{concurrentSyncs: 1}))(t)
	env.Start(t)
	if err := c.owners.Reconcile(env.Context(), key); err != nil {
		t.Fatal(err)
	}
	env.WantEvents(t, "Normal SuccessfulDelete Deleted job failed",
		"Warning UnexpectedJob Saw a job that the controller did not create or forgot: stranger",
		"Normal MissingJob Active job went missing: lost", "Normal SuccessfulDelete Deleted job old",
		"Normal SuccessfulCreate Created job "+due0300)
	if len(recorder.all) != 5 {
		t.Errorf("%d events, want 5", len(recorder.all))
	}
	for _, object := range recorder.all {
		if cj, ok := object.(*batchv1.CronJob); !ok || cj.UID != "cj-uid" {
			t.Errorf("an event is of %T", object)
		}
	}
	status := controllertest.MustStored[*batchv1.CronJob](t, env, "ns", "cj").Status
	if len(status.Active) != 1 || status.Active[0].Name != due0300 {
		t.Errorf("active: %v", status.Active)
	}
	status.Active = nil
	want := batchv1.CronJobStatus{
		LastScheduleTime: &metav1.Time{Time: at("03:00:00")}, LastSuccessfulTime: &metav1.Time{Time: at("02:30:00")},
	}
	if diff := cmp.Diff(want, status); diff != "" {
		t.Errorf("status (-want +got):\n%s", diff)
	}
}

// goingAway marks a CronJob as being deleted.
func goingAway(cj *batchv1.CronJob) {
	cj.DeletionTimestamp, cj.Finalizers = &metav1.Time{Time: at("03:00:00")}, []string{"a/b"}
}

// Pins CRON-10.
func TestWhenACronJobIsReconciledAgain(t *testing.T) {
	next := 55*time.Minute + 55*time.Second + 100*time.Millisecond
	for name, tc := range map[string]struct {
		cj   *batchv1.CronJob
		want time.Duration // 0 if only an event causes it
	}{
		"a time was due":        {cronJob("0 * * * *"), next},
		"none is due":           {cronJob("0 * * * *", lastScheduled(at("03:00:00"))), next},
		"it is suspended":       {cronJob("0 * * * *", suspended), 0},
		"it has no schedule":    {cronJob("nonsense"), 0},
		"its time never comes":  {cronJob("0 0 31 2 *"), 0},
		"there is no such zone": {cronJob("0 * * * *", func(cj *batchv1.CronJob) { cj.Spec.TimeZone = ptr.To("No/Where") }), 0},
		"it is being deleted":   {cronJob("0 * * * *", goingAway), 0},
	} {
		t.Run(name, func(t *testing.T) {
			env, c := fixture(t, tc.cj)
			queue := &controllertest.Queue[types.NamespacedName]{Namespace: "ns"}
			c.owners.Queue = queue
			if err := c.owners.Reconcile(env.Context(), key); err != nil {
				t.Fatal(err)
			}
			if got := queue.TakeDelay(key); got != tc.want {
				t.Errorf("it is reconciled in %v, want %v", got, tc.want)
			}
			if got := queue.Take(); tc.want == 0 && len(got) > 0 {
				t.Errorf("queued %q", got)
			}
		})
	}
}

// withoutTimers is a loop that does not wait for the next scheduled time, so that only retries have timers.
type withoutTimers struct {
	*reconcile.Loop[types.NamespacedName]
}

func (withoutTimers) AddAfter(types.NamespacedName, time.Duration) {}

// A failure is retried with backoff; the wait for the next time starts the count of failures over. Pins CRON-10.
func TestAFailureIsRetriedWithBackoff(t *testing.T) {
	env, c := fixture(t, cronJob("0 * * * *"))
	c.owners.Queue = withoutTimers{c.owners.Loop}
	env.RefuseIf("create jobs", errors.New("down"), func(n int) bool { return n <= 3 })
	env.Run(t, c)
	for failures, backoff := range []time.Duration{5 * time.Millisecond, 10 * time.Millisecond, 20 * time.Millisecond} {
		// A running loop always waits for its heartbeat, and for a retry once it is scheduled.
		controllertest.Eventually(t, "it fails", func() bool {
			return c.owners.Loop.Retries(key) == failures+1 && env.Idle() && env.Clock.Waiters() == 2
		})
		env.Clock.Step(backoff - time.Millisecond)
		env.AwaitIdle(t)
		if got := c.owners.Loop.Retries(key); got != failures+1 {
			t.Errorf("it has failed %d times already", got)
		}
		env.Clock.Step(time.Millisecond)
	}
	controllertest.Eventually(t, "the job is created, and the failures are forgotten", func() bool {
		_, created := controllertest.Stored[*batchv1.Job](t, env, "ns", due0300)
		return created && env.Idle() && c.owners.Loop.Retries(key) == 0
	})
}

// A successor finds out by itself what is due, and runs only the last of the times that were missed. Each CronJob is
// reconciled once, however many Jobs of it are replayed. Pins CRON-41.
func TestASuccessorRunsTheLastTimeThatWasMissed(t *testing.T) {
	env, c := fixture(t, cronJob("0 * * * *", lastScheduled(at("03:00:00"))), child("a"), child("b"),
		cronJob("0 * * * *", suspended, func(cj *batchv1.CronJob) { cj.Name, cj.UID = "idle", "idle" }))
	stop := env.Run(t, c)
	env.AwaitIdle(t)
	stop()
	if got := env.Writes(); len(got) > 0 {
		t.Fatalf("wrote %v", got)
	}
	if got := c.owners.Loop.Inspect().Reconciled; got != 2 {
		t.Errorf("two CronJobs were reconciled %d times", got)
	}

	env.Succeed(nil)
	env.Clock.SetTime(at("08:20:00"))
	successor := must.Get(newController(env.Env, config{concurrentSyncs: 1}))(t)
	env.Run(t, successor)
	controllertest.Eventually(t, "the last time is recorded", func() bool {
		last := controllertest.MustStored[*batchv1.CronJob](t, env, "ns", "cj").Status.LastScheduleTime
		return last.Time.Equal(at("08:00:00"))
	})
	var names []string
	for _, job := range controllertest.AllStored[*batchv1.Job](t, env, "ns") {
		names = append(names, job.Name)
	}
	if want := []string{"a", "b", "cj-29455680"}; !slices.Equal(slices.Sorted(slices.Values(names)), want) {
		t.Errorf("jobs: %q, want %q", names, want)
	}
}

// cutOff is a client whose requests to create Jobs are answered when their context ends.
type cutOff struct {
	kubernetes.Interface
	typedbatchv1.BatchV1Interface
	typedbatchv1.JobInterface
	began chan<- struct{}
}

func (c cutOff) BatchV1() typedbatchv1.BatchV1Interface { return c }

func (c cutOff) Jobs(string) typedbatchv1.JobInterface { return c }

func (c cutOff) Create(ctx context.Context, _ *batchv1.Job, _ metav1.CreateOptions) (*batchv1.Job, error) {
	select {
	case c.began <- struct{}{}:
	default: // it has been signalled
	}
	<-ctx.Done()
	return nil, context.Cause(ctx)
}

// Pins CRON-50.
func TestARequestEndsWithTheInstance(t *testing.T) {
	env := controllertest.New(t, cronJob("0 * * * *"))
	began, fenced := make(chan struct{}, 1), make(chan struct{})
	env.Env.Client, env.Env.Fenced = cutOff{Interface: env.Fake, began: began}, fenced
	c := must.Get(newController(env.Env, config{concurrentSyncs: 1}))(t)
	env.Start(t)
	stop := env.Run(t, c)
	controllertest.Eventually(t, "a request is sent", func() bool { return len(began) > 0 })
	close(fenced)
	stop()
	if s := c.owners.Loop.Inspect(); s.Failed != 1 || len(env.Writes()) != 0 {
		t.Errorf("%+v", s)
	}
}

// The retry of a failure may be a quarter of an hour away, when it is too late to start. Pins CRON-69.
func TestACronJobThatFailsIsReconciledAtItsNextTime(t *testing.T) {
	next := 55*time.Minute + 55*time.Second + 100*time.Millisecond
	for name, tc := range map[string]struct {
		cj      *batchv1.CronJob
		refused string
		want    time.Duration // 0 if only the retry follows
	}{
		"its Job is not created":      {cronJob("0 * * * *"), "create jobs", next},
		"its status is not written":   {cronJob("0 * * * *"), "update cronjobs/status", next},
		"a listed Job is not read":    {cronJob("0 * * * *", listing("old")), "get jobs", next},
		"it is suspended":             {cronJob("0 * * * *", listing("old"), suspended), "get jobs", 0},
		"it has no schedule":          {cronJob("nonsense", listing("old")), "get jobs", 0},
		"its time never comes":        {cronJob("0 0 31 2 *", listing("old")), "get jobs", 0},
		"it is deleted with its Jobs": {cronJob("0 * * * *", listing("old"), goingAway), "get jobs", 0},
	} {
		t.Run(name, func(t *testing.T) {
			env, c := fixture(t, tc.cj)
			queue := &controllertest.Queue[types.NamespacedName]{Namespace: "ns"}
			c.owners.Queue = queue
			env.Refuse(tc.refused, errors.New("boom"))
			if err := c.owners.Reconcile(env.Context(), key); err == nil {
				t.Fatal("it succeeded")
			}
			if got := queue.TakeDelay(key); got != tc.want {
				t.Errorf("it is reconciled in %v, want %v", got, tc.want)
			}
		})
	}
}

// What failed may have taken a minute of the wait. Pins CRON-69.
func TestTheNextTimeOfACronJobDoesNotMoveWithTheFailure(t *testing.T) {
	env, c := fixture(t, cronJob("0 * * * *"))
	queue := &controllertest.Queue[types.NamespacedName]{Namespace: "ns"}
	c.owners.Queue = queue
	env.Intercept("create jobs", func(clienttesting.Action) error {
		env.Clock.Step(time.Minute)
		return errors.New("boom")
	})
	begun := env.Clock.Now()
	if err := c.owners.Reconcile(env.Context(), key); err == nil {
		t.Fatal("it succeeded")
	}
	if at := begun.Add(time.Minute + queue.TakeDelay(key)); at.Sub(at.Truncate(time.Hour)) > time.Second {
		t.Errorf("it is reconciled at %v", at)
	}
}
