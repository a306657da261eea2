// Command gen writes what is made from the types of the configuration: the JSON Schemas,
// the reference and the sample with every field. Run it from the root of the module: go run ./pkg/config/schema/gen
//
// With -check it writes nothing, and fails if a file is not up to date.
package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"

	"kcmd.dev/pkg/config/schema"
)

func main() {
	types := flag.String("types", filepath.Join("pkg", "config", "v1beta1"), "folder with the source of the types")
	out := flag.String("out", ".", "folder whose schemas, configs and docs are written")
	check := flag.Bool("check", false, "write nothing, and fail if a file is not up to date")
	flag.Parse()
	if err := run(*types, *out, *check); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// output is one file that is made.
type output struct {
	path string
	make func(types string) ([]byte, error)
}

func run(types, out string, check bool) error {
	outputs := []output{
		{filepath.Join(out, "schemas", schema.FileName), schema.Generate},
		{filepath.Join(out, "schemas", filepath.FromSlash(schema.CatalogFileName)), schema.Generate},
		{filepath.Join(out, "schemas", schema.V1alpha1FileName), generateUpstream},
		{filepath.Join(out, "schemas", filepath.FromSlash(schema.V1alpha1CatalogFileName)), generateUpstream},
		{filepath.Join(out, "configs", schema.SampleFileName), schema.Sample},
		{filepath.Join(out, "docs", schema.ReferenceFileName), schema.Reference},
	}
	finish := write
	if check {
		finish = compare
	}
	var errs []error
	for _, o := range outputs {
		data, err := o.make(types)
		if err != nil {
			return fmt.Errorf("generating %s: %w", o.path, err)
		}
		errs = append(errs, finish(o.path, data))
	}
	return errors.Join(errs...)
}

// generateUpstream needs no source: the table of the conversion describes the fields.
func generateUpstream(string) ([]byte, error) { return schema.GenerateV1alpha1() }

func write(path string, data []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("writing what was generated: %w", err)
	}
	if err := os.WriteFile(path, data, 0o644); err != nil {
		return fmt.Errorf("writing what was generated: %w", err)
	}
	return nil
}

func compare(path string, want []byte) error {
	got, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("reading what was generated: %w", err)
	}
	if !bytes.Equal(got, want) {
		return fmt.Errorf("%s is not up to date: run make generate", path)
	}
	return nil
}
