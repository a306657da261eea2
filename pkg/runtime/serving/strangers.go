package serving

import (
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/endpoints/responsewriter"
	"k8s.io/utils/clock"
	"k8s.io/utils/lru"
)

const (
	// maxURL is the longest path with query. The path is part of the keys under which
	// responses of the API server are cached.
	maxURL = 2048
	// maxBody is the largest request body, in bytes. Requests have one to look up the symbols
	// of a profile, and to set the log verbosity.
	maxBody = 64 << 10

	// strangerRate and strangerBurst bound the requests of one address that may lead to
	// questions to the API server, per second and at once; strangersRate and
	// strangersBurst those of all addresses.
	strangerRate, strangerBurst   = 20, 40
	strangersRate, strangersBurst = 100, 200
	// maxStranger and maxStrangers bound how many of them are processed at once.
	maxStranger, maxStrangers = 16, 64
	// maxParallel is how many requests of one connection are processed at once, until their responses have been sent.
	maxParallel = 4
	// rememberedAddresses is the number of addresses whose rate is remembered.
	rememberedAddresses = 1024
)

// strangers bounds what clients can cause that the API server has not authorized yet: each of
// their requests may lead to questions to the API server and to a line in the log. Anonymous
// requests for health cause none, and only those of the same connection are bounded. Clients that
// have been served, on the same connection, what only some may read are not bounded.
type strangers struct {
	free    func(path string) bool // whether anybody may read the path
	clock   clock.PassiveClock
	metrics *Metrics

	all  *rate.Limiter
	each *lru.Cache // of *rate.Limiter by address

	mu      sync.Mutex
	working map[string]int // requests being worked on, by address
	total   int
}

func newStrangers(free func(path string) bool, clk clock.PassiveClock, m *Metrics) *strangers {
	return &strangers{
		free:    free,
		clock:   clk,
		metrics: m,
		all:     rate.NewLimiter(strangersRate, strangersBurst),
		each:    lru.New(rememberedAddresses),
		working: map[string]int{},
	}
}

// admit lets requests through within the bounds and answers the others with 429.
func (s *strangers) admit(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if len(r.RequestURI) > maxURL {
			http.Error(w, "the URL is too long", http.StatusRequestURITooLong)
			return
		}
		c := connOf(r.Context())
		if s.costsNothing(r) || (c != nil && c.trusted.Load()) {
			next.ServeHTTP(w, r)
			return
		}
		address := addressOf(r, c)
		if !s.begin(address) {
			s.metrics.turnedAway.WithLabelValues(tooManyRequests).Inc()
			w.Header().Set("Retry-After", "1")
			http.Error(w, "too many requests from clients that are not authorized yet", http.StatusTooManyRequests)
			return
		}
		defer s.end(address)
		next.ServeHTTP(w, r)
	})
}

// parallel bounds what a connection of HTTP/2 has the process keep: a client that does not read has each of its requests
// kept until its response has been sent, which is after the handler has returned.
func (s *strangers) parallel(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c := connOf(r.Context())
		if c == nil || r.ProtoMajor < 2 || c.trusted.Load() {
			next.ServeHTTP(w, r)
			return
		}
		if !c.beginAnswer() {
			s.metrics.turnedAway.WithLabelValues(tooManyRequests).Inc()
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(http.StatusTooManyRequests) // without a body, which would have to be read
			return
		}
		defer c.answering.Add(-1)
		next.ServeHTTP(w, r)
		_ = http.NewResponseController(w).Flush() // an error means that the client is gone
	})
}

// costsNothing reports whether a request is answered without looking at any credentials: those in the
// headers, of which a web socket has its own, and those of the connection.
func (s *strangers) costsNothing(r *http.Request) bool {
	return s.free(r.URL.Path) && !mayChange(r.Method, r.URL.Path) &&
		r.Header.Get("Authorization") == "" && r.Header.Get("Sec-WebSocket-Protocol") == "" &&
		(r.TLS == nil || len(r.TLS.PeerCertificates) == 0)
}

func (s *strangers) begin(address string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.total >= maxStrangers || s.working[address] >= maxStranger || !s.inRateLocked(address, s.clock.Now()) {
		return false
	}
	s.total++
	s.working[address]++
	return true
}

func (s *strangers) inRateLocked(address string, now time.Time) bool {
	own, ok := s.each.Get(address)
	if !ok {
		own = rate.NewLimiter(strangerRate, strangerBurst)
		s.each.Add(address, own)
	}
	limiter, ok := own.(*rate.Limiter)
	return ok && limiter.AllowN(now, 1) && s.all.AllowN(now, 1)
}

func (s *strangers) end(address string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.total--
	if s.working[address]--; s.working[address] == 0 {
		delete(s.working, address)
	}
}

// trusting marks the connection of a client that is served a page that only some may read as one of somebody whom the
// API server has authorized. It is called after authentication and authorization. A request that is merely authorized
// proves nothing: anybody may ask for /version, and every account for what is below /api, which are not served here.
func (s *strangers) trusting(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c := connOf(r.Context())
		if c != nil && !s.free(r.URL.Path) && !isHealth(r.URL.Path) && !anonymous(r) {
			w = responsewriter.WrapForHTTP1Or2(&trustingWriter{ResponseWriter: w, conn: c})
		}
		next.ServeHTTP(w, r)
	})
}

// isHealth reports whether a path is one of those that every account may read by default.
func isHealth(path string) bool { return path == "/healthz" || path == "/livez" || path == "/readyz" }

// anonymous reports whether nobody knows who a request is from.
func anonymous(r *http.Request) bool {
	by, ok := request.UserFrom(r.Context())
	return !ok || slices.Contains(by.GetGroups(), user.AllUnauthenticated)
}

// trustingWriter trusts the connection of a request that is answered with something.
type trustingWriter struct {
	http.ResponseWriter
	conn   *conn
	headed bool
}

// WriteHeader implements http.ResponseWriter.
func (w *trustingWriter) WriteHeader(code int) {
	if !w.headed && code >= http.StatusOK {
		w.headed = true
		if code < http.StatusBadRequest {
			w.conn.trust()
		}
	}
	w.ResponseWriter.WriteHeader(code)
}

// Write implements http.ResponseWriter.
func (w *trustingWriter) Write(body []byte) (int, error) {
	if !w.headed {
		w.WriteHeader(http.StatusOK)
	}
	return w.ResponseWriter.Write(body)
}

// Unwrap implements responsewriter.UserProvidedDecorator.
func (w *trustingWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func addressOf(r *http.Request, c *conn) string {
	if c != nil {
		return c.address
	}
	return r.RemoteAddr
}

// freePaths matches the paths that anybody may read, in the notation of the configuration: a
// trailing * matches a prefix, a leading / may be missing.
func freePaths(patterns []string) func(path string) bool {
	return func(path string) bool {
		path = strings.TrimPrefix(path, "/")
		for _, p := range patterns {
			p = strings.TrimPrefix(p, "/")
			prefix, open := strings.CutSuffix(p, "*")
			if path == p || (open && strings.HasPrefix(path, prefix)) {
				return true
			}
		}
		return false
	}
}
