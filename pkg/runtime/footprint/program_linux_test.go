package footprint

import (
	"slices"
	"strings"
	"testing"
)

func TestReadMappings(t *testing.T) {
	got, err := readMappings(strings.NewReader(`00400000-01fa5000 r-xp 00000000 fe:00 9979022                            /usr/bin/a
Size:              28308 kB
Private_Dirty:         0 kB
Anonymous:             0 kB
Swap:                  0 kB
VmFlags: rd ex mr mw me
03fb3000-03fb4000 r--p 03bb3000 fe:00 9979022 /usr/bin/a
Private_Dirty:         4 kB
Anonymous:             4 kB
03fb4000-03fb5000 r--p 03bb4000 fe:00 9979022 /usr/bin/a
Private_Dirty:         0 kB
Swap:                  4 kB
212c42000000-212c46400000 rw-p 00000000 00:00 0 
Private_Dirty:     61368 kB
04000000-04001000 r--p 00000000 fe:00 9979022 /usr/bin/a (deleted)
Private_Dirty:         4 kB
05000000-05001000 r-xp 00000000 fe:00 9979022 /usr/bin/b
Private_Dirty:         4 kB
Anonymous:             0 kB
x-05000000 r-xp 00000000 fe:00 9979022 /usr/bin/a
`))
	if err != nil {
		t.Fatal(err)
	}
	want := []mapping{
		{0x400000, 0x1fa5000, "r-xp", "/usr/bin/a", false},
		{0x3fb3000, 0x3fb4000, "r--p", "/usr/bin/a", true},
		{0x3fb4000, 0x3fb5000, "r--p", "/usr/bin/a", true},
		{0x5000000, 0x5001000, "r-xp", "/usr/bin/b", false}, // just written
	}
	if !slices.Equal(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

// Nothing is given back that was changed, or can be: it would be lost.
func TestWhatEqualsTheFile(t *testing.T) {
	for permissions, want := range map[string]bool{"r-xp": true, "r--p": true, "rw-p": false, "rwxp": false, "r--s": false} {
		if got := (mapping{permissions: permissions}).equalsFile(); got != want {
			t.Errorf("%s: got %v", permissions, got)
		}
		if (mapping{permissions: permissions, own: true}).equalsFile() {
			t.Errorf("%s: what was changed is given back", permissions)
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
