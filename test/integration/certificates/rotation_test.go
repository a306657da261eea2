package certificates

import (
	"context"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kcmd.dev/pkg/config/v1beta1"
	"kcmd.dev/pkg/runtime"
	"kcmd.dev/test/await"
	"kcmd.dev/test/integration/harness"
	"kcmd.dev/test/manager"
	"kcmd.dev/test/must"
	"kcmd.dev/test/pki"
)

// inLog waits until what the log has gained contains a text.
func inLog(t *testing.T, from int, texts ...string) {
	t.Helper()
	await.That(t, fmt.Sprintf("the log says %q", texts), func(context.Context) error {
		log := string(must.Get(os.ReadFile(cluster.Manager.LogFile()))(t))[from:]
		for line := range strings.Lines(log) {
			all := true
			for _, text := range texts {
				all = all && strings.Contains(line, text)
			}
			if all {
				return nil
			}
		}
		return errors.New("it does not")
	})
}

func logSize(t *testing.T) int {
	t.Helper()
	return int(must.Get(os.Stat(cluster.Manager.LogFile()))(t).Size())
}

// generations counts the instances that each controller has had.
func generations(t *testing.T) map[string]uint64 {
	t.Helper()
	all := map[string]uint64{}
	for _, c := range harness.Status(t, cluster.Manager).Controllers {
		all[c.Name] = c.Generation
	}
	return all
}

func sameGenerations(t *testing.T, before map[string]uint64) {
	t.Helper()
	for name, generation := range generations(t) {
		if generation != before[name] {
			t.Errorf("%s was restarted", name)
		}
	}
}

// use has the CA of users taken from files, and from those of the cluster in the end.
func use(t *testing.T, ca v1beta1.SigningCA) {
	t.Helper()
	before := cluster.Manager.Config().Controllers.CSRSigning.KubeAPIServerClient
	cluster.Restore(t, func(c *manager.Config) { c.Controllers.CSRSigning.KubeAPIServerClient = before })
	harness.CarryOut(t, cluster.Manager, func(c *manager.Config) { c.Controllers.CSRSigning.KubeAPIServerClient = ca })
}

// TestTheCAFollowsItsFiles is not parallel: it edits the manager's configuration. What is read
// of a pair, good or bad, restarts nothing, and what is known of its key is nowhere.
// Pins CSRS-53, CSRS-58 and CSRS-67.
func TestTheCAFollowsItsFiles(t *testing.T) {
	now, folder := time.Now(), t.TempDir()
	first, second, expired := pki.CA(t, now), pki.CA(t, now), pki.CA(t, now.AddDate(-3, 0, 0))
	certFile, keyFile := first.Write(t, folder)
	use(t, v1beta1.SigningCA{CertFile: certFile, PrivateKeyFile: keyFile})
	must.Succeed(t, cluster.Manager.WaitRunning(t.Context()))
	signedBy := func(name string, ca pki.Pair) {
		t.Helper()
		must.Succeed(t, obtain(t, pki.Key(t), ofUser(name)).CheckSignatureFrom(pki.Parse(t, ca.Cert)))
	}
	signedBy("first", first)
	before, duration := generations(t), cluster.Manager.Config().Controllers.CSRSigning.CertificateDuration

	from := logSize(t)
	pki.WriteFile(t, certFile, second.Cert)
	inLog(t, from, "cannot be used; the previous one stays in force", certFile, "private key does not match public key")
	signedBy("half", first)
	pki.WriteFile(t, keyFile, second.Key)
	inLog(t, from, "The CA of a signer has changed\"", certFile)
	signedBy("second", second)

	for _, bad := range []struct {
		what string
		pair pki.Pair
		says string
	}{
		{"expired", expired, "the certificate has expired: NotAfter="},
		{"half", pki.Pair{Cert: second.Cert, Key: second.Key[:len(second.Key)/2]},
			"failed to find any PEM data in key input"},
		{"switched", pki.Pair{Cert: second.Key, Key: second.Cert}, "PEM inputs may have been switched"},
	} {
		from = logSize(t)
		bad.pair.Write(t, folder)
		inLog(t, from, "cannot be used; the previous one stays in force", certFile, bad.says)
		signedBy(bad.what, second)
	}
	// An edit that concerns something else is made nevertheless.
	must.Succeed(t, cluster.Manager.Edit(t.Context(), func(c *manager.Config) { c.Logging.Verbosity++ }))
	sameGenerations(t, before)
	// One that restarts the controller would have the files read.
	err := cluster.Manager.Edit(t.Context(), func(c *manager.Config) {
		c.Controllers.CSRSigning.CertificateDuration = &metav1.Duration{Duration: 24 * time.Hour}
	})
	if err == nil || !strings.Contains(err.Error(), certFile) {
		t.Errorf("the edit is accepted: %v", err)
	}
	must.Succeed(t, cluster.Manager.Edit(t.Context(), func(c *manager.Config) {
		c.Controllers.CSRSigning.CertificateDuration = duration
		c.Logging.Verbosity-- // what is in force already would be no edit
	}))
	sameGenerations(t, before)
	// Files that can be read and contain a CA that has expired are no reason to reject it: the CA in force is handed over.
	from = logSize(t)
	expired.Write(t, folder)
	inLog(t, from, "cannot be used; the previous one stays in force", certFile, "the certificate has expired: NotAfter=")
	harness.CarryOut(t, cluster.Manager, func(c *manager.Config) {
		c.Controllers.CSRSigning.CertificateDuration = &metav1.Duration{Duration: 24 * time.Hour}
	})
	if generations(t)[signing] == before[signing] {
		t.Error("the edit does not restart the controller")
	}
	signedBy("kept", second)
	harness.CarryOut(t, cluster.Manager, func(c *manager.Config) {
		c.Controllers.CSRSigning.CertificateDuration = duration
	})
	signedBy("kept-again", second)
	before = generations(t)
	from = logSize(t)
	second.Write(t, folder)
	inLog(t, from, "The files contain the CA in force again", certFile)
	sameGenerations(t, before)

	secrets := []pki.Pair{first, second, expired, {Key: must.Get(os.ReadFile(cluster.RootCAKeyFile()))(t)}}
	wantNowhere(t, secrets, err)
}

