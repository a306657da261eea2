package source

import (
	"bytes"
	"io/fs"
	"os"
	"slices"
)

// Permissions of everybody on the machine.
const (
	anybodyWrites fs.FileMode = 0o002
	anybodyReads  fs.FileMode = 0o004
)

// maxSecretBytes is the size up to which a file is searched for secrets.
const maxSecretBytes = 1 << 20

// secrets are contents of files that grant something to their readers: private keys, and the
// credentials in a kubeconfig.
var secrets = [][]byte{
	[]byte("PRIVATE KEY-----"), []byte("client-key-data:"), []byte("token:"), []byte("password:"),
}

// PermissionProblem describes unsafe permissions that everybody has on a file, empty if there
// are none. It ignores a file that cannot be read, and secrets in a file above 1 MiB, which nobody uses.
func PermissionProblem(name string) string {
	info, err := os.Stat(name)
	if err != nil || !info.Mode().IsRegular() {
		return ""
	}
	if info.Mode()&anybodyWrites != 0 {
		return "anybody on this machine may change it"
	}
	if info.Mode()&anybodyReads == 0 {
		return ""
	}
	content, _, err := Read(name, maxSecretBytes)
	if err != nil || !holdsSecret(content) {
		return ""
	}
	return "anybody on this machine may read it, and it contains a private key or credentials"
}

func holdsSecret(content []byte) bool {
	return slices.ContainsFunc(secrets, func(mark []byte) bool { return bytes.Contains(content, mark) })
}
