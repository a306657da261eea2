package schema

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"
)

// docs are the doc comments of a package, each on one line.
type docs struct {
	types  map[string]string // by type name
	fields map[string]string // by Type.Field
}

// readDocs parses the source files of the package in dir.
func readDocs(dir string) (docs, error) {
	out := docs{types: map[string]string{}, fields: map[string]string{}}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return out, fmt.Errorf("reading the types: %w", err)
	}
	for _, entry := range entries {
		name := entry.Name()
		if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(dir, name), nil, parser.ParseComments)
		if err != nil {
			return out, fmt.Errorf("parsing the types: %w", err)
		}
		for _, declaration := range file.Decls {
			if general, ok := declaration.(*ast.GenDecl); ok && general.Tok == token.TYPE {
				out.addTypes(general)
			}
		}
	}
	return out, nil
}

func (d docs) addTypes(declaration *ast.GenDecl) {
	for _, spec := range declaration.Specs {
		typeSpec := spec.(*ast.TypeSpec)
		d.types[typeSpec.Name.Name] = oneLine(declaration.Doc.Text())
		structure, ok := typeSpec.Type.(*ast.StructType)
		if !ok {
			continue
		}
		for _, field := range structure.Fields.List {
			for _, name := range field.Names {
				d.fields[typeSpec.Name.Name+"."+name.Name] = oneLine(field.Doc.Text())
			}
		}
	}
}

func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }

// loggingDocs describes the fields of the published logging type, whose own comments are
// about its Go code.
var loggingDocs = map[string]string{
	"logging.format":                      "How log messages are written: text or json. Default: text. A change applies in place.",
	"logging.flushFrequency":              "Maximum time that a message is buffered. Default: 5s. Range: 1ms or more. A change applies in place.",
	"logging.verbosity":                   "Messages up to this level are written; errors always are. Default: 0, what an operator must see. A change applies in place.",
	"logging.vmodule":                     "A different verbosity for some source files. Default: none. Only with the format text. A change applies in place.",
	"logging.vmodule.filePattern":         "Name of a source file without .go, or a glob pattern for such names. Must not contain a comma or an equals sign.",
	"logging.vmodule.verbosity":           "Verbosity of messages from matching files.",
	"logging.options":                     "Settings of the formats. Needs the feature gate LoggingAlphaOptions.",
	"logging.options.text":                "Settings of the format text.",
	"logging.options.text.splitStream":    "Whether errors go to stderr and other messages, buffered, to stdout. Default: false. A change applies in place.",
	"logging.options.text.infoBufferSize": "Size in bytes of the buffer for stdout with splitStream. Default: 0, no buffer. A change applies in place.",
	"logging.options.json":                "Settings of the format json.",
	"logging.options.json.splitStream":    "Whether errors go to stderr and other messages, buffered, to stdout. Default: false. A change applies in place.",
	"logging.options.json.infoBufferSize": "Size in bytes of the buffer for stdout with splitStream. Default: 0, no buffer. A change applies in place.",
}
