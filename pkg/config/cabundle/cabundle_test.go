package cabundle

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"kcmd.dev/test/pki"
)

// Pins ROOTCA-44 and ROOTCA-47.
func TestCheck(t *testing.T) {
	pair := pki.CA(t, time.Now())
	comment := []byte("# internal\n")
	encrypted := []byte("-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n")
	for name, tc := range map[string]struct {
		bundle  []byte
		refused string
	}{
		"certificates and comments":        {slices.Concat(comment, pair.Cert, comment, pair.Cert), ""},
		"nothing":                          {nil, "data does not contain any valid"},
		"no certificate":                   {pair.Key, "data does not contain any valid"},
		"key after the certificate":        {slices.Concat(pair.Cert, pair.Key), "private key"},
		"key before the certificate":       {slices.Concat(pair.Key, comment, pair.Cert), "private key"},
		"key that needs a password to use": {slices.Concat(pair.Cert, encrypted), "private key"},
		"key after a byte order mark":      {slices.Concat([]byte("\uFEFF"), pair.Key, pair.Cert), "private key"},
		"key that is indented":             {slices.Concat(pair.Cert, []byte("  "), pair.Key), "private key"},
		"key without an end":               {slices.Concat(pair.Key[:100], []byte("\n"), pair.Cert), "private key"},
		"certificate without an end":       {slices.Concat(pair.Cert, pair.Cert[:100]), "incomplete"},
		"certificate with half an end":     {slices.Concat(pair.Cert, pair.Cert[:len(pair.Cert)-10]), "incomplete"},
		"certificate cut off by another":   {slices.Concat(pair.Cert[:100], []byte("\n"), pair.Cert), "incomplete"},
		"certificate that is indented":     {slices.Concat(pair.Cert, []byte("  "), pair.Cert), "incomplete"},
		"certificate in a comment":         {slices.Concat(pair.Cert, commented(pair.Cert), comment, pair.Cert), ""},
		"cut off after one in a comment":   {slices.Concat(commented(pair.Cert), pair.Cert, pair.Cert[:100]), "incomplete"},
	} {
		t.Run(name, func(t *testing.T) {
			err := Check(tc.bundle)
			if (err != nil) != (tc.refused != "") || err != nil && !strings.Contains(err.Error(), tc.refused) {
				t.Fatalf("got %v, want %q", err, tc.refused)
			}
			if err != nil && strings.Contains(err.Error(), "BEGIN") {
				t.Error("the error shows what is in the file")
			}
			if isKey := errors.Is(CheckPublishable(tc.bundle), errPrivateKey); isKey != (strings.Contains(name, "key") || name == "no certificate") {
				t.Errorf("CheckPublishable says %v", isKey)
			}
		})
	}
}

// commented returns the lines of a text as comments.
func commented(text []byte) (comment []byte) {
	for line := range bytes.Lines(text) {
		comment = append(append(comment, "# "...), line...)
	}
	return comment
}
