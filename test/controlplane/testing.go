package controlplane

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"
)

// RunTests is the body of a TestMain: it starts one control plane for the
// package, hands it to set, runs the tests and stops it, and returns the exit
// code. SIGINT and SIGTERM stop it too and exit with 128 plus the signal's number.
// Options.Log defaults to stderr here.
//
//	func TestMain(m *testing.M) {
//		os.Exit(controlplane.RunTests(m, controlplane.Options{}, func(c *controlplane.ControlPlane) { plane = c }))
//	}
func RunTests(m *testing.M, o Options, set func(*ControlPlane)) (code int) {
	if o.Log == nil {
		o.Log = os.Stderr
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	defer signal.Stop(signals)

	started := make(chan *ControlPlane, 1)
	go func() {
		received, ok := (<-signals).(syscall.Signal)
		if !ok {
			return
		}
		cancel(fmt.Errorf("received signal %v", received))
		if c := <-started; c != nil {
			if err := c.Stop(); err != nil {
				fmt.Fprintln(os.Stderr, "stopping the control plane:", err)
			}
		}
		os.Exit(128 + int(received))
	}()

	c, err := Start(ctx, o)
	started <- c
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() {
		if err := c.Err(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
		if err := c.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, "stopping the control plane:", err)
			code = 1
		}
	}()
	defer logToFile(c.logFile("libraries"))()
	set(c)
	return m.Run()
}

// logToFile has what libraries log globally go to a file, so that the output of a failed test
// is about the test; errors go to stderr, too. Managers have logs of their own.
func logToFile(path string) (end func()) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		fmt.Fprintln(os.Stderr, "logging to a file:", err)
		return func() {}
	}
	klog.LogToStderr(false)
	klog.SetOutput(file)
	return func() {
		klog.Flush()
		klog.LogToStderr(true)
		_ = file.Close()
	}
}

// AdminClient returns a client for the administrator; see AdminConfig.
func (c *ControlPlane) AdminClient() kubernetes.Interface { return c.client }

// namespaceDeletion bounds the best effort at the end of a test.
const namespaceDeletion = 5 * time.Second

// Namespace creates a namespace named after the test and returns its name. It is
// deleted at the end of the test; that needs a manager to come to its end.
func (c *ControlPlane) Namespace(t testing.TB) string {
	t.Helper()
	name := namespaceName(t.Name(), rand.String(5))
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if _, err := c.client.CoreV1().Namespaces().Create(t.Context(), namespace, metav1.CreateOptions{}); err != nil {
		t.Fatalf("creating the test's namespace: %v", err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), namespaceDeletion)
		defer cancel()
		err := c.client.CoreV1().Namespaces().Delete(ctx, name, metav1.DeleteOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			t.Logf("deleting the test's namespace: %v", err)
		}
	})
	return name
}

// namespaceName makes a valid name of a test's name and a suffix.
func namespaceName(test, suffix string) string {
	const longest = 50
	name := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9':
			return r
		case r >= 'A' && r <= 'Z':
			return r - 'A' + 'a'
		}
		return '-'
	}, test)
	if len(name) > longest {
		name = name[:longest]
	}
	name = strings.Trim(name, "-")
	if name == "" {
		name = "test"
	}
	return name + "-" + suffix
}
