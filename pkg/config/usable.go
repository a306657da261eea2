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
		bad := existing(root, r.Failed())
		if _, everything := bad[""]; everything {
			return nil, nil
		}
		for _, path := range bad {
			out[path] = true
		}
		root = without(root, "", bad)
	}
	return nil, nil
}

// existing are the values of a tree that some paths mean, with the path that means each: for one that the tree
// does not have, it is what is around it. What is within another one of them is left out. The names of
// upstream's fields are found in any letter case, as they are read.
func existing(root *tree.Node, paths map[string]bool) map[string]string {
	exactly, nearly := map[string]string{"": ""}, map[string]string{}
	each(root, "", func(path string) { exactly[path], nearly[strings.ToLower(path)] = path, path })
	out := map[string]string{}
	for path := range paths {
		at, ok := exactly[path]
		for ; !ok; at, ok = exactly[path] {
			if at, ok = nearly[strings.ToLower(path)]; ok {
				break
			}
			path = fieldpath.Parent(path)
		}
		out[at] = path
	}
	maps.DeleteFunc(out, func(path, _ string) bool {
		for path != "" {
			path = fieldpath.Parent(path)
			if _, around := out[path]; around {
				return true
			}
		}
		return false
	})
	return out
}

// each calls f with the path of every value below a node.
func each(node *tree.Node, path string, f func(path string)) {
	for _, field := range node.Fields {
		at := fieldpath.Join(path, field.Name)
		f(at)
		each(field.Value, at, f)
	}
	for i, item := range node.Items {
		at := fieldpath.Element(path, i)
		f(at)
		each(item, at, f)
	}
}

// without is a tree without the values at some paths.
func without(node *tree.Node, path string, bad map[string]string) *tree.Node {
	out := *node
	out.Fields, out.Items = nil, nil
	for _, field := range node.Fields {
		at := fieldpath.Join(path, field.Name)
		if _, ok := bad[at]; !ok {
			field.Value = without(field.Value, at, bad)
			out.Fields = append(out.Fields, field)
		}
	}
	for i, item := range node.Items {
		at := fieldpath.Element(path, i)
		if _, ok := bad[at]; !ok {
			out.Items = append(out.Items, without(item, at, bad))
		}
	}
	return &out
}
