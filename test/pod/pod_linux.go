package pod

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"

	"kcmd.dev/test/must"
)

// account is where a pod finds the credentials of its service account.
const account = "/var/run/secrets/kubernetes.io/serviceaccount/"

// Inside calls f where there is nothing but some files, by their paths, and the credentials of a service account. It
// skips the test without the right to change the root directory.
func Inside(t *testing.T, files map[string]string, f func()) {
	t.Helper()
	t.Setenv("KUBERNETES_SERVICE_HOST", "pod.test")
	t.Setenv("KUBERNETES_SERVICE_PORT", "443")
	root := t.TempDir()
	write := func(path, content string) {
		path = filepath.Join(root, path)
		must.Succeed(t, os.MkdirAll(filepath.Dir(path), 0o755))
		must.Succeed(t, os.WriteFile(path, []byte(content), 0o600))
	}
	write(account+"token", "of the service account")
	for path, content := range files {
		write(path, content)
	}
	entered := make(chan error, 1)
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // not unlocked: the thread ends with its root directory
		err := syscall.Unshare(syscall.CLONE_FS)
		if err == nil {
			err = syscall.Chroot(root)
		}
		entered <- err
		if err == nil {
			f()
		}
	}()
	<-done
	err := <-entered
	if errors.Is(err, syscall.EPERM) {
		t.Skip("this needs the right to change the root directory")
	}
	must.Succeed(t, err)
}
