package table

import (
	"strings"
	"testing"
)

func TestWrite(t *testing.T) {
	table := New("NAME", "N", "WHAT")
	table.Row("ä", "100", "one\ntwo")
	table.Row("longer", "", "\x1b[2J")
	var out strings.Builder
	if err := table.Write(&out); err != nil {
		t.Fatal(err)
	}
	if want := "NAME    N    WHAT\nä       100  one two\nlonger       \uFFFD[2J\n"; out.String() != want {
		t.Errorf("the table is\n%q\nwant\n%q", out.String(), want)
	}
	out.Reset()
	table.Style = func(row, column int, cell, padded string) string {
		if row == 1 && column == 1 && cell == "100" {
			return "<" + padded + ">"
		}
		return padded
	}
	if err := table.WriteBody(&out); err != nil {
		t.Fatal(err)
	}
	if want := "ä       <100  >one two\nlonger       \uFFFD[2J\n"; out.String() != want {
		t.Errorf("the table is\n%q\nwant\n%q", out.String(), want)
	}
}
