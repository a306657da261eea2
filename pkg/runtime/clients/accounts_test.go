package clients

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"

	kit "kcmd.dev/pkg/controllers/kit/requests"
)

// accountServer answers like an API server with service accounts. Its tokens are the name
// of the account and a number.
type accountServer struct {
	now func() time.Time

	mu       sync.Mutex
	exists   map[string]bool // by account
	valid    map[string]bool // by token
	created  int
	tokens   int
	refuse   int // code that requests for tokens are answered with; 0: none
	held     chan struct{}
	lifetime time.Duration
	missing  bool // the namespace of the accounts
}

func newAccountServer() *accountServer {
	return &accountServer{now: time.Now, exists: map[string]bool{}, valid: map[string]bool{}, lifetime: time.Hour}
}

func (a *accountServer) answer(w http.ResponseWriter, r *http.Request) {
	isToken := strings.HasSuffix(r.URL.Path, "/token")
	a.mu.Lock()
	held := a.held
	a.mu.Unlock()
	if isToken && held != nil {
		<-held
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case a.missing && strings.Contains(r.URL.Path, "/serviceaccounts"):
		refuse(w, http.StatusNotFound)
	case isToken && a.refuse != 0:
		refuse(w, a.refuse)
	case isToken:
		a.token(w, strings.Split(r.URL.Path, "/")[6])
	case strings.HasSuffix(r.URL.Path, "/serviceaccounts"):
		a.created++
		a.exists["job-controller"], a.exists["c"] = true, true
		reply(w, http.StatusCreated, map[string]any{"apiVersion": "v1", "kind": "ServiceAccount", "metadata": map[string]any{"name": "x"}})
	case strings.HasPrefix(r.Header.Get("Authorization"), "Bearer own"):
		emptyObject(w, r)
	case !a.valid[strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")]:
		refuse(w, http.StatusUnauthorized)
	default:
		emptyObject(w, r)
	}
}

func (a *accountServer) token(w http.ResponseWriter, account string) {
	if gone, known := a.exists[account]; known && !gone {
		refuse(w, http.StatusNotFound)
		return
	}
	a.tokens++
	token := fmt.Sprintf("%s-%d", account, a.tokens)
	a.valid[token] = true
	reply(w, http.StatusCreated, map[string]any{
		"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest",
		"spec":   map[string]any{"expirationSeconds": 3600},
		"status": map[string]any{"token": token, "expirationTimestamp": a.now().Add(a.lifetime).Format(time.RFC3339)},
	})
}

func refuse(w http.ResponseWriter, code int) {
	reasons := map[int]metav1.StatusReason{401: metav1.StatusReasonUnauthorized, 403: metav1.StatusReasonForbidden, 404: metav1.StatusReasonNotFound, 500: metav1.StatusReasonInternalError}
	reply(w, code, metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: "Failure", Reason: reasons[code], Code: int32(code), Message: "no"})
}

func (a *accountServer) change(f func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	f()
}

var jobs = Identity{Name: "job-controller", ServiceAccount: "job-controller"}

// acting are clients of a service account, on a fake clock.
func acting(t *testing.T) (*server, *accountServer, *Clients, *clocktesting.FakeClock) {
	t.Helper()
	s, a := newServer(t), newAccountServer()
	clk := clocktesting.NewFakeClock(time.Now())
	a.now = clk.Now
	s.answer(a.answer)
	return s, a, s.clients(func(o *Options) { o.ServiceAccounts, o.Clock = true, clk }), clk
}

func write(ctx context.Context, t *testing.T, c *Clients) error {
	t.Helper()
	set, err := c.For(jobs, NewFence())
	if err != nil {
		t.Fatal(err)
	}
	_, err = set.Kubernetes.CoreV1().ConfigMaps("ns").Create(ctx, configMap(nil), metav1.CreateOptions{})
	return err
}

func mustWrite(t *testing.T, c *Clients) {
	t.Helper()
	if err := write(t.Context(), t, c); err != nil {
		t.Fatal(err)
	}
}

// usedTokens are the credentials of the requests that are not about tokens.
func usedTokens(s *server) (used []string, bootstrap []string) {
	for _, r := range s.seen() {
		if strings.Contains(r.path, "/configmaps") {
			used = append(used, strings.TrimPrefix(r.authorization, "Bearer "))
			continue
		}
		bootstrap = append(bootstrap, r.method+" "+r.path[strings.LastIndex(r.path, "/")+1:])
	}
	return used, bootstrap
}

