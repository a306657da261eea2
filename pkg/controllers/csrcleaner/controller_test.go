package csrcleaner

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"
	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/config/v1beta1"
	"kcmd.dev/test/controllertest"
	"kcmd.dev/test/must"
	"kcmd.dev/test/pki"
)

// now is when controllertest's clocks start.
var now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

type edit = func(*certificatesv1.CertificateSigningRequest)

func ago(d time.Duration) metav1.Time { return metav1.NewTime(now.Add(-d)) }

// csr makes a request that was created a minute ago.
func csr(edits ...edit) *certificatesv1.CertificateSigningRequest {
	r := &certificatesv1.CertificateSigningRequest{ObjectMeta: metav1.ObjectMeta{Name: "csr", UID: "uid", CreationTimestamp: ago(time.Minute)}}
	for _, edit := range edits {
		edit(r)
	}
	return r
}

func created(d time.Duration) edit {
	return func(r *certificatesv1.CertificateSigningRequest) { r.CreationTimestamp = ago(d) }
}

func has(kind certificatesv1.RequestConditionType, d time.Duration) edit {
	return func(r *certificatesv1.CertificateSigningRequest) {
		r.Status.Conditions = append(r.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{Type: kind, Status: "True", LastUpdateTime: ago(d)})
	}
}

// undated has the last condition not say when it was updated, and with the status False.
func undated(r *certificatesv1.CertificateSigningRequest) {
	r.Status.Conditions[len(r.Status.Conditions)-1].LastUpdateTime = metav1.Time{}
}

func unmet(r *certificatesv1.CertificateSigningRequest) {
	r.Status.Conditions[len(r.Status.Conditions)-1].Status = "False"
}

func issued(data []byte) edit {
	return func(r *certificatesv1.CertificateSigningRequest) { r.Status.Certificate = data }
}

