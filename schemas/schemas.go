// Package schemas holds the JSON Schemas of the configuration in the program, as they are
// in this folder.
package schemas

import (
	"embed"
	"fmt"
	"io/fs"
	"slices"
	"strings"
)

//go:embed *.schema.json
var files embed.FS

const (
	prefix = "kubecontrollermanagerconfiguration-"
	suffix = ".schema.json"
)

// Versions lists the versions that have a schema.
func Versions() []string {
	names, err := fs.Glob(files, prefix+"*"+suffix)
	if err != nil {
		panic(err) // the pattern is a constant
	}
	versions := make([]string, 0, len(names))
	for _, name := range names {
		versions = append(versions, strings.TrimSuffix(strings.TrimPrefix(name, prefix), suffix))
	}
	slices.Sort(versions)
	return versions
}

// Read returns the schema of a version such as v1beta1.
func Read(version string) ([]byte, error) {
	data, err := files.ReadFile(prefix + version + suffix)
	if err != nil {
		return nil, fmt.Errorf("there is no schema of version %q, only of %s", version, strings.Join(Versions(), ", "))
	}
	return data, nil
}
