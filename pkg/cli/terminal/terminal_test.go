package terminal

import (
	"os"
	"strings"
	"testing"
)

func TestColorsAreForTerminals(t *testing.T) {
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	tests := []struct {
		when    When
		noColor string
		want    bool
	}{{Auto, "", false}, {Always, "", true}, {Always, "1", true}, {Never, "", false}}
	for _, test := range tests {
		for _, c := range []Colors{ColorsFor(test.when, null, test.noColor), ColorsFor(test.when, &strings.Builder{}, test.noColor)} {
			if got := c.Red("x") != "x"; got != test.want {
				t.Errorf("%s: colours are %t, want %t", test.when, got, test.want)
			}
		}
	}
	if c := ColorsFor(Always, nil, ""); c.Green("x") != "\x1b[32mx\x1b[0m" || c.Bold("") != "" {
		t.Error("the codes are wrong")
	}
}

func TestParseWhen(t *testing.T) {
	for _, good := range []string{"auto", "always", "never"} {
		if when, err := ParseWhen(good); err != nil || string(when) != good {
			t.Errorf("%s: %v, %v", good, when, err)
		}
	}
	if _, err := ParseWhen("sometimes"); err == nil || err.Error() != `must be auto, always or never, not "sometimes"` {
		t.Errorf("error is %v", err)
	}
}
