package clients

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"kcmd.dev/test/await"
)

// One request when it begins, however many clients it has, and one each time the token is renewed. Pins MGR-158.
func TestWhatAnAccountCosts(t *testing.T) {
	s, _, c, clk := acting(t)
	for range 5 {
		mustWrite(t, c)
	}
	if _, got := usedTokens(s); fmt.Sprint(got) != "[POST token]" {
		t.Errorf("the beginning costs %q", got)
	}
	for n := range 3 {
		clk.Step(47 * time.Minute)
		mustWrite(t, c)
		if _, got := usedTokens(s); len(got) > 0 {
			t.Errorf("%d: after 47 minutes: %q", n, got)
		}
		clk.Step(time.Minute + time.Second)
		var cost []string
		await.True(t, "the next token is used", func() bool {
			mustWrite(t, c)
			tokens, requests := usedTokens(s)
			cost = append(cost, requests...)
			return tokens[len(tokens)-1] == fmt.Sprintf("job-controller-%d", n+2)
		})
		if fmt.Sprint(cost) != "[POST token]" {
			t.Errorf("%d: a renewal costs %q", n, cost)
		}
	}
}

// To a machine whose clock is years behind, a token seems to last for years. It is not renewed with each request.
// Pins MGR-48.
func TestATokenThatSeemsToLastForYearsIsKept(t *testing.T) {
	for _, years := range []time.Duration{5, 56, 290} {
		_, a, c, clk := acting(t)
		a.lifetime = years * 365 * 24 * time.Hour
		mustWrite(t, c)
		of := c.accounts.get(jobs.ServiceAccount)
		of.mu.Lock()
		if !of.renewAt.After(clk.Now()) || !of.renewAt.Before(of.expires) {
			t.Errorf("with a clock that is %d years behind, it is renewed at %v, and expires at %v; now is %v", years, of.renewAt, of.expires, clk.Now())
		}
		of.mu.Unlock()
	}
}

// Who may not create the namespace of the accounts relies on somebody else to do so. Pins MGR-140.
func TestAMissingNamespaceMayNotBeCreated(t *testing.T) {
	s, a, c, clk := acting(t)
	a.exists["job-controller"], a.missing = false, true
	s.answer(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.HasSuffix(r.URL.Path, "/namespaces"):
			a.change(func() { a.missing = false })
			refuse(w, http.StatusForbidden)
		default:
			a.answer(w, r)
		}
	})
	if err := whileTimePasses(clk, func() error { return write(t.Context(), t, c) }); err != nil {
		t.Error(err)
	}
	_, got := usedTokens(s)
	if want := []string{"POST token", "POST serviceaccounts", "POST namespaces", "POST serviceaccounts", "POST token"}; !slices.Equal(got, want) {
		t.Errorf("requests %q, want %q", got, want)
	}
}

// Another CA of the API server is used by clients that exist, and what it does not vouch for is refused from then on.
// Pins MGR-124.
func TestAnotherCATakesOver(t *testing.T) {
	r := newRotating(t)
	set := r.set()
	if err := r.write(set); err != nil {
		t.Fatal(err)
	}
	with := func(ca []byte) *Access {
		a := r.access("a", "first")
		config := rest.CopyConfig(a.Config)
		config.CAData = ca
		return &Access{Config: config}
	}
	right := r.access("a", "first").Config.CAData
	wrong, _ := pair(t, "ca", nil, time.Now().Add(time.Hour))
	r.renew(with(wrong))
	if err := r.write(set); err == nil || !strings.Contains(err.Error(), "x509: ") {
		t.Errorf("the certificate of the API server is accepted: %v", err)
	}
	r.renew(with(append(slices.Clone(wrong), right...)))
	if err := r.write(set); err != nil {
		t.Errorf("with both CAs: %v", err)
	}
	r.eventually("one connection is left", func() bool { return r.connections() == 1 })
}