func TestReason(t *testing.T) {
	const hour, minute = time.Hour, time.Minute
	until := func(end time.Time) []byte {
		return pki.CA(t, now.AddDate(-1, 0, 0), func(c *x509.Certificate) { c.NotAfter = end }).Cert
	}
	valid, stale, garbage := until(now.Add(hour)), until(now.Add(-time.Second)), []byte("garbage")
	untyped := []byte(strings.ReplaceAll(string(stale), "CERTIFICATE", "SOMETHING"))
	for name, tc := range map[string]struct {
		edits []edit
		want  string
	}{
		"CSRC-6: new":                                  {nil, ""},
		"CSRC-7: issued 50 min ago":                    {[]edit{has("Approved", 50*minute), issued(valid)}, ""},
		"CSRC-7: issued an hour ago":                   {[]edit{has("Approved", hour), issued(valid)}, ""},
		"CSRC-7, CSRC-15: issued longer ago":           {[]edit{has("Approved", hour+time.Second), issued(valid)}, issuedLongAgo},
		"CSRC-7: garbage counts as issued":             {[]edit{has("Approved", 2*hour), issued(garbage)}, issuedLongAgo},
		"CSRC-7: any of several approvals":             {[]edit{has("Approved", minute), has("Approved", 2*hour), issued(valid)}, issuedLongAgo},
		"CSRC-7, CSRC-22: by the time of the approval": {[]edit{created(minute), has("Approved", 2*hour), issued(valid)}, issuedLongAgo},
		"CSRC-21: created now, approved long ago":      {[]edit{created(minute), has("Approved", 2*hour), issued(valid)}, issuedLongAgo},
		"CSRC-6: whatever the status of a condition":   {[]edit{has("Approved", 2*hour), unmet, issued(valid)}, issuedLongAgo},
		"CSRC-6: being deleted, of any signer": {[]edit{has("Approved", 2*hour), issued(valid), func(r *certificatesv1.CertificateSigningRequest) {
			r.DeletionTimestamp, r.Spec.SignerName = ptr.To(ago(0)), "example.com/a"
		}}, issuedLongAgo},
		"CSRC-8: denied 50 min ago":                            {[]edit{has("Denied", 50*minute)}, ""},
		"CSRC-8, CSRC-15: denied 2 h ago":                      {[]edit{has("Denied", 2*hour)}, deniedLongAgo},
		"CSRC-9, CSRC-15: failed 2 h ago":                      {[]edit{has("Failed", 2*hour)}, failedLongAgo},
		"CSRC-9, CSRC-18: approved 2 h ago, failed 50 min ago": {[]edit{has("Approved", 2*hour), has("Failed", 50*minute)}, ""},
		"CSRC-9, CSRC-18: approved and failed 2 h ago":         {[]edit{has("Approved", 2*hour), has("Failed", 2*hour)}, failedLongAgo},
		"CSRC-18: approved 25 h ago, failed just now":          {[]edit{has("Approved", 25*hour), has("Failed", minute)}, approvedLongAgo},
		"CSRC-10: pending for 5 h":                             {[]edit{created(5 * hour)}, ""},
		"CSRC-10: pending for 24 h":                            {[]edit{created(24 * hour)}, ""},
		"CSRC-10, CSRC-15: pending for 25 h":                   {[]edit{created(25 * hour)}, pendingTooLong},
		"CSRC-10: issued, and never approved":                  {[]edit{created(25 * hour), issued(valid)}, pendingTooLong},
		"CSRC-16: a condition of another type":                 {[]edit{created(25 * hour), has("Other", 25*hour)}, ""},
		"CSRC-16: issued, without an approval":                 {[]edit{created(2 * hour), has("Other", 25*hour), issued(stale)}, ""},
		"CSRC-11: expired":                                     {[]edit{has("Approved", 50*minute), issued(stale)}, expired},
		"CSRC-11, CSRC-17: expired, approved at no time":       {[]edit{has("Approved", 0), undated, issued(stale)}, expired},
		"CSRC-11: expired, in a block of another type":         {[]edit{has("Approved", 50*minute), issued(untyped)}, expired},
		"CSRC-11: the first of two has expired":                {[]edit{has("Approved", 50*minute), issued(slices.Concat(stale, valid))}, expired},
		"CSRC-11: the second of two has expired":               {[]edit{has("Approved", 50*minute), issued(slices.Concat(valid, stale))}, ""},
		"CSRC-11: garbage does not expire":                     {[]edit{has("Approved", 50*minute), issued(garbage)}, ""},
		"CSRC-11: a block of garbage does not expire":          {[]edit{has("Approved", 50*minute), issued([]byte("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"))}, ""},
		"CSRC-11: an empty block does not expire":              {[]edit{has("Approved", 50*minute), issued([]byte("-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----\n"))}, ""},
		"CSRC-11: expires now":                                 {[]edit{has("Approved", 50*minute), issued(until(now))}, ""},
		"CSRC-12: approved 5 h ago, not issued":                {[]edit{has("Approved", 5*hour)}, ""},
		"CSRC-12, CSRC-15, CSRC-18: approved 25 h ago":         {[]edit{has("Approved", 25*hour)}, approvedLongAgo},
		"CSRC-17: approved at no time":                         {[]edit{created(100 * hour), has("Approved", 0), undated}, ""},
		"CSRC-17: denied at no time":                           {[]edit{created(100 * hour), has("Denied", 0), undated}, ""},
		"CSRC-6: created at no time":                           {[]edit{func(r *certificatesv1.CertificateSigningRequest) { r.CreationTimestamp = metav1.Time{} }}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			if got := reason(csr(tc.edits...), now); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

func start(t *testing.T, objects ...runtime.Object) (*controllertest.Env, *cleaner) {
	t.Helper()
	env := controllertest.New(t, objects...)
	c, err := newCleaner(env.Env)
	must.Succeed(t, err)
	env.Start(t)
	return env, c
}

func named(name string) edit {
	return func(r *certificatesv1.CertificateSigningRequest) {
		r.Name, r.UID, r.ResourceVersion = name, types.UID("uid-of-"+name), "7"
	}
}

// Pins CSRC-4, CSRC-14, CSRC-24 and CSRC-26.
func TestAPassDeletesWhatIsDueWithOneRequestEach(t *testing.T) {
	env, c := start(t, csr(named("denied"), has("Denied", 2*time.Hour)), csr(named("new")), csr(named("pending"), created(25*time.Hour)))
	logger := ktesting.NewLogger(t, ktesting.NewConfig(ktesting.BufferLogs(true)))
	c.pass(klog.NewContext(t.Context(), logger), t.Context())
	deleted := map[string]bool{}
	for _, action := range env.Writes() {
		d, ok := action.(clienttesting.DeleteActionImpl)
		if !ok || *d.DeleteOptions.Preconditions.UID != types.UID("uid-of-"+d.Name) || *d.DeleteOptions.Preconditions.ResourceVersion != "7" {
			t.Errorf("unexpected request: %+v", action)
			continue
		}
		deleted[d.Name] = true
	}
	if len(env.Writes()) != 2 || !deleted["denied"] || !deleted["pending"] {
		t.Errorf("requests: %v", env.Writes())
	}
	log := logger.GetSink().(ktesting.Underlier).GetBuffer().String()
	for _, want := range []string{`Cleaning CSR csr="denied" reason="denied"`, `Cleaning CSR csr="pending" reason="pending"`} {
		if !strings.Contains(log, want) {
			t.Errorf("the log lacks %s:\n%s", want, log)
		}
	}
	if strings.Count(log, "Cleaning CSR") != 2 || len(env.RecordedEvents()) > 0 {
		t.Errorf("log:\n%s", log)
	}
}

func TestWhatCannotBeDeleted(t *testing.T) {
	resource := certificatesv1.Resource("certificatesigningrequests")
	for name, tc := range map[string]struct {
		refusal error
		logged  string
	}{
		"CSRC-26: gone":          {apierrors.NewNotFound(resource, "a"), ""},
		"CSRC-26: changed":       {apierrors.NewConflict(resource, "a", errors.New("the version differs")), ""},
		"CSRC-5: anything else":  {errors.New("boom"), `unable to delete CSR \"a\": boom`},
		"CSRC-5: forbidden, say": {apierrors.NewForbidden(resource, "a", nil), `unable to delete CSR \"a\": certificatesigningrequests`},
	} {
		t.Run(name, func(t *testing.T) {
			env, c := start(t, csr(named("a"), created(25*time.Hour)), csr(named("b"), created(25*time.Hour)))
			env.Fake.PrependReactor("delete", "*", func(action clienttesting.Action) (bool, runtime.Object, error) {
				return action.(clienttesting.DeleteAction).GetName() == "a", nil, tc.refusal
			})
			logger := ktesting.NewLogger(t, ktesting.NewConfig(ktesting.BufferLogs(true)))
			c.pass(klog.NewContext(t.Context(), logger), t.Context())
			if got := len(env.Writes()); got != 2 {
				t.Errorf("%d requests: the pass ends early", got)
			}
			log := logger.GetSink().(ktesting.Underlier).GetBuffer().String()
			if got := strings.Count(log, "Error while attempting to clean CSR"); (got == 1) != (tc.logged != "") || !strings.Contains(log, tc.logged) {
				t.Errorf("log:\n%s", log)
			}
		})
	}
}

// Pins CSRC-3, CSRC-5, CSRC-15, CSRC-23, CSRC-25 and CSRC-27.
func TestAPassAtTheStartAndEveryHourAfterTheLast(t *testing.T) {
	env := controllertest.New(t, csr(named("old"), created(25*time.Hour)), csr(named("next"), created(24*time.Hour-30*time.Minute)))
	c, err := newCleaner(env.Env)
	must.Succeed(t, err)
	exists := func(name string) bool {
		_, err := env.Fake.CertificatesV1().CertificateSigningRequests().Get(t.Context(), name, metav1.GetOptions{})
		return err == nil
	}
	env.Run(t, c) // before the caches are filled
	env.Start(t)
	controllertest.Eventually(t, "the pass at the start", func() bool { return !exists("old") })
	controllertest.Eventually(t, "it waits", env.Clock.HasWaiters)
	env.Clock.Step(time.Hour - time.Second)
	if !env.Clock.HasWaiters() || !exists("next") {
		t.Error("there is a pass before the hour is over")
	}
	env.Clock.Step(time.Second)
	controllertest.Eventually(t, "the pass after an hour", func() bool { return !exists("next") })
}

// No request is begun with once the controller is to stop. Pins CSRC-27.
func TestAPassEndsWithTheController(t *testing.T) {
	var all []runtime.Object
	for n := range 5 {
		all = append(all, csr(named(fmt.Sprint("csr-", n)), created(25*time.Hour)))
	}
	env, c := start(t, all...)
	ctx, cancel := context.WithCancel(t.Context())
	env.Fake.PrependReactor("delete", "*", func(clienttesting.Action) (bool, runtime.Object, error) {
		cancel()
		return false, nil, nil
	})
	c.pass(ctx, t.Context())
	if got := len(env.Writes()); got != 1 {
		t.Errorf("%d requests", got)
	}
}

// Pins CSRC-1 and CSRC-2.
func TestDescriptor(t *testing.T) {
	d := Descriptor()
	cfg := v1beta1.NewDefault()
	if enabled, _ := d.Enabled(cfg); !enabled || d.Name != "certificatesigningrequest-cleaner-controller" || d.Gate != "" ||
		d.ServiceAccount != "certificate-controller" || d.Aliases[0] != "csrcleaner" || d.EventSource != "" {
		t.Errorf("%+v", d)
	}
}