// Pins MGR-47, MGR-183 and WL-3.
func TestTokenIsFetchedWithTheFirstRequest(t *testing.T) {
	s, _, c, _ := acting(t)
	for range 3 {
		if _, err := c.For(jobs, NewFence()); err != nil {
			t.Fatal(err)
		}
	}
	if seen := s.seen(); len(seen) != 0 {
		t.Fatalf("creating clients sent %d requests", len(seen))
	}
	for range 3 {
		mustWrite(t, c)
	}
	for _, r := range s.seen() {
		isToken := strings.HasSuffix(r.path, "/token")
		want, suffix := "Bearer job-controller-1", "/system:serviceaccount:kube-system:job-controller"
		if isToken {
			want, suffix = "Bearer own-token", "/kube-controller-manager"
		}
		if r.authorization != want || !strings.HasSuffix(r.userAgent, suffix) {
			t.Errorf("%s %s sent authorization %q, user agent %q", r.method, r.path, r.authorization, r.userAgent)
		}
	}
}

// Pins MGR-45 and MGR-183.
func TestMissingAccountIsMade(t *testing.T) {
	s, a, c, _ := acting(t)
	a.exists["job-controller"] = false
	mustWrite(t, c)
	used, bootstrap := usedTokens(s)
	if want := "[POST token POST serviceaccounts POST token]"; fmt.Sprint(bootstrap) != want || fmt.Sprint(used) != "[job-controller-1]" {
		t.Errorf("requests %v %v, want %s and one write", bootstrap, used, want)
	}
}

// Pins MGR-48 and MGR-169.
func TestTokenIsRenewedInTheBackground(t *testing.T) {
	s, a, c, clk := acting(t)
	mustWrite(t, c)
	s.seen()
	a.change(func() { a.held = make(chan struct{}) })
	clk.Step(49 * time.Minute)
	mustWrite(t, c) // does not wait for the new one
	close(a.held)
	a.change(func() { a.held = nil })
	for used := []string{}; len(used) == 0 || used[len(used)-1] != "job-controller-2"; {
		if t.Context().Err() != nil {
			t.Fatal("the token is not renewed")
		}
		mustWrite(t, c)
		more, _ := usedTokens(s)
		used = append(used, more...)
	}
}

// Pins MGR-49.
func TestRenewalThatFailsKeepsTheOldTokenUntilItExpires(t *testing.T) {
	s, a, c, clk := acting(t)
	mustWrite(t, c)
	s.seen()
	a.change(func() { a.refuse = http.StatusForbidden })
	clk.Step(49 * time.Minute)
	for range 5 {
		mustWrite(t, c)
	}
	clk.Step(12 * time.Minute)
	err := write(t.Context(), t, c)
	if err == nil || !strings.HasSuffix(err.Error(), "requesting a token for service account kube-system/job-controller: no") {
		t.Errorf("without a valid token a write gives %v", err)
	}
	a.change(func() { a.refuse = 0 })
	mustWrite(t, c)
}

// Pins MGR-50 and MGR-169.
func TestRefusedTokenIsReplacedAndTheRequestRepeated(t *testing.T) {
	s, a, c, clk := acting(t)
	mustWrite(t, c)
	s.seen()
	// The account is deleted, and its token with it.
	a.change(func() { a.exists["job-controller"], a.valid["job-controller-1"] = false, false })
	clk.Step(2 * time.Second)
	mustWrite(t, c)
	used, bootstrap := usedTokens(s)
	if fmt.Sprint(used) != "[job-controller-1 job-controller-2]" || fmt.Sprint(bootstrap) != "[POST token POST serviceaccounts POST token]" {
		t.Errorf("sent %v, and %v for the token", used, bootstrap)
	}
}

// A token that is refused as soon as it is there is not asked for again and again.
func TestRefusedNewTokenIsKept(t *testing.T) {
	s, a, c, _ := acting(t)
	mustWrite(t, c)
	s.seen()
	a.change(func() { a.valid["job-controller-1"] = false })
	for range 3 {
		if err := write(t.Context(), t, c); !apierrors.IsUnauthorized(err) {
			t.Errorf("got %v", err)
		}
	}
	if _, bootstrap := usedTokens(s); len(bootstrap) != 0 {
		t.Errorf("%v were sent for a token", bootstrap)
	}
}