// wantNowhere fails if a part of a key is anywhere that somebody can see.
func wantNowhere(t *testing.T, secrets []pki.Pair, errs ...error) {
	t.Helper()
	seen := map[string]string{"the log": string(must.Get(os.ReadFile(cluster.Manager.LogFile()))(t)), "an error": fmt.Sprint(errs)}
	for _, page := range []string{"/statusz", "/configz", "/metrics", "/healthz?verbose", "/debug/pprof/goroutine?debug=2"} {
		if content, err := cluster.Manager.Get(t.Context(), page); err == nil {
			seen[page] = string(content)
		} else if !strings.Contains(page, "pprof") {
			t.Error(err)
		}
	}
	events := must.Get(admin.CoreV1().Events(metav1.NamespaceAll).List(t.Context(), metav1.ListOptions{}))(t)
	seen["the events"] = fmt.Sprint(events.Items)
	status := harness.Status(t, cluster.Manager)
	seen["the status"] = fmt.Sprintf("%+v", status)
	for _, secret := range secrets {
		for _, part := range partsOf(t, secret.Key) {
			for where, content := range seen {
				if strings.Contains(content, part) {
					t.Errorf("%s has a part of a key", where)
				}
			}
		}
	}
	if !strings.Contains(seen["the log"], "The CA of a signer has changed") || !strings.Contains(seen["/configz"], "ca.key") || len(seen["/metrics"]) < 1000 {
		t.Error("what was looked at is not what it should be")
	}
}

// partsOf are the lines of a key in PEM, and what else they may be taken for.
func partsOf(t *testing.T, key []byte) []string {
	t.Helper()
	block, _ := pem.Decode(key)
	if block == nil {
		t.Fatal("no key")
	}
	parts := []string{base64.StdEncoding.EncodeToString(key), fmt.Sprintf("%x", block.Bytes), fmt.Sprint(block.Bytes)}
	for line := range strings.Lines(string(key)) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "-----") {
			parts = append(parts, line, base64.StdEncoding.EncodeToString([]byte(line)))
		}
	}
	return parts
}

