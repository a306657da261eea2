package inputs

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"

	"go.yaml.in/yaml/v3"

	"kcmd.dev/pkg/config/problem"
	"kcmd.dev/pkg/config/tree"
	"kcmd.dev/pkg/config/v1beta1"
)

// groups are the API groups of configurations, those of upstream's included.
var groups = []string{v1beta1.GroupName, "kubecontrollermanager.config.k8s.io"}

// search searches the documents of one file.
type search struct {
	file  string
	found Found
	// only is set if the file was named and holds this one document.
	only bool
	// piece is the document, number its number or 0.
	piece  piece
	number int
}

// findInNamed searches the content of a file that the user named.
func findInNamed(name string, data []byte) Found {
	pieces := split(data)
	if len(pieces) <= 1 {
		// The process would read it as it is, so config.Load gets it as it is.
		pieces = []piece{{data: data}}
	}
	s := &search{file: name, only: len(pieces) == 1}
	s.documents(pieces)
	if len(s.found.Inputs) == 0 && len(s.found.Problems) == 0 {
		s.found.Problems = fileProblem(name,
			fmt.Errorf("contains no configuration: its %d documents have other kinds", s.found.Skipped))
	}
	return s.found
}

// documents searches all documents of the file.
func (s *search) documents(pieces []piece) {
	for i, p := range pieces {
		s.piece = p
		if len(pieces) > 1 {
			s.number = i + 1
		}
		s.document()
	}
}

// document searches one document.
func (s *search) document() {
	root, err := parse(s.piece.data)
	switch {
	case err != nil && !s.only && !mentions(s.piece.data):
		s.found.Skipped++
	case err != nil, s.only && root == nil:
		s.whole()
	case root == nil:
	case isConfiguration(root):
		s.whole()
	case text(root, "kind") == "ConfigMap", isList(root):
		s.manifest(root)
		if s.only && !isList(root) && len(s.found.Inputs) == 0 {
			s.found.Problems = fileProblem(s.file, fmt.Errorf("%s contains no configuration in its data", nameOf(root)))
		}
	case s.only:
		s.whole()
	default:
		s.found.Skipped++
	}
}

// whole takes the document as a configuration.
func (s *search) whole() {
	p := s.piece
	first := problem.Position{Line: 1, Column: 1}
	if root, err := parse(p.data); err == nil && root != nil {
		first = problem.Position{Line: root.Line, Column: root.Column}
	}
	s.found.Inputs = append(s.found.Inputs, Input{
		File: s.file, Document: s.number, Data: p.data, start: p.at(first),
		place: func(at problem.Position) (problem.Position, bool) { return p.at(at), true },
	})
}

// manifest takes the configurations out of a ConfigMap, or out of those of a list.
func (s *search) manifest(object *yaml.Node) {
	before := len(s.found.Inputs)
	switch items := resolve(value(object, "items")); {
	case isList(object):
		for _, item := range items.Content {
			s.manifest(resolve(item))
		}
		return
	case text(object, "kind") == "ConfigMap":
		source := s.piece.data
		s.values(object, "data", func(v *yaml.Node) ([]byte, func() *textMap) {
			return []byte(v.Value), func() *textMap { return newTextMap(v, source) }
		})
		s.values(object, "binaryData", func(v *yaml.Node) ([]byte, func() *textMap) {
			data, err := base64.StdEncoding.DecodeString(strings.Join(strings.Fields(v.Value), ""))
			if err != nil {
				return nil, nil
			}
			return data, func() *textMap { return &textMap{} }
		})
	}
	if len(s.found.Inputs) == before {
		s.found.Skipped++
	}
}

// values takes the configurations out of the values of a field of a ConfigMap.
func (s *search) values(object *yaml.Node, field string, decode func(*yaml.Node) ([]byte, func() *textMap)) {
	entries := resolve(value(object, field))
	if entries.Kind != yaml.MappingNode {
		return
	}
	for i := 0; i+1 < len(entries.Content); i += 2 {
		key, v := entries.Content[i], resolve(entries.Content[i+1])
		if v.Kind != yaml.ScalarNode {
			continue
		}
		data, places := decode(v)
		if !carries(data) {
			continue
		}
		s.found.Inputs = append(s.found.Inputs, Input{
			File: s.file, Object: nameOf(object), Key: fmt.Sprintf("%s[%s]", field, problem.Name(key.Value)), Document: s.number, Data: data,
			start: s.piece.at(problem.Position{Line: key.Line, Column: key.Column}),
			place: s.placer(key, sync.OnceValue(places)),
		})
	}
}

