package faultproxy

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// hiddenGroups are the faults because of which discovery does not report groups.
type hiddenGroups []*Fault

func (p *Proxy) hiddenGroups() hiddenGroups {
	var h hiddenGroups
	for _, f := range p.inForce() {
		if f.kind == hides {
			h = append(h, f)
		}
	}
	return h
}

// have reports whether a version is hidden; without one, whether all of the group is.
func (h hiddenGroups) have(group, version string) bool {
	return slices.ContainsFunc(h, func(f *Fault) bool {
		return f.hidden.Group == group && (f.hidden.Version == "" || f.hidden.Version == version)
	})
}

// discovered returns what a request for discovery asks for: one version, one group, or, if
// that is empty, a list of groups.
func discovered(r *http.Request) (gv schema.GroupVersion, ok bool) {
	if r.Method != http.MethodGet {
		return gv, false
	}
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	if parts[0] == "apis" && len(parts) > 1 {
		gv.Group = parts[1]
		parts = parts[1:]
	} else if parts[0] != "api" && parts[0] != "apis" {
		return gv, false
	}
	if len(parts) == 2 {
		gv.Version = parts[1]
	}
	return gv, len(parts) <= 2
}

// hideGroups has what is hidden taken from the answer of discovery, if the request is for that.
func (p *Proxy) hideGroups(r *http.Request, q *clientRequest) (*http.Request, *metav1.Status) {
	gv, isDiscovery := discovered(r)
	h := p.hiddenGroups()
	if !isDiscovery || len(h) == 0 {
		return r, nil
	}
	for _, f := range h {
		if gv.Empty() || f.hidden.Group == gv.Group {
			f.hits.Add(1)
		}
	}
	switch {
	case !gv.Empty() && h.have(gv.Group, gv.Version):
		return nil, noSuchPath()
	case gv.Version != "":
		return r, nil
	}
	q.edit = h.edit
	return acceptJSON(r, func(form string) string { return form }), nil
}

func noSuchPath() *metav1.Status {
	return &apierrors.NewGenericServerResponse(http.StatusNotFound, "get", schema.GroupResource{}, "", "", 0, true).ErrStatus
}

// edit takes what is hidden from a document of discovery, of whatever form.
func (h hiddenGroups) edit(answer *http.Response) error {
	if answer.StatusCode != http.StatusOK {
		return nil
	}
	document, err := readObject(answer)
	if err != nil {
		return err
	}
	switch document["kind"] {
	case "APIVersions":
		filter(document, "versions", func(v any) bool { return !h.have("", fmt.Sprint(v)) })
	case "APIGroupList":
		filter(document, "groups", h.leave)
	case "APIGroupDiscoveryList":
		filter(document, "items", h.leave)
	case "APIGroup":
		if !h.leave(document) {
			return replaceWithStatus(answer, noSuchPath())
		}
	}
	return replaceBody(answer, document)
}

// leave takes the hidden versions from a group and reports whether others are left.
func (h hiddenGroups) leave(group any) bool {
	g, ok := group.(map[string]any)
	if !ok {
		return false
	}
	name := fmt.Sprint(g["name"])
	if metadata, ok := g["metadata"].(map[string]any); ok { // aggregated discovery
		name = ""
		if n, ok := metadata["name"].(string); ok { // the core group has none
			name = n
		}
	}
	versions := filter(g, "versions", func(v any) bool { return !h.have(name, versionOf(v)) })
	if preferred, ok := g["preferredVersion"]; ok && len(versions) > 0 && h.have(name, versionOf(preferred)) {
		g["preferredVersion"] = versions[0]
	}
	return len(versions) > 0
}

func versionOf(v any) string {
	object, _ := v.(map[string]any)
	version, _ := object["version"].(string)
	return version
}

// filter leaves the elements of a list in an object that keep reports, and returns them.
func filter(object map[string]any, list string, keep func(any) bool) []any {
	elements, _ := object[list].([]any)
	kept := []any{}
	for _, e := range elements {
		if keep(e) {
			kept = append(kept, e)
		}
	}
	object[list] = kept
	return kept
}