// However many wait for a token, it is asked for once, and each waits as long as it wants.
// Pins MGR-46.
func TestWaitersShareOneRequestForAToken(t *testing.T) {
	s, a, c, _ := acting(t)
	a.held = make(chan struct{})
	impatient, cancel := context.WithCancel(t.Context())
	var writes sync.WaitGroup
	gaveUp := make(chan error, 1)
	writes.Go(func() { gaveUp <- write(impatient, t, c) })
	failures := make(chan error, 10)
	for range 10 {
		writes.Go(func() { failures <- write(t.Context(), t, c) })
	}
	cancel()
	if err := <-gaveUp; !errors.Is(err, context.Canceled) {
		t.Errorf("who does not want to wait gets %v", err)
	}
	close(a.held)
	writes.Wait()
	close(failures)
	for err := range failures {
		if err != nil {
			t.Error(err)
		}
	}
	if _, bootstrap := usedTokens(s); len(bootstrap) != 1 {
		t.Errorf("%v were sent, want one request", bootstrap)
	}
}

// whileTimePasses returns what a request that waits for a token returns.
func whileTimePasses(clk *clocktesting.FakeClock, request func() error) error {
	failed := make(chan error, 1)
	go func() { failed <- request() }()
	look := time.NewTicker(time.Millisecond)
	defer look.Stop()
	for {
		select {
		case err := <-failed:
			return err
		case <-look.C:
			if clk.HasWaiters() {
				clk.Step(10 * time.Second)
			}
		}
	}
}

// Pins MGR-47.
func TestTokenIsAskedForAFewTimes(t *testing.T) {
	s, a, c, clk := acting(t)
	a.refuse = http.StatusInternalServerError
	err := whileTimePasses(clk, func() error { return write(t.Context(), t, c) })
	if err == nil || !strings.Contains(err.Error(), "requesting a token") {
		t.Errorf("got %v", err)
	}
	if _, bootstrap := usedTokens(s); len(bootstrap) != tokenAttempts {
		t.Errorf("%d requests, want %d", len(bootstrap), tokenAttempts)
	}
	a.change(func() { a.refuse = 0 })
	mustWrite(t, c)
}

// What is missing is the account and not the object, which nobody has asked for. Pins MGR-193.
func TestAMissingAccountIsNoAnswer(t *testing.T) {
	s, a, c, clk := acting(t)
	a.missing = true
	set, err := c.For(jobs, NewFence())
	if err != nil {
		t.Fatal(err)
	}
	for verb, request := range map[string]func() error{
		"get": func() error {
			_, err := set.Kubernetes.CoreV1().ConfigMaps("ns").Get(t.Context(), "x", metav1.GetOptions{})
			return err
		},
		"delete": func() error {
			return set.Metadata.Resource(configMaps).Namespace("ns").Delete(t.Context(), "x", metav1.DeleteOptions{})
		},
	} {
		t.Run(verb, func(t *testing.T) {
			err := whileTimePasses(clk, request)
			var noToken *TokenError
			if !errors.As(err, &noToken) || apierrors.IsNotFound(err) || apierrors.ReasonForError(err) != metav1.StatusReasonUnknown {
				t.Errorf("the error is %v, of reason %q", err, apierrors.ReasonForError(err))
			}
			if !kit.IsRefusal(err) {
				t.Errorf("a write with the error %v may have been sent", err)
			}
		})
	}
	if used, _ := usedTokens(s); len(used) != 0 {
		t.Errorf("sent with %v", used)
	}
}

// A request that brings its credentials is sent with them, and needs no token of the account. Pins MGR-51.
func TestCredentialsOfARequestAreKept(t *testing.T) {
	var sent []string
	acts := &asAccount{layer: layer{roundTripper(func(req *http.Request) (*http.Response, error) {
		sent = append(sent, req.Header.Get("Authorization"))
		return &http.Response{StatusCode: http.StatusUnauthorized, Body: http.NoBody}, nil
	})}}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://host/api", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer own")
	resp, err := acts.RoundTrip(req)
	if err != nil || resp.Body.Close() != nil || resp.StatusCode != http.StatusUnauthorized {
		t.Errorf("the response is %+v, %v", resp, err)
	}
	if len(sent) != 1 || sent[0] != "Bearer own" {
		t.Errorf("sent with %q", sent)
	}
}