// placer maps positions in a value to the file; a position that is not known to that of the key.
func (s *search) placer(key *yaml.Node, places func() *textMap) func(problem.Position) (problem.Position, bool) {
	p, fallback := s.piece, problem.Position{Line: key.Line, Column: key.Column}
	return func(at problem.Position) (problem.Position, bool) {
		if found, exact := places().place(at); exact {
			return p.at(found), true
		}
		return p.at(fallback), false
	}
}

// carries reports whether a value of a ConfigMap is a configuration, or was meant to be one.
func carries(data []byte) bool {
	root, err := parse(data)
	if err != nil {
		return mentions(data)
	}
	return root != nil && isConfiguration(root)
}

// mentions reports whether text that cannot be parsed was meant to be a configuration.
func mentions(data []byte) bool {
	if bytes.Contains(data, []byte(v1beta1.Kind)) {
		return true
	}
	for _, group := range groups {
		if bytes.Contains(data, []byte(group+"/")) {
			return true
		}
	}
	return false
}

// kinds are those of configurations of Kubernetes. A kind that is misspelt is taken for the
// nearest of them.
var kinds = []string{
	v1beta1.Kind,
	"CloudControllerManagerConfiguration",
	"KubeSchedulerConfiguration",
	"KubeletConfiguration",
	"KubeProxyConfiguration",
}

// isConfiguration goes by the kind or by the group: both may be misspelt, the kind only slightly.
func isConfiguration(root *yaml.Node) bool {
	group, _, _ := strings.Cut(text(root, "apiVersion"), "/")
	return slices.Contains(groups, group) || problem.Nearest(text(root, "kind"), kinds) == v1beta1.Kind
}

func isList(root *yaml.Node) bool {
	kind := text(root, "kind")
	return (kind == "List" || kind == "ConfigMapList") && resolve(value(root, "items")).Kind == yaml.SequenceNode
}

// nameOf returns kind, namespace and name of a ConfigMap.
func nameOf(object *yaml.Node) string {
	metadata := resolve(value(object, "metadata"))
	name := text(metadata, "name")
	if name == "" {
		name = text(metadata, "generateName")
	}
	if namespace := text(metadata, "namespace"); namespace != "" {
		name = namespace + "/" + name
	}
	return strings.TrimSpace("ConfigMap " + problem.Name(name))
}

// parse returns the root of the first document, nil if there is nothing.
func parse(data []byte) (root *yaml.Node, err error) {
	document, err := tree.Parse(data)
	if errors.Is(err, io.EOF) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if len(document.Content) == 0 {
		return nil, nil
	}
	root = resolve(document.Content[0])
	if root.Kind == yaml.ScalarNode && root.ShortTag() == "!!null" {
		return nil, nil
	}
	if root.Kind != yaml.MappingNode {
		return nil, errors.New("the document is not a mapping")
	}
	return root, nil
}

// resolve follows an alias. It never returns nil.
func resolve(node *yaml.Node) *yaml.Node {
	switch {
	case node == nil:
		return &yaml.Node{}
	case node.Kind == yaml.AliasNode && node.Alias != nil:
		return node.Alias
	}
	return node
}

// value returns the value of a key of a mapping, nil if there is none.
func value(node *yaml.Node, key string) *yaml.Node {
	if node.Kind != yaml.MappingNode {
		return nil
	}
	for i := 0; i+1 < len(node.Content); i += 2 {
		if node.Content[i].Value == key {
			return node.Content[i+1]
		}
	}
	return nil
}

// text returns the text of a scalar in a mapping, empty if there is none.
func text(node *yaml.Node, key string) string {
	v := resolve(value(node, key))
	if v.Kind != yaml.ScalarNode {
		return ""
	}
	return v.Value
}
