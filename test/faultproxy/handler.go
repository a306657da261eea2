package faultproxy

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// clientRequest is a request on its way through the proxy.
type clientRequest struct {
	attributes
	identity identity
	// losing is the fault because of which there will be no answer.
	losing *Fault
	// last is the fault that nothing passes after; nil if there is none.
	last *Fault
	// answered is called with the code of the answer.
	answered func(code int)
	// edit changes the answer; nil if it is passed on as it is.
	edit func(*http.Response) error
}

type contextKey int

const (
	requestKey contextKey = iota
	connectionKey
)

func requestOf(ctx context.Context) *clientRequest {
	q, _ := ctx.Value(requestKey).(*clientRequest)
	return q
}

// withConnection lets a request find the connection it came by.
func withConnection(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, connectionKey, c)
}

// errLost is why an answer of the API server does not arrive.
var errLost = errors.New("the answer is lost")

// serve is what happens to a request: it waits, is refused, or is passed on.
func (p *Proxy) serve(w http.ResponseWriter, r *http.Request) {
	if !p.begin() {
		panic(http.ErrAbortHandler)
	}
	defer p.end()
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(p.ctx, cancel)()

	body, err := receiveBody(r)
	if err != nil {
		panic(http.ErrAbortHandler) // the client is gone
	}
	q := &clientRequest{}
	var user string
	q.identity, user = identify(r)
	q.attributes = attributesOf(r, user, body)
	p.count(q.attributes)
	q.answered = p.note(q.attributes)
	if err := p.hold(ctx, q.attributes); err != nil {
		panic(http.ErrAbortHandler)
	}
	p.pass(q)
	r = r.WithContext(context.WithValue(ctx, requestKey, q))
	r, status := p.prepare(r, q)
	if status != nil {
		q.answered(int(complete(status).Code))
		writeStatus(w, status)
		return
	}
	if q.losing = p.faultOf(losesAnswers, q.attributes); q.losing != nil {
		q.losing.hits.Add(1)
	}
	p.forward.ServeHTTP(w, r)
}

// begin reports whether there is still work to be taken up, and counts it.
func (p *Proxy) begin() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.closed {
		p.working++
	}
	return !p.closed
}

func (p *Proxy) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.working--
	p.idle.Broadcast()
}

// inWork is how many requests, watches included, are on their way.
func (p *Proxy) inWork() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.working
}

func (p *Proxy) count(a attributes) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.seen[a]++
}

// receiveBody reads what is sent with a request to its end, whatever happens to the request
// then: a held one must not hold up the others of its connection.
func receiveBody(r *http.Request) ([]byte, error) {
	if r.Header.Get("Upgrade") != "" {
		return nil, nil
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	r.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
	r.Body, _ = r.GetBody()
	r.ContentLength, r.TransferEncoding = int64(len(body)), nil
	return body, nil
}

// hold returns when no fault delays the request, those that came meanwhile included, or with
// an error when the client or the proxy is gone.
func (p *Proxy) hold(ctx context.Context, a attributes) error {
	came := time.Now()
	var waited []*Fault
	for {
		f := p.faultOf(delaysRequests, a, waited...)
		if f == nil {
			return nil
		}
		f.hits.Add(1)
		if err := f.wait(ctx, came); err != nil {
			return err
		}
		waited = append(waited, f)
	}
}

// prepare turns a request into what is sent to the API server, or into the status that is
// the answer without it.
func (p *Proxy) prepare(r *http.Request, q *clientRequest) (*http.Request, *metav1.Status) {
	if f := p.faultOf(refuses, q.attributes); f != nil {
		f.hits.Add(1)
		return nil, f.status
	}
	if f := p.pastOf(r, q.attributes); f != nil {
		f.hits.Add(1)
		return f.askPast(r, q)
	}
	return p.hideGroups(r, q)
}

// rewrite addresses a request to the API server. It gets no headers of a proxy, so that the
// audit log names no other address than the proxy's.
func (p *Proxy) rewrite(r *httputil.ProxyRequest) { r.SetURL(p.target) }

// answer is what happens to the answer of the API server.
func (p *Proxy) answer(r *http.Response) error {
	ctx := r.Request.Context()
	q := requestOf(ctx)
	q.answered(r.StatusCode)
	switch {
	case q.last != nil:
		p.sever(q.last)
		return errLost
	case q.losing != nil:
		return errLost
	case q.edit != nil:
		return q.edit(r)
	case q.verb == "watch" && r.StatusCode == http.StatusOK:
		r.Body = newStream(ctx, p, q.attributes, r)
	}
	return nil
}

// unanswered ends a request without an answer. Without an API server, the client's
// connection ends as its own to the API server would.
func (p *Proxy) unanswered(_ http.ResponseWriter, r *http.Request, err error) {
	c, ok := r.Context().Value(connectionKey).(*tls.Conn)
	if ok && !errors.Is(err, errLost) && r.Context().Err() == nil {
		_ = c.NetConn().Close()
	}
	panic(http.ErrAbortHandler)
}

// writeStatus answers a request as the API server does when it refuses one.
func writeStatus(w http.ResponseWriter, s *metav1.Status) {
	answer := complete(s)
	if d := answer.Details; d != nil && d.RetryAfterSeconds > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(d.RetryAfterSeconds)))
	}
	w.Header().Set("Content-Type", runtime.ContentTypeJSON)
	w.WriteHeader(int(answer.Code))
	_ = json.NewEncoder(w).Encode(answer) // the client may be gone
}

// complete returns a status with all that an answer needs.
func complete(s *metav1.Status) *metav1.Status {
	s = s.DeepCopy()
	s.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
	if s.Code == 0 {
		s.Code = http.StatusInternalServerError
	}
	return s
}
