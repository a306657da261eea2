package why

import (
	"encoding/json"
	"net/http"
	"strconv"
	"sync"
)

// Path is where the answers are.
const Path = "/debug/why"

// Handler answers requests with the parameters type, name, namespace and last: as text, or with
// format=json as an Answer.
func (s Sources) Handler() http.Handler {
	var one sync.Mutex // an answer decodes the whole journal: one at a time
	ask := func(q Query) (*Answer, error) {
		one.Lock()
		defer one.Unlock()
		return s.Ask(q)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked := r.URL.Query()
		q := Query{Type: asked.Get("type"), Namespace: asked.Get("namespace"), Name: asked.Get("name")}
		if last := asked.Get("last"); last != "" {
			n, err := strconv.Atoi(last)
			if err != nil || n < 1 {
				http.Error(w, "last must be a number from 1", http.StatusBadRequest)
				return
			}
			q.Last = n
		}
		answer, err := ask(q)
		if err != nil {
			http.Error(w, err.Error()+"; for example: "+Path+"?type=deployment&name=web&namespace=shop", http.StatusBadRequest)
			return
		}
		body, kind := []byte(answer.Text()), "text/plain; charset=utf-8"
		if asked.Get("format") == "json" {
			kind = "application/json"
			if body, err = json.MarshalIndent(answer, "", "  "); err != nil {
				http.Error(w, "encoding the answer: "+err.Error(), http.StatusInternalServerError)
				return
			}
			body = append(body, '\n')
		}
		w.Header().Set("Content-Type", kind)
		w.Header().Set("X-Content-Type-Options", "nosniff")
		_, _ = w.Write(body)
	})
}
