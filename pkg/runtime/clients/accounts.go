package clients

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
)

// Lifetime of tokens, as upstream's.
const (
	tokenLifetime = time.Hour
	// minTokenLifetime is the assumed minimum lifetime of a token: a shorter one means that
	// the clocks of this machine and of the API server differ.
	minTokenLifetime = 10 * time.Minute
	// renewAfter is the part of its life after which a token is renewed, in percent.
	renewAfter = 80
	// renewRetry is when a renewal that failed is tried again while the old token is good.
	renewRetry = 10 * time.Second
	// tokenAttempts are made with growing pauses, beginning with tokenPause, before requests
	// that wait for a token fail.
	tokenAttempts = 4
	tokenPause    = 500 * time.Millisecond
	// minTokenAge is the minimum age of a token that is replaced after a rejection: if a new
	// token is rejected, another one will not help.
	minTokenAge = time.Second
)

// accounts are the service accounts that controllers act as. No request is sent before the
// first request of an account: creating clients never waits for the API server.
type accounts struct {
	core  corev1client.CoreV1Interface // with the credentials of the process
	clock clock.Clock

	// life ends, through end, requests for tokens that are under way.
	life context.Context
	end  context.CancelFunc

	mu     sync.Mutex
	byName map[string]*account
}

func newAccounts(core corev1client.CoreV1Interface, c clock.Clock) *accounts {
	a := &accounts{core: core, clock: c, byName: map[string]*account{}}
	a.life, a.end = context.WithCancel(context.Background())
	return a
}

// get returns the one account of a name. All Sets share its token.
func (a *accounts) get(name string) *account {
	a.mu.Lock()
	defer a.mu.Unlock()
	found, ok := a.byName[name]
	if !ok {
		found = &account{accounts: a, name: name}
		a.byName[name] = found
	}
	return found
}

// account holds the token of one service account.
type account struct {
	*accounts
	name string

	mu       sync.Mutex
	token    string // empty: there is none
	fetched  time.Time
	renewAt  time.Time
	expires  time.Time
	fetching *fetch // nil if none is under way
}

// fetch is one attempt to get a token. All requests that need the token wait for it.
type fetch struct {
	done chan struct{}
	err  error // valid after done is closed, a TokenError
}

var errTokenLost = errors.New("the token was rejected while a request waited for it")

// use returns a valid token, and when it was fetched. A token that is due for renewal is
// renewed in the background; the request waits, until ctx ends, only if there is no valid
// one.
func (a *account) use(ctx context.Context) (token string, fetched time.Time, err error) {
	a.mu.Lock()
	now := a.clock.Now()
	valid := a.token != "" && now.Before(a.expires)
	if (!valid || !now.Before(a.renewAt)) && a.fetching == nil {
		a.fetching = &fetch{done: make(chan struct{})}
		go a.fetch(a.fetching)
	}
	token, fetched, under := a.token, a.fetched, a.fetching
	a.mu.Unlock()
	if valid {
		return token, fetched, nil
	}
	select {
	case <-under.done:
	case <-ctx.Done():
		return "", time.Time{}, &TokenError{fmt.Errorf("waiting for the token of service account %s: %w", a, context.Cause(ctx)), ctx.Err()}
	}
	if under.err != nil {
		return "", time.Time{}, under.err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.token == "" {
		return "", time.Time{}, &TokenError{cause: fmt.Errorf("using service account %s: %w", a, errTokenLost)}
	}
	return a.token, a.fetched, nil
}

// refused drops the token that a request was rejected with, unless it has been replaced
// since. It reports whether to send the request again with another one.
func (a *account) refused(fetched time.Time) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.fetched.Equal(fetched) {
		return true
	}
	if a.clock.Since(fetched) < minTokenAge {
		return false
	}
	a.token = ""
	return true
}

// fetch gets a token.
func (a *account) fetch(f *fetch) {
	answer, err := a.request()
	a.mu.Lock()
	defer a.mu.Unlock()
	defer close(f.done)
	a.fetching = nil
	now := a.clock.Now()
	if err != nil {
		f.err = &TokenError{fmt.Errorf("requesting a token for service account %s: %w", a, err), a.life.Err()}
		if a.token != "" && now.Before(a.expires) {
			a.renewAt = now.Add(renewRetry)
			klog.Background().Error(f.err, "Renewing a token failed, the old one stays in use", "serviceAccount", a.name, "expires", a.expires)
		}
		return
	}
	life := max(answer.Status.ExpirationTimestamp.Sub(now), minTokenLifetime)
	a.token, a.fetched = answer.Status.Token, now
	a.renewAt, a.expires = now.Add(life/100*renewAfter), now.Add(life)
}

