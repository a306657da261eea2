// Package table lays out text in columns for people.
package table

import (
	"io"
	"strings"
	"unicode/utf8"

	"kcmd.dev/pkg/runtime/plain"
)

// gap is the space between two columns.
const gap = 2

// Table is rows of cells. The last column is not padded.
type Table struct {
	rows [][]string
	// Style, if set, decorates a cell that has been padded. It must not change how wide
	// the cell looks. Row 0 is the head.
	Style func(row, column int, cell, padded string) string
}

// New makes a table with a head.
func New(head ...string) *Table { return &Table{rows: [][]string{head}} }

// Row adds a row.
func (t *Table) Row(cells ...string) { t.rows = append(t.rows, cells) }

// Write writes the table. Line breaks in cells become spaces; other control characters are replaced.
func (t *Table) Write(out io.Writer) error { return t.write(out, 0) }

// WriteBody writes the table without its head.
func (t *Table) WriteBody(out io.Writer) error { return t.write(out, 1) }

func (t *Table) write(out io.Writer, first int) error {
	widths := t.widths(first)
	var text strings.Builder
	for r, row := range t.rows {
		if r < first {
			continue
		}
		line := strings.Builder{}
		for c, cell := range row {
			padded := cell
			if c < len(row)-1 {
				padded += strings.Repeat(" ", widths[c]-utf8.RuneCountInString(cell)+gap)
			}
			if t.Style != nil {
				padded = t.Style(r, c, cell, padded)
			}
			line.WriteString(padded)
		}
		text.WriteString(strings.TrimRight(line.String(), " "))
		text.WriteByte('\n')
	}
	_, err := io.WriteString(out, text.String())
	return err
}

// widths puts each cell on one line, and measures the columns.
func (t *Table) widths(first int) []int {
	var widths []int
	for _, row := range t.rows[first:] {
		for i, cell := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			row[i] = strings.TrimRight(plain.Text(lineBreaks.Replace(cell)), " ")
			widths[i] = max(widths[i], utf8.RuneCountInString(row[i]))
		}
	}
	return widths
}

var lineBreaks = strings.NewReplacer("\r\n", " ", "\n", " ", "\t", " ")