// Pins CSRS-59 and CSRS-60.
func TestAnEditWithABadCAIsRejected(t *testing.T) {
	now, folder := time.Now(), t.TempDir()
	expired := filepath.Join(folder, "expired")
	must.Succeed(t, os.Mkdir(expired, 0o700))
	certFile, keyFile := pki.CA(t, now.AddDate(-3, 0, 0)).Write(t, expired)
	otherCert, _ := pki.CA(t, now).Write(t, folder)
	before, inForce := generations(t), cluster.Manager.Config().Controllers.CSRSigning.KubeAPIServerClient
	for name, tc := range map[string]struct {
		ca   v1beta1.SigningCA
		want []string
	}{
		"expired":            {v1beta1.SigningCA{CertFile: certFile, PrivateKeyFile: keyFile}, []string{"kubeAPIServerClient.certFile", certFile, "has expired"}},
		"the wrong key":      {v1beta1.SigningCA{CertFile: otherCert, PrivateKeyFile: keyFile}, []string{"kubeAPIServerClient.certFile", otherCert, "do not match"}},
		"without its key":    {v1beta1.SigningCA{CertFile: otherCert}, []string{"kubeAPIServerClient.certFile", "needs privateKeyFile"}},
		"a missing file":     {v1beta1.SigningCA{CertFile: otherCert + ".gone", PrivateKeyFile: keyFile}, []string{otherCert + ".gone does not exist"}},
		"a key in its place": {v1beta1.SigningCA{CertFile: keyFile, PrivateKeyFile: keyFile}, []string{keyFile, "contains no certificates"}},
	} {
		t.Run(name, func(t *testing.T) {
			err := cluster.Manager.Edit(t.Context(), func(c *manager.Config) { c.Controllers.CSRSigning.KubeAPIServerClient = tc.ca })
			for _, want := range tc.want {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("error %v, want %s", err, want)
				}
			}
		})
	}
	must.Succeed(t, cluster.Manager.Edit(t.Context(), func(c *manager.Config) {
		c.Controllers.CSRSigning.KubeAPIServerClient = inForce
		c.Logging.Verbosity++ // what is in force already would be no edit
	}))
	sameGenerations(t, before)
}

// The controllers share the name of their queue, and so its series. Pins CSRS-17 and CSRS-64.
func TestMetrics(t *testing.T) {
	t.Parallel()
	obtain(t, pki.Key(t), ofUser("metrics"))
	metrics := string(must.Get(cluster.Manager.Get(t.Context(), "/metrics"))(t))
	for _, series := range []string{"workqueue_depth", "workqueue_adds_total", "workqueue_retries_total", "workqueue_work_duration_seconds_count"} {
		if got := strings.Count(metrics, "\n"+series+`{name="certificate"} `); got != 1 {
			t.Errorf("%s is there %d times", series, got)
		}
	}
	if strings.Contains(metrics, "DynamicCABundle-csr-controller") {
		t.Error("there is a queue of file loaders")
	}
	health := string(must.Get(cluster.Manager.Get(t.Context(), "/healthz?verbose"))(t))
	for _, name := range []string{signing, approving, "certificatesigningrequest-cleaner-controller"} {
		if !strings.Contains(health, "[+]"+name+" ok") {
			t.Errorf("CSRS-44: no check of %s:\n%s", name, health)
		}
	}
}

// A restarted controller signs what its predecessor left. Pins CSRS-53 and CSRA-24.
func TestARestartLosesNothing(t *testing.T) {
	switchOff := func(off bool) {
		t.Helper()
		harness.CarryOut(t, cluster.Manager, func(c *manager.Config) {
			on := !off
			c.Controllers.CSRSigning.Enabled, c.Controllers.CSRApproving.Enabled = &on, &on
		})
	}
	switchOff(true)
	csr := decide(t, create(t, admin, pki.Key(t), ofUser("left")), "Approved", metav1.Time{})
	user := "system:node:left"
	allow(t, user, "certificatesigningrequests")
	allow(t, user, "certificatesigningrequests/selfnodeclient")
	await.That(t, "requests can be created", func(ctx context.Context) error { return mayCreate(ctx, as(t, user)) })
	undecided := create(t, as(t, user), pki.Key(t), ofNode("left"))
	switchOff(false)
	issued(t, csr.Name)
	issued(t, undecided.Name)
	harness.Wait(t, cluster.Manager, "nothing is left to do", func(s *runtime.Status) error { return harness.QueuesAreEmpty(s) })
}
