package cronjob

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"
	_ "time/tzdata"

	"github.com/robfig/cron/v3"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"kcmd.dev/test/controllertest"
	"kcmd.dev/test/must"
)

// at is a time on the day of the tests, a Friday.
func at(clock string) time.Time {
	t, err := time.Parse("2006-01-02 15:04:05", "2026-01-02 "+clock)
	if err != nil {
		panic(err)
	}
	return t
}

func cronJob(schedule string, change ...func(*batchv1.CronJob)) *batchv1.CronJob {
	cj := &batchv1.CronJob{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "cj", UID: "cj-uid", CreationTimestamp: metav1.NewTime(at("02:59:59"))},
		Spec: batchv1.CronJobSpec{
			Schedule: schedule,
			TimeZone: ptr.To("UTC"),
			JobTemplate: batchv1.JobTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"l": "1"}, Annotations: map[string]string{"a": "2"}, Finalizers: []string{"x/y"}},
			},
		},
	}
	for _, c := range change {
		c(cj)
	}
	return cj
}

func lastScheduled(t time.Time) func(*batchv1.CronJob) {
	return func(cj *batchv1.CronJob) { cj.Status.LastScheduleTime = &metav1.Time{Time: t} }
}

func startWithin(seconds int64) func(*batchv1.CronJob) {
	return func(cj *batchv1.CronJob) { cj.Spec.StartingDeadlineSeconds = &seconds }
}

// Pins CRON-12.
func TestParse(t *testing.T) {
	s := newSchedules()
	for text, problem := range map[string]string{
		"*/5 * * * *": "", "@hourly": "", "@every 1h": "", "TZ=Europe/Berlin 0 6 * * *": "",
		"nonsense":              "expected exactly 5 fields",
		"TZ=0":                  "invalid schedule format: ",
		"* * * * * *":           "expected exactly 5 fields",
		"61 * * * *":            "above maximum",
		"TZ=No/Where * * * * *": "provided bad location",
	} {
		_, err := s.parse(text)
		if (problem == "") != (err == nil) || (err != nil && !strings.Contains(err.Error(), problem)) {
			t.Errorf("%q: got %v, want %q", text, err, problem)
		}
		if _, again := s.parse(text); (again == nil) != (err == nil) {
			t.Errorf("%q: the second time %v", text, again)
		}
	}
}

// Pins CRON-62.
func TestLongSchedulesAreNotKept(t *testing.T) {
	s := newSchedules()
	for _, text := range []string{"0 * * * *", strings.Repeat("1,", 1000) + "1 * * * *"} {
		if _, err := s.parse(text); err != nil {
			t.Fatal(err)
		}
	}
	if len(s.parsed) != 1 || s.parsed["0 * * * *"] == nil {
		t.Errorf("%d schedules are kept", len(s.parsed))
	}
}

// Pins CRON-11.
func TestEffective(t *testing.T) {
	for name, tc := range map[string]struct {
		schedule string
		zone     *string
		want     string
	}{
		"no zone":              {"0 6 * * *", nil, "0 6 * * *"},
		"zone":                 {"0 6 * * *", ptr.To("Asia/Tokyo"), "TZ=Asia/Tokyo 0 6 * * *"},
		"unknown zone":         {"0 6 * * *", ptr.To("No/Where"), "0 6 * * *"},
		"zone in the schedule": {"CRON_TZ=UTC 0 6 * * *", ptr.To("Asia/Tokyo"), "CRON_TZ=UTC 0 6 * * *"},
	} {
		if got := effective(&batchv1.CronJobSpec{Schedule: tc.schedule, TimeZone: tc.zone}); got != tc.want {
			t.Errorf("%s: %q", name, got)
		}
	}
}

