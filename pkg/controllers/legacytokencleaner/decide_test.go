package legacytokencleaner

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var (
	// epoch is when controllertest's clocks start.
	epoch = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	// cutoff is a period of ten days before that.
	cutoff = epoch.Add(-period)
)

const period = 10 * 24 * time.Hour

// secret is that of a generated token which was made long ago and never used.
func secret(change ...func(*corev1.Secret)) *corev1.Secret {
	s := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "ns", Name: "robot-token", UID: "uid", ResourceVersion: "7",
			CreationTimestamp: metav1.NewTime(cutoff.Add(-time.Hour)),
			Annotations:       map[string]string{corev1.ServiceAccountNameKey: "robot", corev1.ServiceAccountUIDKey: "account-uid"},
			Labels:            map[string]string{},
		},
		Type: corev1.SecretTypeServiceAccountToken,
		Data: map[string][]byte{corev1.ServiceAccountTokenKey: []byte("keep-me-out-of-logs")},
	}
	for _, c := range change {
		c(s)
	}
	return s
}

func label(key, value string) func(*corev1.Secret) {
	return func(s *corev1.Secret) { s.Labels[key] = value }
}

func lastUsed(day string) func(*corev1.Secret) {
	return label("kubernetes.io/legacy-token-last-used", day)
}
func invalidSince(day string) func(*corev1.Secret) {
	return label("kubernetes.io/legacy-token-invalid-since", day)
}

// account lists the generated token.
func account(change ...func(*corev1.ServiceAccount)) *corev1.ServiceAccount {
	a := &corev1.ServiceAccount{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "robot", UID: "account-uid"},
		Secrets:    []corev1.ObjectReference{{Name: "other"}, {Name: "robot-token"}},
	}
	for _, c := range change {
		c(a)
	}
	return a
}

func TestTrackedFrom(t *testing.T) {
	for name, test := range map[string]struct {
		data map[string]string
		want time.Time
		err  string
	}{
		"LSAT-14, LSAT-30: the day after":      {map[string]string{"since": "2025-12-31"}, time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), ""},
		"LSAT-14: no data":                     {nil, time.Time{}, "it has no key since"},
		"LSAT-14: another key":                 {map[string]string{"until": "2025-12-31"}, time.Time{}, "it has no key since"},
		"LSAT-14: a day with something behind": {map[string]string{"since": "2022-12-27-1"}, time.Time{}, `parsing since: parsing time "2022-12-27-1": extra text: "-1"`},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := trackedFrom(&corev1.ConfigMap{Data: test.data})
			if test.err != "" {
				if err == nil || err.Error() != test.err {
					t.Errorf("the error is %v", err)
				}
				return
			}
			if err != nil || !got.Equal(test.want) {
				t.Errorf("got %v, %v", got, err)
			}
		})
	}
}

func TestUnused(t *testing.T) {
	created := func(at time.Time) func(*corev1.Secret) {
		return func(s *corev1.Secret) { s.CreationTimestamp = metav1.NewTime(at) }
	}
	for name, test := range map[string]struct {
		secret *corev1.Secret
		want   bool
		fails  bool
	}{
		"LSAT-17d: never used":                         {secret(), true, false},
		"LSAT-17a: another type":                       {secret(func(s *corev1.Secret) { s.Type = corev1.SecretTypeOpaque }), false, false},
		"LSAT-17b: made after the cutoff":              {secret(created(cutoff.Add(time.Second))), false, false},
		"LSAT-17b, LSAT-26: made at the cutoff":        {secret(created(cutoff)), false, false},
		"LSAT-17b: made before the cutoff":             {secret(created(cutoff.Add(-time.Second))), true, false},
		"LSAT-17c: being deleted":                      {secret(func(s *corev1.Secret) { s.DeletionTimestamp = &metav1.Time{Time: epoch} }), false, false},
		"LSAT-17d: used before the cutoff":             {secret(lastUsed("2025-12-22")), true, false},
		"LSAT-17d, LSAT-26: used on the day of cutoff": {secret(lastUsed("2025-12-23")), false, false},
		"LSAT-17d: used today":                         {secret(lastUsed("2026-01-02")), false, false},
		"LSAT-17d, LSAT-28: an empty day":              {secret(lastUsed("")), false, true},
		"LSAT-25: a day with something behind":         {secret(lastUsed("2022-12-27-1")), false, true},
		"LSAT-22: used after it was made invalid":      {secret(invalidSince("2025-01-01"), lastUsed("2026-01-01")), false, false},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := unused(test.secret, cutoff)
			if got != test.want || (err != nil) != test.fails {
				t.Errorf("got %v, %v", got, err)
			}
		})
	}
}

func TestNextStep(t *testing.T) {
	for name, test := range map[string]struct {
		secret *corev1.Secret
		want   step
	}{
		"LSAT-18: no label":                    {secret(), invalidate},
		"LSAT-18, LSAT-22: an empty label":     {secret(invalidSince("")), invalidate},
		"LSAT-25: a day with something behind": {secret(invalidSince("2022-12-29-1")), invalidate},
		"LSAT-19: since the day of the cutoff": {secret(invalidSince("2025-12-23")), wait},
		"LSAT-19: since later":                 {secret(invalidSince("2026-01-02")), wait},
		"LSAT-19: since before the cutoff":     {secret(invalidSince("2025-12-22")), remove},
	} {
		t.Run(name, func(t *testing.T) {
			if got := nextStep(test.secret, cutoff); got != test.want {
				t.Errorf("got %v, want %v", got, test.want)
			}
		})
	}
}

func TestGenerated(t *testing.T) {
	uid := func(uid string) func(*corev1.Secret) {
		return func(s *corev1.Secret) { s.Annotations[corev1.ServiceAccountUIDKey] = uid }
	}
	for name, test := range map[string]struct {
		secret  *corev1.Secret
		account *corev1.ServiceAccount
		want    bool
	}{
		"LSAT-17f: listed":            {secret(), account(), true},
		"LSAT-17f: not listed":        {secret(), account(func(a *corev1.ServiceAccount) { a.Secrets = a.Secrets[:1] }), false},
		"LSAT-17f: nothing is listed": {secret(), account(func(a *corev1.ServiceAccount) { a.Secrets = nil }), false},
		"LSAT-17e: another account":   {secret(uid("other")), account(), false},
		"LSAT-17e: no UID":            {secret(uid("")), account(), true},
	} {
		t.Run(name, func(t *testing.T) {
			if got := generated(test.secret, test.account); got != test.want {
				t.Errorf("got %v", got)
			}
		})
	}
}

// Pins LSAT-12.
func TestDaysAreThoseOfUTC(t *testing.T) {
	if got := dayOf(time.Date(2026, 1, 2, 23, 30, 0, 0, time.FixedZone("", -3600))); got != "2026-01-03" {
		t.Errorf("got %s", got)
	}
}
