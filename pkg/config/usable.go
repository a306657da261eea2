package config

import (
	"maps"
	"slices"
	"strings"

	"kcmd.dev/pkg/config/fieldpath"
	"kcmd.dev/pkg/config/problem"
	"kcmd.dev/pkg/config/tree"
)

// maxRounds bounds how often a field is left out because another one was.
const maxRounds = 20

// LoadUsable loads what can be used of a file that Load rejects: the file without the fields that
// have errors, which are returned, sorted. It is for a preview, and never for a process. The
// document is nil if nothing can be used, as when the file is no YAML.
func LoadUsable(name string, data []byte) (doc *Document, leftOut []string) {
	r := &problem.Report{File: name}
	root := inForce(tree.Read(data, r))
	if root == nil {
		return nil, nil
	}
	out := r.Failed() // duplicate keys and the like, which the tree does not have
	for range maxRounds {
		r := &problem.Report{File: name}
		doc := loadTree(root, r)
		if !r.Errors().HasErrors() {
			doc.Name = name
			return doc, slices.Sorted(maps.Keys(out))
		}
		for path := range r.Failed() {
			removed, ok := remove(root, path)
			if !ok {
				return nil, nil
			}
			out[removed] = true
		}
	}
	return nil, nil
}

// remove removes a field from a tree, or what is around it if the tree does not have it. It
// returns the path of what it removed, and false if there is only the root. The names of upstream's
// fields are found in any letter case, as they are read.
func remove(root *tree.Node, path string) (removed string, ok bool) {
	for ; path != ""; path = fieldpath.Parent(path) {
		exactly := func(at string) bool { return at == path }
		nearly := func(at string) bool { return strings.EqualFold(at, path) }
		if removeFirst(root, "", exactly) || removeFirst(root, "", nearly) {
			return path, true
		}
	}
	return "", false
}

// removeFirst removes the first value whose path is meant, and reports whether there is one.
func removeFirst(node *tree.Node, path string, meant func(path string) bool) bool {
	for i, f := range node.Fields {
		at := fieldpath.Join(path, f.Name)
		if meant(at) {
			node.Fields = slices.Delete(slices.Clone(node.Fields), i, i+1)
			return true
		}
		if removeFirst(f.Value, at, meant) {
			return true
		}
	}
	for i, item := range node.Items {
		at := fieldpath.Element(path, i)
		if meant(at) {
			node.Items = slices.Delete(slices.Clone(node.Items), i, i+1)
			return true
		}
		if removeFirst(item, at, meant) {
			return true
		}
	}
	return false
}