// Pins CRON-13a.
func TestEarliest(t *testing.T) {
	now := at("10:00:00")
	for name, tc := range map[string]struct {
		cj       *batchv1.CronJob
		deadline bool
		want     time.Time
	}{
		"created":                       {cronJob(""), true, at("02:59:59")},
		"last schedule":                 {cronJob("", lastScheduled(at("05:00:00"))), true, at("05:00:00")},
		"deadline":                      {cronJob("", startWithin(60)), true, at("09:59:00")},
		"deadline longer than all time": {cronJob("", startWithin(86400)), true, at("02:59:59")},
		"CRON-57: deadline longer than a duration": {cronJob("", startWithin(9999999999)), true, at("02:59:59")},
		"deadline not asked for":                   {cronJob("", startWithin(60)), false, at("02:59:59")},
	} {
		if got := earliest(tc.cj, now, tc.deadline); !got.Equal(tc.want) {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestMostRecent(t *testing.T) {
	for name, tc := range map[string]struct {
		schedule  string
		from, now time.Time
		want      time.Time // zero: none
		missed    missed
		err       error
	}{
		"CRON-13b: no time has come yet":                         {"0 * * * *", at("03:00:00"), at("03:59:59"), time.Time{}, missedNone, nil},
		"CRON-13b: a time has come exactly now":                  {"0 * * * *", at("03:00:00"), at("04:00:00"), at("04:00:00"), missedNone, nil},
		"CRON-13b: one time has come":                            {"0 * * * *", at("03:00:00"), at("04:30:00"), at("04:00:00"), missedNone, nil},
		"CRON-13d: two times have come":                          {"0 * * * *", at("03:00:00"), at("05:30:00"), at("05:00:00"), missedFew, nil},
		"CRON-13d, CRON-31: a hundred times have come":           {"* * * * *", at("03:00:00"), at("04:40:30"), at("04:40:00"), missedFew, nil},
		"CRON-13d, CRON-31: more than a hundred times have come": {"* * * * *", at("03:00:00"), at("04:41:30"), at("04:41:00"), missedMany, nil},
		"CRON-13d: every 30 seconds":                             {"@every 30s", at("03:00:00"), at("03:01:10"), at("03:01:00"), missedFew, nil},
		"CRON-13c: never":                                        {"0 0 31 2 *", at("03:00:00"), at("04:00:00"), time.Time{}, missedNone, errTooDense},
		// Friday evening to Monday morning: the gap of the first two says nothing.
		"CRON-13d: over a weekend": {"*/5 9-17 * * 1-5", at("17:40:00"), at("17:40:00").Add(40 * time.Hour), time.Time{}, missedMany, nil},
	} {
		t.Run(name, func(t *testing.T) {
			schedule := must.Get(newSchedules().parse("TZ=UTC " + tc.schedule))(t)
			got, count, err := mostRecent(schedule, tc.from, tc.now)
			if !errors.Is(err, tc.err) || count != tc.missed {
				t.Errorf("missed %v, error %v", count, err)
			}
			if (got == nil) != tc.want.IsZero() || (got != nil && !got.Equal(tc.want)) {
				t.Errorf("got %v, want %v", got, tc.want)
			}
		})
	}
}

// countedSchedule counts how many times were asked for.
type countedSchedule struct {
	cron.Schedule
	asked int
}

func (s *countedSchedule) Next(after time.Time) time.Time {
	s.asked++
	return s.Schedule.Next(after)
}

// Pins CRON-65.
func TestALastTimeOfAnotherMillenniumIsNotCountedFrom(t *testing.T) {
	long, now := time.Date(1000, 2, 3, 4, 5, 0, 0, time.UTC), at("10:00:30")
	daily := must.Get(newSchedules().parse("TZ=UTC 0 6 * * *"))(t)
	counted := &countedSchedule{Schedule: daily}
	recent, count, err := mostRecent(counted, long, now)
	if err != nil || count != missedMany || recent == nil || !recent.Equal(at("06:00:00")) {
		t.Errorf("got %v, missed %v, %v", recent, count, err)
	}
	if counted.asked > 10 {
		t.Errorf("evaluates %d times", counted.asked)
	}
	if got := inPhase(long, now, 24*time.Hour); !got.Equal(at("04:05:00")) {
		t.Errorf("a constant delay goes on from %v", got)
	}
}

func TestDueWithADeadline(t *testing.T) {
	hourly := lastScheduled(at("03:00:00"))
	for name, tc := range map[string]struct {
		schedule string
		cj       *batchv1.CronJob
		now      time.Time
		want     time.Time // zero: none
	}{
		"CRON-14: in time":                               {"0 * * * *", cronJob("", hourly, startWithin(60)), at("04:00:01"), at("04:00:00")},
		"CRON-13a: too late":                             {"0 * * * *", cronJob("", hourly, startWithin(60)), at("04:02:00"), time.Time{}},
		"CRON-60: a constant delay":                      {"@every 1h", cronJob("", hourly, startWithin(60)), at("04:00:01"), at("04:00:00")},
		"CRON-60: a constant delay, too late":            {"@every 1h", cronJob("", hourly, startWithin(60)), at("04:02:00"), time.Time{}},
		"CRON-60: a constant delay, exactly too late":    {"@every 1h", cronJob("", hourly, startWithin(60)), at("04:01:00"), time.Time{}},
		"CRON-60: a constant delay, after many":          {"@every 1h", cronJob("", hourly, startWithin(60)), at("09:00:30"), at("09:00:00")},
		"CRON-60: a constant delay, shorter":             {"@every 7m", cronJob("", hourly, startWithin(1200)), at("04:00:00"), at("03:56:00")},
		"CRON-60: a constant delay, first":               {"@every 1h", cronJob("", startWithin(60)), at("03:59:59"), at("03:59:59")},
		"CRON-60: a constant delay, longer than all was": {"@every 1h", cronJob("", startWithin(86400)), at("05:00:00"), at("04:59:59")},
	} {
		t.Run(name, func(t *testing.T) {
			schedule := must.Get(newSchedules().parse("TZ=UTC " + tc.schedule))(t)
			got, _, err := due(tc.cj, schedule, tc.now)
			if err != nil || (got == nil) != tc.want.IsZero() || got != nil && !got.Equal(tc.want) {
				t.Errorf("got %v, %v, want %v", got, err, tc.want)
			}
		})
	}
}

// Pins CRON-15 and CRON-31.
func TestUntilNext(t *testing.T) {
	for name, tc := range map[string]struct {
		cj   *batchv1.CronJob
		now  time.Time
		want time.Duration
	}{
		"first run ahead":     {cronJob("0 * * * *"), at("02:59:59").Add(500 * time.Millisecond), 500*time.Millisecond + padding},
		"after a run":         {cronJob("0 * * * *", lastScheduled(at("05:00:00"))), at("05:00:10"), time.Hour - 10*time.Second + padding},
		"a run is due":        {cronJob("0 * * * *", lastScheduled(at("05:00:00"))), at("06:10:00"), 50*time.Minute + padding},
		"deadline is ignored": {cronJob("0 * * * *", lastScheduled(at("05:00:00")), startWithin(1)), at("06:10:00"), 50*time.Minute + padding},
		"never":               {cronJob("0 0 31 2 *"), at("04:00:00"), time.Time{}.Add(padding).Sub(at("04:00:00"))},
	} {
		schedule := must.Get(newSchedules().parse(effective(&tc.cj.Spec)))(t)
		if got := untilNext(tc.cj, schedule, tc.now); got != tc.want {
			t.Errorf("%s: got %v, want %v", name, got, tc.want)
		}
	}
}

// Pins CRON-25, CRON-26 and CRON-57.
func TestIsProcessedAndTooLate(t *testing.T) {
	scheduled := at("05:00:00")
	active := func(name string) func(*batchv1.CronJob) {
		return func(cj *batchv1.CronJob) { cj.Status.Active = []corev1.ObjectReference{{Name: name}} }
	}
	for name, tc := range map[string]struct {
		cj   *batchv1.CronJob
		want bool
	}{
		"fresh":                {cronJob(""), false},
		"its job is active":    {cronJob("", active(jobName(cronJob(""), scheduled))), true},
		"another is active":    {cronJob("", active("cj-1")), false},
		"it was the last time": {cronJob("", lastScheduled(scheduled)), true},
		"last time was before": {cronJob("", lastScheduled(at("04:00:00"))), false},
	} {
		if got := isProcessed(tc.cj, scheduled); got != tc.want {
			t.Errorf("%s: %v", name, got)
		}
	}
	if isTooLate(cronJob(""), scheduled, at("23:00:00")) || isTooLate(cronJob("", startWithin(10)), scheduled, at("05:00:10")) ||
		!isTooLate(cronJob("", startWithin(10)), scheduled, at("05:00:11")) {
		t.Error("the starting deadline is inclusive and optional")
	}
	if isTooLate(cronJob("", startWithin(9999999999)), scheduled, at("23:00:00")) {
		t.Error("a starting deadline that never comes has passed")
	}
}

// Pins CRON-55.
func TestUnrecorded(t *testing.T) {
	five := child("cj-29455500", createdFor(at("05:00:00")))
	six := child("cj-29455560", createdFor(at("06:00:00").In(time.FixedZone("", 3600))))
	for name, tc := range map[string]struct {
		cj   *batchv1.CronJob
		jobs []*batchv1.Job
		want []string
	}{
		"none was recorded":           {cronJob(""), []*batchv1.Job{five}, []string{five.Name}},
		"the one before was recorded": {cronJob("", lastScheduled(at("04:00:00"))), []*batchv1.Job{five}, []string{five.Name}},
		"two were not recorded":       {cronJob("", lastScheduled(at("04:00:00"))), []*batchv1.Job{six, five}, []string{five.Name, six.Name}},
		"it was recorded":             {cronJob("", lastScheduled(at("05:00:00"))), []*batchv1.Job{five}, nil},
		"the next was recorded":       {cronJob("", lastScheduled(at("06:00:00"))), []*batchv1.Job{five}, nil},
		"it is listed":                {cronJob("", listing(five.Name)), []*batchv1.Job{five}, nil},
		"CRON-67: it has finished": {
			cronJob(""), []*batchv1.Job{child(five.Name, createdFor(at("05:00:00")), ended(batchv1.JobFailed, at("05:00:00"), time.Time{}))}, []string{five.Name},
		},
		"its time has not come":        {cronJob(""), []*batchv1.Job{child("cj-29455860", createdFor(at("11:00:00")))}, nil},
		"it is a copy of another name": {cronJob(""), []*batchv1.Job{child("copy", createdFor(at("05:00:00")))}, nil},
		"it has no annotation":         {cronJob(""), []*batchv1.Job{child(five.Name)}, nil},
		"its annotation is not a time": {cronJob(""), []*batchv1.Job{child(five.Name, func(j *batchv1.Job) {
			j.Annotations = map[string]string{batchv1.CronJobScheduledTimestampAnnotation: "5"}
		})}, nil},
	} {
		if got := controllertest.Names(unrecorded(tc.cj, tc.jobs, at("10:00:00"))); !slices.Equal(got, tc.want) {
			t.Errorf("%s: %q", name, got)
		}
	}
}

// The time of a Job whose start was not recorded is written in UTC, the schedule is in the time zone of the process.
// Pins CRON-11 and CRON-55.
func TestAnUnrecordedTimeIsInTheZoneOfTheProcess(t *testing.T) {
	was := time.Local
	time.Local = time.FixedZone("JST", 9*60*60)
	t.Cleanup(func() { time.Local = was })
	begun := at("03:00:00").Add(-11 * time.Hour) // at one o'clock in that zone, as the schedule says
	cj := cronJob("0 1 * * *", func(cj *batchv1.CronJob) { cj.Spec.TimeZone = nil })
	job := must.Get(newJob(cj, begun))(t)
	job.UID = "begun"
	env, c := fixture(t, cj, job)
	if err := c.owners.Reconcile(env.Context(), key); err != nil {
		t.Fatal(err)
	}
	env.WantRequests(t, "get cronjobs cj", "update cronjobs/status cj")
}

// Pins CRON-27a.
func TestNewJob(t *testing.T) {
	cj := cronJob("0 * * * *", func(cj *batchv1.CronJob) { cj.Spec.TimeZone = ptr.To("Asia/Tokyo") })
	job := must.Get(newJob(cj, at("05:00:00")))(t)
	if job.Name != "cj-29455500" || job.Namespace != "ns" || job.Labels["l"] != "1" || job.Annotations["a"] != "2" || len(job.Finalizers) != 0 {
		t.Errorf("metadata: %+v", job.ObjectMeta)
	}
	if got := job.Annotations[batchv1.CronJobScheduledTimestampAnnotation]; got != "2026-01-02T14:00:00+09:00" {
		t.Errorf("scheduled timestamp: %s", got)
	}
	owner := metav1.GetControllerOf(job)
	if owner == nil || owner.UID != "cj-uid" || owner.Kind != "CronJob" || owner.APIVersion != "batch/v1" || !*owner.BlockOwnerDeletion {
		t.Errorf("owner: %+v", owner)
	}
	if len(cj.Spec.JobTemplate.Annotations) != 1 {
		t.Error("the template was changed")
	}
	cj.Spec.TimeZone = nil
	if job, _ = newJob(cj, at("05:00:00")); job.Annotations[batchv1.CronJobScheduledTimestampAnnotation] != "2026-01-02T05:00:00Z" {
		t.Errorf("without a zone: %v", job.Annotations)
	}
}
