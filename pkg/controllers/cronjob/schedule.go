package cronjob

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"time"

	"github.com/robfig/cron/v3"
	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// tooMany is the number of missed times above which a warning is recorded.
	tooMany = 100
	// padding is added to each delay, so that the scheduled time has passed when it ends.
	padding = 100 * time.Millisecond
)

// missed is how many scheduled times have passed without a run.
type missed int

const (
	missedNone missed = iota
	missedFew
	missedMany
)

var errTooDense = errors.New("time difference between two schedules is less than 1 second")

// schedules caches parsed schedules: most reconciles of a CronJob see the same one.
type schedules struct {
	mu     sync.Mutex
	parsed map[string]cron.Schedule
}

const (
	// maxParsed is the size of the cache, which is emptied when it is full.
	maxParsed = 10_000
	// maxText is the length of the longest text that is cached. Users may write lists of any length.
	maxText = 256
)

func newSchedules() *schedules { return &schedules{parsed: map[string]cron.Schedule{}} }

// parse returns the schedule of an effective schedule string, see effective.
func (s *schedules) parse(text string) (schedule cron.Schedule, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if known, ok := s.parsed[text]; ok {
		return known, nil
	}
	defer func() { // the parser panics on some malformed time zones
		if r := recover(); r != nil {
			schedule, err = nil, fmt.Errorf("invalid schedule format: %v", r)
		}
	}()
	schedule, err = cron.ParseStandard(text)
	if err != nil {
		return nil, err
	}
	if len(text) > maxText {
		return schedule, nil
	}
	if len(s.parsed) >= maxParsed {
		clear(s.parsed)
	}
	s.parsed[text] = schedule
	return schedule, nil
}

// namesZone reports whether a schedule names a time zone itself, which is not officially
// supported and takes precedence over spec.timeZone.
func namesZone(spec *batchv1.CronJobSpec) bool { return strings.Contains(spec.Schedule, "TZ") }

// effective returns the schedule with the time zone of the spec. Without a valid one, the time
// zone of the process applies.
func effective(spec *batchv1.CronJobSpec) string {
	if namesZone(spec) || spec.TimeZone == nil {
		return spec.Schedule
	}
	if _, err := time.LoadLocation(*spec.TimeZone); err != nil {
		return spec.Schedule
	}
	return "TZ=" + *spec.TimeZone + " " + spec.Schedule
}

// earliest returns the time after which scheduled times count. With deadline, it excludes those
// that are too late to start.
func earliest(cj *batchv1.CronJob, now time.Time, deadline bool) time.Time {
	from := cj.CreationTimestamp.Time
	if cj.Status.LastScheduleTime != nil {
		from = cj.Status.LastScheduleTime.Time
	}
	if deadline && cj.Spec.StartingDeadlineSeconds != nil {
		if limit := now.Add(-startingDeadline(cj)); limit.After(from) {
			return limit
		}
	}
	return from
}

// maxSeconds is the number of seconds that fit in a time.Duration.
const maxSeconds = int64(math.MaxInt64 / time.Second)

func startingDeadline(cj *batchv1.CronJob) time.Duration {
	return time.Duration(min(*cj.Spec.StartingDeadlineSeconds, maxSeconds)) * time.Second
}

// mostRecent returns the newest scheduled time after from and not after now, nil if there is
// none, and how many have passed. If there are many, it evaluates only the last ones, whose
// position it estimates from the interval between the first two.
func mostRecent(schedule cron.Schedule, from, now time.Time) (*time.Time, missed, error) {
	first := schedule.Next(from)
	second := schedule.Next(first)
	if now.Before(first) {
		return nil, missedNone, nil
	}
	if now.Before(second) {
		return &first, missedNone, nil
	}
	gap := int64(math.Round(second.Sub(first).Seconds()))
	if gap < 1 {
		return nil, missedNone, errTooDense
	}
	passed := secondsBetween(first, now)/gap + 1
	var recent *time.Time
	for t := schedule.Next(plusSeconds(first, (passed-2)*gap)); !t.After(now) && !t.IsZero(); t = schedule.Next(t) {
		recent = &t
	}
	if passed > tooMany {
		return recent, missedMany, nil
	}
	return recent, missedFew, nil
}

// due returns the scheduled time whose Job is to be started now, nil if there is none.
func due(cj *batchv1.CronJob, schedule cron.Schedule, now time.Time) (*time.Time, missed, error) {
	from := earliest(cj, now, true)
	if every, ok := schedule.(cron.ConstantDelaySchedule); ok {
		from = inPhase(earliest(cj, now, false), from, every.Delay)
	}
	recent, count, err := mostRecent(schedule, from, now)
	if err != nil || recent == nil || recent.After(now) {
		return nil, count, err
	}
	return recent, count, nil
}

// inPhase returns the last time up to limit that is a multiple of the delay after begin. The times of a schedule with a
// constant delay depend on where it begins. If it began at a limit that moves with the clock, no time would ever come.
func inPhase(begin, limit time.Time, delay time.Duration) time.Time {
	passed := secondsBetween(begin, limit)
	return plusSeconds(begin, passed-passed%int64(delay/time.Second))
}

// secondsBetween returns the whole seconds from one time to a later one. Scheduled times are whole seconds. A duration
// ends at 292 years, and anybody may have written the time of the last run.
func secondsBetween(from, to time.Time) int64 { return to.Unix() - from.Unix() }

// plusSeconds adds a number of seconds to a time, however many.
func plusSeconds(t time.Time, seconds int64) time.Time {
	return time.Unix(t.Unix()+seconds, 0).In(t.Location())
}

// untilNext returns the delay until the next scheduled time.
func untilNext(cj *batchv1.CronJob, schedule cron.Schedule, now time.Time) time.Duration {
	from := earliest(cj, now, false)
	recent, count, err := mostRecent(schedule, from, now)
	base := now
	switch {
	case err != nil:
	case recent != nil:
		base = *recent
	case count == missedNone:
		base = from
	}
	return schedule.Next(base).Add(padding).Sub(now)
}

// jobName returns the name of the Job of a scheduled time. It is derived from the time, so that
// no time is run twice.
func jobName(cj *batchv1.CronJob, scheduled time.Time) string {
	return fmt.Sprintf("%s-%d", cj.Name, scheduled.Unix()/60)
}

// isProcessed reports whether the Job of a scheduled time has already been started.
func isProcessed(cj *batchv1.CronJob, scheduled time.Time) bool {
	for _, active := range cj.Status.Active {
		if active.Name == jobName(cj, scheduled) {
			return true
		}
	}
	last := cj.Status.LastScheduleTime
	return last != nil && last.Equal(&metav1.Time{Time: scheduled})
}

// scheduledTime returns the scheduled time that a Job was created for, zero if it was created
// otherwise. Like every time that is read from the API server it is in the time zone of the process, which is that of a
// schedule that names none.
func scheduledTime(cj *batchv1.CronJob, job *batchv1.Job) time.Time {
	scheduled, err := time.Parse(time.RFC3339, job.Annotations[batchv1.CronJobScheduledTimestampAnnotation])
	if err != nil || job.Name != jobName(cj, scheduled) {
		return time.Time{}
	}
	return scheduled.Local()
}

// isTooLate reports whether the starting deadline of a scheduled time has passed.
func isTooLate(cj *batchv1.CronJob, scheduled, now time.Time) bool {
	return cj.Spec.StartingDeadlineSeconds != nil && scheduled.Add(startingDeadline(cj)).Before(now)
}