// request asks for a token, with a few attempts.
func (a *account) request() (answer *authenticationv1.TokenRequest, err error) {
	pause := tokenPause
	for attempt := range tokenAttempts {
		if attempt > 0 {
			select {
			case <-a.clock.After(pause):
				pause *= 2
			case <-a.life.Done():
				return nil, err
			}
		}
		answer, err = a.requestOnce()
		if err == nil || apierrors.IsForbidden(err) || a.life.Err() != nil {
			return answer, err
		}
	}
	return nil, err
}

// requestOnce asks for a token. It assumes that the account exists, which usually saves a
// request, and creates it only if the response is that it does not.
func (a *account) requestOnce() (*authenticationv1.TokenRequest, error) {
	answer, err := a.create()
	if !apierrors.IsNotFound(err) {
		return answer, err
	}
	if err := a.ensure(); err != nil {
		return nil, err
	}
	return a.create()
}

func (a *account) create() (*authenticationv1.TokenRequest, error) {
	ctx, cancel := context.WithTimeout(a.life, bootstrapTimeout)
	defer cancel()
	want := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
		ExpirationSeconds: ptr.To(int64(tokenLifetime / time.Second)),
	}}
	return a.core.ServiceAccounts(metav1.NamespaceSystem).CreateToken(ctx, a.name, want, metav1.CreateOptions{})
}

// ensure creates the account, and its namespace if that is missing too. If the process may
// not create namespaces, that is no failure: somebody else will.
func (a *account) ensure() error {
	ctx, cancel := context.WithTimeout(a.life, bootstrapTimeout)
	defer cancel()
	want := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: a.name}}
	create := func() error {
		_, err := a.core.ServiceAccounts(metav1.NamespaceSystem).Create(ctx, want, metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) {
			return nil
		}
		return err
	}
	err := create()
	if apierrors.IsNotFound(err) {
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: metav1.NamespaceSystem}}
		if _, err := a.core.Namespaces().Create(ctx, namespace, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
			klog.Background().V(2).Info("The namespace of service accounts is missing and cannot be created", "err", err)
		}
		err = create()
	}
	if err != nil {
		return fmt.Errorf("creating the account: %w", err)
	}
	return nil
}

// String is how errors name the account.
func (a *account) String() string { return metav1.NamespaceSystem + "/" + a.name }

// asAccount sends requests with the token of a service account.
type asAccount struct {
	layer
	account *account
}

// RoundTrip implements http.RoundTripper. A request that is refused because of its token
// was not carried out: it is sent once more with a new one, if its body can be.
func (t *asAccount) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Header.Get("Authorization") != "" {
		return t.next.RoundTrip(req)
	}
	token, fetched, err := t.account.use(req.Context())
	if err != nil {
		closeBody(req)
		return nil, err
	}
	resp, err := t.next.RoundTrip(withToken(req, token))
	if err != nil || resp.StatusCode != http.StatusUnauthorized || !t.account.refused(fetched) {
		return resp, err
	}
	again, ok := repeat(req)
	if !ok {
		return resp, nil
	}
	_ = resp.Body.Close() // the body of the rejection is not needed
	token, _, err = t.account.use(req.Context())
	if err != nil {
		closeBody(again)
		return nil, err
	}
	return t.next.RoundTrip(withToken(again, token))
}

// repeatable reports whether the body of a request, if it has one, can be sent again.
func repeatable(req *http.Request) bool {
	return req.Body == nil || req.Body == http.NoBody || req.GetBody != nil
}

// repeat returns a copy of a request whose body can be sent again.
func repeat(req *http.Request) (*http.Request, bool) {
	if !repeatable(req) {
		return nil, false
	}
	if req.Body == nil || req.Body == http.NoBody {
		return req, true
	}
	body, err := req.GetBody()
	if err != nil {
		return nil, false
	}
	again := req.Clone(req.Context())
	again.Body = body
	return again, true
}
