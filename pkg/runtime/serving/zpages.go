package serving

import (
	"bytes"
	"maps"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apiserver/pkg/server/flagz"
	"k8s.io/apiserver/pkg/server/statusz"
)

// form is one of the forms of a status.
type form int

const (
	formText       form = iota // for terminals: no Accept header, */*, text/plain
	formPage                   // for browsers: text/html
	formJSON                   // everything, for programs: application/json
	formStructured             // upstream's: application/{json,yaml,cbor};v=…;g=config.k8s.io;as=Statusz
)

// accepted chooses the form for an Accept header: that of the entry with the highest weight,
// and of the first of several. Unknown forms are left to upstream's negotiation, which
// refuses them in its own words.
func accepted(header string) form {
	if strings.TrimSpace(header) == "" {
		return formText
	}
	chosen, best := formStructured, 0.0
	for entry := range strings.SplitSeq(header, ",") {
		media, parameters, err := mime.ParseMediaType(entry)
		if err != nil {
			continue
		}
		weight := 1.0
		if q, ok := parameters["q"]; ok {
			if weight, err = strconv.ParseFloat(q, 64); err != nil {
				continue
			}
		}
		known, ok := formOf(media, parameters["as"] != "")
		if ok && weight > best {
			chosen, best = known, weight
		}
	}
	return chosen
}

func formOf(media string, structured bool) (form, bool) {
	switch {
	case structured:
		return formStructured, true
	case media == "text/html" || media == "application/xhtml+xml":
		return formPage, true
	case media == "application/json":
		return formJSON, true
	case media == "text/plain" || media == "text/*" || media == "*/*":
		return formText, true
	}
	return formStructured, false
}

// handler serves the status in the form that the reader accepts. paths are the other paths
// that are served.
func (s Status) handler(paths []string) http.Handler {
	upstream := func() http.Handler {
		var made handlerMux
		statusz.Install(&made, component, statusz.NewRegistry(s.Version(), statusz.WithListedPaths(paths)))
		return made
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		as := accepted(r.Header.Get("Accept"))
		if r.URL.Query().Get("format") == "json" {
			as = formJSON
		}
		switch as {
		case formJSON:
			writeJSON(w, s.JSON())
		case formPage:
			s.servePage(w, r)
		case formText:
			r = r.Clone(r.Context())
			r.Header.Del("Accept")
			upstream().ServeHTTP(w, r)
			_, _ = w.Write([]byte("\n" + s.Text()))
		default:
			upstream().ServeHTTP(w, r)
		}
	})
}

// Refresh bounds how often a browser may be told to load the page again.
const minRefresh, maxRefresh = 1, 3600

func (s Status) servePage(w http.ResponseWriter, r *http.Request) {
	seconds, err := strconv.Atoi(r.URL.Query().Get("refresh"))
	if err != nil || seconds < minRefresh || seconds > maxRefresh {
		seconds = 0
	}
	page, policy, err := s.Page(time.Duration(seconds) * time.Second)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	header := w.Header()
	header.Set("Content-Type", "text/html; charset=utf-8")
	header.Set("Content-Security-Policy", policy)
	header.Set("Referrer-Policy", "no-referrer")
	header.Set("Cross-Origin-Opener-Policy", "same-origin")
	_, _ = w.Write(page)
}

// flags implements flagz.Reader.
type flags map[string]string

// GetFlagz implements flagz.Reader.
func (f flags) GetFlagz() map[string]string { return f }

// flagzHandler serves flags in upstream's forms. Upstream's handler remembers its first
// text, and ours change, so that text is written here.
func flagzHandler(read func() map[string]string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		now := flags(read())
		if as := accepted(r.Header.Get("Accept")); as == formText {
			w.Header().Set("Content-Type", "text/plain; charset=utf-8")
			_, _ = w.Write(now.text())
			return
		}
		var upstream handlerMux
		flagz.Install(&upstream, component, now)
		upstream.ServeHTTP(w, r)
	})
}

func (f flags) text() []byte {
	var b bytes.Buffer
	b.WriteString("\n" + component + " flagz\nWarning: This endpoint is not meant to be machine parseable, " +
		"has no formatting compatibility guarantees and is for debugging purposes only.\n\n")
	for _, name := range slices.Sorted(maps.Keys(f)) {
		b.WriteString(name + "=" + f[name] + "\n")
	}
	return b.Bytes()
}

// handlerMux takes the one handler that upstream installs.
type handlerMux struct{ http.Handler }

// Handle implements the mux of statusz and flagz.
func (m *handlerMux) Handle(_ string, handler http.Handler) { m.Handler = handler }
