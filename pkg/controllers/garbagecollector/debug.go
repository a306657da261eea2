package garbagecollector

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
)

// DebuggingHandler implements controller.Debuggable. It serves /graph, limited to the nodes
// connected with the objects in the parameter uid if it is set.
func (c *collector) DebuggingHandler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/graph" {
			http.Error(w, "", http.StatusNotFound)
			return
		}
		drawn := c.graph.draw(r.URL.Query()["uid"])
		w.Header().Set("Content-Type", "text/vnd.graphviz")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		// An error means that the client has disconnected.
		_, _ = w.Write(drawn)
	})
}

// dotNode is a node of the drawing.
type dotNode struct {
	identity
	missing, beingDeleted, deletingDependents, virtual bool
}

type dotEdge struct{ from, to types.UID }

type drawing struct {
	nodes map[types.UID]dotNode
	edges map[dotEdge]bool
}

// draw renders the graph, or the nodes connected with the given UIDs, in the DOT language of
// Graphviz. Objects without owners and dependents are omitted.
func (g *graph) draw(uids []string) []byte {
	g.mu.RLock()
	d := drawing{nodes: map[types.UID]dotNode{}, edges: map[dotEdge]bool{}}
	if len(uids) == 0 {
		for _, n := range g.nodes {
			d.add(g, n)
		}
	} else {
		for _, n := range g.connected(uids) {
			d.add(g, n)
		}
	}
	g.mu.RUnlock()

	var out bytes.Buffer
	d.write(&out)
	return out.Bytes()
}

// connected returns the nodes that can be reached from the given ones through owners and
// dependents.
func (g *graph) connected(uids []string) []*node {
	var found []*node
	seen := sets.New[types.UID]()
	visit := func(uid types.UID) {
		if n, known := g.nodes[uid]; known && !seen.Has(uid) {
			seen.Insert(uid)
			found = append(found, n)
		}
	}
	for _, uid := range uids {
		visit(types.UID(uid))
	}
	for next := 0; next < len(found); next++ {
		for _, ref := range found[next].owners {
			visit(ref.UID)
		}
		for dependent := range found[next].dependents {
			visit(dependent.uid)
		}
	}
	return found
}

func (d *drawing) add(g *graph, n *node) {
	if len(n.owners) == 0 && len(n.dependents) == 0 {
		return
	}
	d.nodes[n.uid] = dotNode{n.identity, false, n.beingDeleted, n.deletingDependents, n.virtual}
	for _, ref := range n.owners {
		d.edges[dotEdge{n.uid, ref.UID}] = true
		if _, known := g.nodes[ref.UID]; !known {
			d.nodes[ref.UID] = dotNode{identity: claimed(ref, ""), missing: true}
		}
	}
}

func (d *drawing) write(w io.Writer) {
	fmt.Fprintln(w, "strict digraph full {")
	if len(d.nodes) > 0 {
		fmt.Fprintln(w, "  // Node definitions.")
	}
	nodes := slices.SortedFunc(maps.Values(d.nodes), func(a, b dotNode) int { return cmp.Compare(a.uid, b.uid) })
	for _, n := range nodes {
		n.write(w)
	}
	if len(d.edges) > 0 {
		fmt.Fprintln(w, "  // Edge definitions.")
	}
	edges := slices.SortedFunc(maps.Keys(d.edges), func(a, b dotEdge) int {
		return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(a.to, b.to))
	})
	for _, e := range edges {
		fmt.Fprintf(w, "  %q -> %q;\n", e.from, e.to)
	}
	fmt.Fprintln(w, "}")
}

func (n dotNode) write(w io.Writer) {
	gv, err := schema.ParseGroupVersion(n.apiVersion)
	if err != nil {
		gv = schema.GroupVersion{Version: n.apiVersion} // as claimed, but not a version
	}
	fmt.Fprintf(w, "  %q [\n", n.uid)
	for _, attribute := range [][2]string{
		{"label", n.label(gv)},
		{"group", gv.Group},
		{"version", gv.Version},
		{"kind", n.kind},
		{"namespace", n.namespace},
		{"name", n.name},
		{"uid", string(n.uid)},
		{"missing", fmt.Sprint(n.missing)},
		{"beingDeleted", fmt.Sprint(n.beingDeleted)},
		{"deletingDependents", fmt.Sprint(n.deletingDependents)},
		{"virtual", fmt.Sprint(n.virtual)},
	} {
		fmt.Fprintf(w, "    %s=%q\n", attribute[0], attribute[1])
	}
	fmt.Fprintln(w, "  ];")
}

func (n dotNode) label(gv schema.GroupVersion) string {
	kind := n.kind + "." + gv.Version
	if gv.Group != "" {
		kind += "." + gv.Group
	}
	label := fmt.Sprintf("uid=%s\nnamespace=%s\n%s/%s\n", n.uid, n.namespace, kind, n.name)
	var flags []string
	for _, flag := range []struct {
		set  bool
		name string
	}{
		{n.beingDeleted, "beingDeleted"},
		{n.deletingDependents, "deletingDependents"},
		{n.virtual, "virtual"},
		{n.missing, "missingFromGraph"},
	} {
		if flag.set {
			flags = append(flags, flag.name)
		}
	}
	if len(flags) > 0 {
		label += strings.Join(flags, ",") + "\n"
	}
	return label
}
