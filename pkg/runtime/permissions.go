package runtime

import (
	"bytes"
	"context"
	"io/fs"
	"os"

	"k8s.io/klog/v2"

	"kcmd.dev/pkg/config"
	"kcmd.dev/pkg/config/v1beta1"
)

// Permissions of everybody on the machine.
const (
	anybodyWrites fs.FileMode = 0o002
	anybodyReads  fs.FileMode = 0o004
)

// secrets are what files hold that grant something to whoever reads them: private keys, and
// the credentials in a kubeconfig.
var secrets = [][]byte{
	[]byte("PRIVATE KEY-----"), []byte("client-key-data:"), []byte("token:"), []byte("password:"),
}

// warnOfPermissions logs which of the files that the process works by are open to
// everybody. Nothing is refused on that account: who may change a file can be more than
// its mode says, as in the volumes of a pod.
func warnOfPermissions(ctx context.Context, file string, c *v1beta1.KubeControllerManagerConfiguration) {
	for _, name := range append([]string{file}, config.NamedFiles(c)...) {
		if problem := permissionProblem(name); problem != "" {
			klog.FromContext(ctx).Info("The permissions of a file are too wide", "file", name, "problem", problem)
		}
	}
}

// permissionProblem says what everybody may do with a file that they should not, empty if
// nothing. A file that cannot be read is somebody else's problem.
func permissionProblem(name string) string {
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
	content, err := os.ReadFile(name)
	if err != nil || !holdsSecret(content) {
		return ""
	}
	return "anybody on this machine may read it, and it holds a private key or credentials"
}

func holdsSecret(content []byte) bool {
	for _, mark := range secrets {
		if bytes.Contains(content, mark) {
			return true
		}
	}
	return false
}
