// Package report writes what commands found for programs, in JSON and in YAML.
package report

import (
	"encoding/json"
	"fmt"
	"io"

	"sigs.k8s.io/yaml"
)

// APIVersion is that of every report. Fields may be added, none are removed or renamed.
const APIVersion = "cli.kcmd.dev/v1"

// JSON writes a report in JSON.
func JSON(out io.Writer, report any) error {
	encoder := json.NewEncoder(out)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(report); err != nil {
		return fmt.Errorf("writing the report: %w", err)
	}
	return nil
}

// YAML writes what JSON writes as YAML.
func YAML(out io.Writer, report any) error {
	data, err := yaml.Marshal(report)
	if err != nil {
		return fmt.Errorf("writing the report: %w", err)
	}
	_, err = out.Write(data)
	return err
}
