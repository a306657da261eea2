// Command gen writes the JSON Schema of the configuration. Run it from the root
// of the module: go run ./pkg/config/schema/gen
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"

	"kcmd.dev/pkg/config/schema"
)

func main() {
	types := flag.String("types", filepath.Join("pkg", "config", "v1beta1"), "folder with the source of the types")
	out := flag.String("out", filepath.Join("schemas", schema.FileName), "file to write")
	flag.Parse()
	if err := write(*types, *out); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func write(types, out string) error {
	data, err := schema.Generate(types)
	if err != nil {
		return fmt.Errorf("generating the schema: %w", err)
	}
	if err := os.WriteFile(out, data, 0o644); err != nil {
		return fmt.Errorf("writing the schema: %w", err)
	}
	return nil
}
