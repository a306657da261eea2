package footprint

import "testing"

func TestParseMapping(t *testing.T) {
	for line, want := range map[string]mapping{
		"00400000-01fa5000 r-xp 00000000 fe:00 9979022                            /usr/bin/a": {0x400000, 0x1fa5000, "r-xp", "/usr/bin/a"},
		"212c42000000-212c46400000 rw-p 00000000 00:00 0 ":                                    {},
		"00400000-01fa5000 r-xp 00000000 fe:00 9979022 /usr/bin/a (deleted)":                  {},
		"x-01fa5000 r-xp 00000000 fe:00 9979022 /usr/bin/a":                                   {},
		"00400000 r-xp 00000000 fe:00 9979022 /usr/bin/a":                                     {},
	} {
		if got, ok := parseMapping(line); got != want || ok != (want != mapping{}) {
			t.Errorf("%s: got %+v", line, got)
		}
	}
}

// Nothing is given back that could have been changed: it would be lost.
func TestWhatEqualsTheFile(t *testing.T) {
	for permissions, want := range map[string][2]bool{ // not relocated, relocated
		"r-xp": {true, true}, "r--p": {true, false}, "rw-p": {}, "rwxp": {}, "r--s": {},
	} {
		m := mapping{permissions: permissions}
		if got := [2]bool{m.equalsFile(false), m.equalsFile(true)}; got != want {
			t.Errorf("%s: got %v, want %v", permissions, got, want)
		}
	}
}

// The program goes on.
func TestDropProgram(t *testing.T) {
	for range 3 {
		if err := dropProgram(); err != nil {
			t.Fatal(err)
		}
	}
}
