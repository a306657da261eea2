package vapstatus

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/cel/openapi/resolver"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/openapi"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

// maxSchemas is the maximum number of schemas in memory. Each includes the schemas it refers to.
const maxSchemas = 64

// schemas caches the schemas of kinds from the OpenAPI documents of the API server.
type schemas struct {
	discovery discovery.DiscoveryInterface

	mu    sync.Mutex
	cache map[version]*spec.Schema // read only
	used  bool                     // since the last release
}

// version is one version of the schema of a kind.
type version struct {
	// document is the URL of the document with the schema. It contains a hash of the document.
	document string
	kind     schema.GroupVersionKind
}

func newSchemas(client discovery.DiscoveryInterface) *schemas {
	return &schemas{discovery: client, cache: map[version]*spec.Schema{}}
}

func (s *schemas) get(v version) (*spec.Schema, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.used = true
	found, ok := s.cache[v]
	return found, ok
}

func (s *schemas) put(v version, resolved *spec.Schema) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.cache) >= maxSchemas {
		clear(s.cache)
	}
	s.cache[v] = resolved
}

// release removes all schemas if no check has used one since the last release.
func (s *schemas) release(context.Context, context.Context) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.used {
		clear(s.cache)
	}
	s.used = false
}

// begin creates the resolver for one check.
func (s *schemas) begin() *lookup {
	return &lookup{schemas: s}
}

// lookup resolves kinds for one check. It is not safe for concurrent use. It reads the index once and
// each document at most once.
type lookup struct {
	*schemas
	index *memory // nil before the first lookup
	types int     // number of resolved types
}

// err returns the error from reading the index, or a document that may be read later, if any. After an error no type is
// known.
func (l *lookup) err() error {
	if l.index == nil {
		return nil
	}
	return l.index.err
}

var _ resolver.SchemaResolver = &lookup{}

// ResolveSchema implements resolver.SchemaResolver. A type beyond the limit counts as unknown.
func (l *lookup) ResolveSchema(kind schema.GroupVersionKind) (*spec.Schema, error) {
	if l.types == maxTypes {
		return nil, fmt.Errorf("resolving no more than %d types: %w", maxTypes, resolver.ErrSchemaNotFound)
	}
	if l.index == nil {
		l.index = &memory{Client: l.discovery.OpenAPIV3()}
	}
	documents, err := l.index.Paths()
	if err != nil {
		return nil, err
	}
	document, served := documents[pathOf(kind.GroupVersion())]
	if !served {
		return nil, fmt.Errorf("resolving %s: %w", kind, resolver.ErrSchemaNotFound)
	}
	v := version{document.ServerRelativeURL(), kind}
	resolved, cached := l.get(v)
	if !cached {
		from := &resolver.ClientDiscoveryResolver{Discovery: indexed{l.discovery, l.index}}
		if resolved, err = from.ResolveSchema(kind); err != nil {
			return nil, err
		}
		if strings.Contains(v.document, "hash=") {
			l.put(v, resolved)
		}
	}
	l.types++
	return resolved, nil
}

// pathOf returns the path of a group and version in the index.
func pathOf(gv schema.GroupVersion) string {
	if gv.Group == "" {
		return "api/" + gv.Version
	}
	return "apis/" + gv.String()
}

// indexed is a discovery client that reads OpenAPI documents through index.
type indexed struct {
	discovery.DiscoveryInterface
	index openapi.Client
}

// OpenAPIV3 implements discovery.OpenAPIV3SchemaInterface.
func (i indexed) OpenAPIV3() openapi.Client { return i.index }

// memory is an OpenAPI client that caches the index and the documents.
type memory struct {
	openapi.Client
	paths map[string]openapi.GroupVersion
	// err is why the index, or a document that may be read later, could not be read.
	err error
}

// Paths implements openapi.Client.
func (m *memory) Paths() (map[string]openapi.GroupVersion, error) {
	if m.paths != nil || m.err != nil {
		return m.paths, m.err
	}
	paths, err := m.Client.Paths()
	if err != nil {
		m.err = fmt.Errorf("reading the index of the OpenAPI documents: %w", err)
		return nil, m.err
	}
	m.paths = make(map[string]openapi.GroupVersion, len(paths))
	for path, document := range paths {
		m.paths[path] = &remembered{GroupVersion: document, path: path, index: m}
	}
	return m.paths, nil
}

// remembered is a document that caches its content.
type remembered struct {
	openapi.GroupVersion
	path    string
	index   *memory
	content []byte
}

// Schema implements openapi.GroupVersion. All callers must request the same content type.
func (r *remembered) Schema(contentType string) ([]byte, error) {
	if r.content != nil {
		return r.content, nil
	}
	content, err := r.GroupVersion.Schema(contentType)
	if err != nil {
		err = fmt.Errorf("reading the OpenAPI document of %s: %w", r.path, err)
		if mayPass(err) {
			r.index.err = err
		}
		return nil, err
	}
	r.content = content
	return content, nil
}

// mayPass reports whether a request may succeed later: the API server could not be asked, was not
// able to answer, or did not know who asks.
func mayPass(err error) bool {
	var answer apierrors.APIStatus
	if !errors.As(err, &answer) {
		return true
	}
	switch code := answer.Status().Code; code {
	case http.StatusTooManyRequests, http.StatusRequestTimeout, http.StatusUnauthorized:
		return true
	default:
		return code >= http.StatusInternalServerError
	}
}
