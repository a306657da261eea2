package faultproxy

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// readObject reads a JSON answer.
func readObject(r *http.Response) (map[string]any, error) {
	object := map[string]any{}
	err := json.NewDecoder(r.Body).Decode(&object)
	if err := r.Body.Close(); err != nil {
		return nil, err
	}
	if err != nil {
		return nil, fmt.Errorf("reading the answer of the API server: %w", err)
	}
	return object, nil
}

// replaceBody makes an object the answer.
func replaceBody(r *http.Response, o any) error {
	data, err := json.Marshal(o)
	if err != nil {
		return err
	}
	r.Body = io.NopCloser(bytes.NewReader(data))
	r.ContentLength = int64(len(data))
	r.Header.Set("Content-Length", strconv.Itoa(len(data)))
	r.Header.Del("Etag")
	return nil
}

// replaceWithStatus makes a status the answer.
func replaceWithStatus(r *http.Response, s *metav1.Status) error {
	s = complete(s)
	r.StatusCode = int(s.Code)
	return replaceBody(r, s)
}

// acceptJSON asks for the answer in JSON and plain, so that it can be edited. The forms of
// JSON the client knows are left, each changed; an empty one is left out.
func acceptJSON(r *http.Request, change func(form string) string) *http.Request {
	r = r.Clone(r.Context())
	var forms []string
	for form := range strings.SplitSeq(r.Header.Get("Accept"), ",") {
		if form = strings.TrimSpace(form); !strings.HasPrefix(form, runtime.ContentTypeJSON) {
			continue
		}
		if form = change(form); form != "" {
			forms = append(forms, form)
		}
	}
	if len(forms) == 0 {
		forms = []string{runtime.ContentTypeJSON}
	}
	r.Header.Set("Accept", strings.Join(forms, ","))
	r.Header.Del("Accept-Encoding")
	r.Header.Del("If-None-Match")
	return r
}
