package lastgood

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

const file = "/etc/kcmd/config.yaml"

func sample(text string) Kept {
	return Kept{Text: []byte(text), Hash: "5d41402abc4b", Program: "v1.36.3-kcmd.0", At: time.Date(2026, 11, 23, 9, 0, 0, 0, time.UTC)}
}

func encoded(t *testing.T, k Kept, file string) []byte {
	t.Helper()
	line, err := lineAfter(k, file)
	if err != nil {
		t.Fatal(err)
	}
	return append(bytes.Clone(k.Text), line...)
}

func TestTheTextIsKeptByteForByte(t *testing.T) {
	for name, text := range map[string]string{
		"a file":                 "apiVersion: config.kcmd.dev/v1beta1\nkind: x\n",
		"no line break":          "kind: x",
		"line breaks at the end": "kind: x\n\n\n",
		"nothing":                "",
		"other line breaks":      "kind: x\r\n",
		"the copy of a kept one": string(encoded(t, sample("kind: x"), file)),
		"bytes of any kind":      "\xff\xfe\x00k\x00",
	} {
		t.Run(name, func(t *testing.T) {
			want := sample(text)
			data := encoded(t, want, file)
			got, err := decode(data, file)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(&want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			if !bytes.HasPrefix(data, want.Text) {
				t.Error("the text is not at the beginning, so positions in it are others")
			}
		})
	}
}

// A file of which only the beginning is there is never taken for a whole one.
func TestAPartOfTheFileIsRecognized(t *testing.T) {
	for _, text := range []string{"kind: x\n", "kind: x"} {
		data := encoded(t, sample(text), file)
		for n := range data {
			if _, err := decode(data[:n], file); err == nil {
				t.Errorf("the first %d of %d bytes are accepted", n, len(data))
			}
		}
	}
}

func TestAChangedByteIsRecognized(t *testing.T) {
	for _, text := range []string{"kind: x\n", "kind: x"} {
		data := encoded(t, sample(text), file)
		for n := range data {
			changed := bytes.Clone(data)
			changed[n] ^= 1
			if _, err := decode(changed, file); err == nil {
				t.Errorf("byte %d of %d may change", n, len(data))
			}
		}
	}
}

func TestWhyAFileIsIgnored(t *testing.T) {
	good := string(encoded(t, sample("kind: x\n"), file))
	// resealed is a file with another last line, and the checksum of that.
	resealed := func(old, new string) string {
		said, _, _ := strings.Cut(strings.Replace(good, old, new, 1), seal)
		return said + seal + checksum(said) + "\n"
	}
	for name, c := range map[string]struct{ data, want string }{
		"written by somebody else":   {"apiVersion: config.kcmd.dev/v1beta1\nkind: x\n", errIncomplete.Error()},
		"empty":                      {"", errIncomplete.Error()},
		"cut off":                    {good[:len(good)-1], errIncomplete.Error()},
		"without a checksum":         {"kind: x\n" + mark + "{}\n", errIncomplete.Error()},
		"edited":                     {strings.Replace(good, "kind: x", "kind: y", 1), errChanged.Error()},
		"something after it":         {good + "# mine\n", errIncomplete.Error()},
		"of another version":         {resealed(`"format":1`, `"format":2`), "it has format 2, and this version of the program reads format 1"},
		"of another file":            {string(encoded(t, sample("kind: x\n"), "/elsewhere.yaml")), "it was kept for another file, /elsewhere.yaml"},
		"a longer text than it has":  {resealed(`"bytes":8`, `"bytes":9`), errChanged.Error()},
		"a shorter text than it has": {resealed(`"bytes":8`, `"bytes":2`), errChanged.Error()},
		"a negative length":          {resealed(`"bytes":8`, `"bytes":-1`), errChanged.Error()},
		"a line that is not JSON":    {resealed(`{"format"`, `["format"`), "decoding its last line: invalid character ':' after array element"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := decode([]byte(c.data), file)
			if err == nil {
				t.Fatalf("it is accepted: %+v", got)
			}
			if err.Error() != c.want {
				t.Errorf("got %q, want %q", err, c.want)
			}
		})
	}
}
