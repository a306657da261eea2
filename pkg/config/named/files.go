// Package named checks the files that a configuration names.
//
//  1. They exist and can be read, kubeconfigs load, PEM files hold what they are used for, and
//     certificates and keys belong together. Relative paths are relative to the working
//     directory. What nothing reads, because a controller is disabled or nothing is served, is
//     not checked.
//  2. What the configuration in force names in the same field was good when it came into force.
//     If it is bad now, that is no fault of the edit: whatever read the file continues with its
//     earlier content, so the problem is a warning. An edit that adds the name of a file, or
//     names it in another field, or with another key, is at fault.
package named

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"
	"sigs.k8s.io/yaml"

	"kcmd.dev/pkg/config/authority"
	"kcmd.dev/pkg/config/cabundle"
	"kcmd.dev/pkg/config/fieldpath"
	"kcmd.dev/pkg/config/problem"
	"kcmd.dev/pkg/config/rules"
	"kcmd.dev/pkg/config/tree"
	"kcmd.dev/pkg/config/v1beta1"
)

// MaxFileBytes is the largest file that is read because a configuration names it.
const MaxFileBytes = 16 << 20

// CheckStart is Check for a process that starts. A CA that has expired does not prevent the
// start: it is a warning here, and an error of the controller that signs with it.
func CheckStart(name string, cfg *v1beta1.KubeControllerManagerConfiguration, places tree.Places) problem.Errors {
	c := &fileChecker{report: &problem.Report{File: name}, places: places, starting: true}
	c.check(cfg)
	return c.report.Errors()
}

// Check checks, on this machine and now, the files that a configuration names, which was
// loaded under the given name. inForce is the configuration that it follows, or nil; a file
// that it names in the same field is no fault of the edit. bad lists these files if they are
// bad now.
func Check(name string, cfg *v1beta1.KubeControllerManagerConfiguration, places tree.Places,
	inForce *v1beta1.KubeControllerManagerConfiguration) (problems problem.Errors, bad []string) {
	c := &fileChecker{report: &problem.Report{File: name}, places: places, inForce: map[string]string{}}
	if inForce != nil {
		for _, n := range namesIn(inForce) {
			c.inForce[n.path] = n.name
		}
	}
	c.check(cfg)
	return c.report.Errors(), c.bad
}

// CheckFile is Check of one of the files that a configuration names, as for an edit that newly names it. It is nil for
// a file that it does not name.
func CheckFile(cfg *v1beta1.KubeControllerManagerConfiguration, name string) error {
	c := &fileChecker{report: &problem.Report{}, only: name}
	c.check(cfg)
	return errors.Join(c.failures...)
}

// Files lists the files that a configuration names and Check reads.
func Files(cfg *v1beta1.KubeControllerManagerConfiguration) []string {
	var names []string
	for _, n := range namesIn(cfg) {
		if !n.directory {
			names = append(names, n.name)
		}
	}
	return names
}

// namesIn lists the files and directories that a configuration names. It reads nothing.
func namesIn(cfg *v1beta1.KubeControllerManagerConfiguration) []named {
	c := &fileChecker{namesOnly: true}
	c.check(cfg)
	return c.names
}

// named is a field that names a file, or a directory.
type named struct {
	path, name string
	directory  bool
}

type fileChecker struct {
	report    *problem.Report
	places    tree.Places
	namesOnly bool
	names     []named
	inForce   map[string]string // names by field, of the configuration in force
	bad       []string          // of these, files that are bad now
	starting  bool              // see CheckStart
	only      string            // see CheckFile
	failures  []error           // of CheckFile
}

func (c *fileChecker) check(cfg *v1beta1.KubeControllerManagerConfiguration) {
	authn, authz := cfg.Serving.Authentication, cfg.Serving.Authorization
	c.file("clientConnection.kubeconfig", cfg.ClientConnection.Kubeconfig, checkConnection(cfg.ClientConnection.Server))
	if cfg.ControllerEnabled(tokenController) {
		c.file("serviceAccounts.privateKeyFile", cfg.ServiceAccounts.PrivateKeyFile, checkSigningKey)
	}
	if slices.ContainsFunc(rootCAReaders, cfg.ControllerEnabled) {
		c.file("serviceAccounts.rootCAFile", cfg.ServiceAccounts.RootCAFile, checkBundle)
	}
	c.file("metrics.allowListMappingManifest", cfg.Metrics.AllowListMappingManifest, checkAllowList)
	if cfg.Cloud.Linked() { // nobody else opens it
		c.file("cloud.configFile", cfg.Cloud.ConfigFile, func(string, []byte) error { return nil })
	}
	c.controllers(cfg)
	if *cfg.Serving.Port == 0 {
		return
	}
	c.file("serving.authentication.kubeconfig", authn.Kubeconfig, checkKubeconfig)
	c.file("serving.authentication.clientCAFile", authn.ClientCAFile, checkCertificates)
	c.file("serving.authentication.requestHeader.clientCAFile", authn.RequestHeader.ClientCAFile, checkCertificates)
	c.file("serving.authorization.kubeconfig", authz.Kubeconfig, checkKubeconfig)
	c.servingCertificates(cfg.Serving.TLS)
}

const tokenController = "serviceaccount-token-controller"

// rootCAReaders are the controllers that read serviceAccounts.rootCAFile.
var rootCAReaders = []string{
	tokenController,
	"root-ca-certificate-publisher-controller",
	"kube-apiserver-serving-clustertrustbundle-publisher-controller",
}

// controllers checks the files that blocks of enabled controllers name.
func (c *fileChecker) controllers(cfg *v1beta1.KubeControllerManagerConfiguration) {
	const binder = "persistentvolume-binder-controller"
	blocks := cfg.Controllers
	if cfg.ControllerEnabled("certificatesigningrequest-signing-controller") {
		all := append([]v1beta1.Signer{{Path: v1beta1.AllSigners, CA: blocks.CSRSigning.AllSigners}},
			blocks.CSRSigning.Signers()...)
		for _, s := range all {
			c.authority(s.Path, s.CA)
		}
	}
	if !cfg.ControllerEnabled(binder) {
		return
	}
	const recycler = "controllers." + binder + ".recycler."
	r := blocks.PersistentVolumeBinder.Recycler
	c.file(recycler+"nfs.podTemplateFile", r.NFS.PodTemplateFile, checkPodTemplate)
	c.file(recycler+"hostPath.podTemplateFile", r.HostPath.PodTemplateFile, checkPodTemplate)
}

// fail reports the first of some fields, which name what is bad together; as a warning if the
// configuration in force names the same.
func (c *fileChecker) fail(err error, fields ...named) {
	if c.only != "" {
		c.failures = append(c.failures, err)
		return
	}
	path := fields[0].path
	at := c.places.Position(path)
	if slices.ContainsFunc(fields, func(f named) bool { return c.inForce[f.path] != f.name }) {
		c.report.Errorf(at, path, "%v", err)
		return
	}
	for _, f := range fields {
		c.bad = append(c.bad, f.name)
	}
	c.report.Warnf(at, path, "%v; its previous content stays in use", err)
}

// file reads the file and checks its content; it returns nil if the content is bad.
func (c *fileChecker) file(path, name string, check func(name string, content []byte) error) []byte {
	if name == "" {
		return nil
	}
	field := named{path: path, name: name}
	c.names = append(c.names, field)
	if c.namesOnly || c.only != "" && name != c.only {
		return nil
	}
	content, err := readFile(name)
	if err == nil {
		err = check(name, content)
	}
	if err != nil {
		c.fail(err, field)
		return nil
	}
	return content
}

// servingCertificates checks the serving certificates together with their keys.
func (c *fileChecker) servingCertificates(t v1beta1.TLS) {
	for i, sni := range t.SNICertificates {
		c.servingCertificate(fieldpath.Element("serving.tls.sniCertificates", i), sni.CertFile, sni.PrivateKeyFile)
	}
	if t.CertFile == "" {
		c.directory(t.CertDirectory)
		return
	}
	c.servingCertificate("serving.tls", t.CertFile, t.PrivateKeyFile)
}

// servingCertificate checks a certificate with its key. One that has expired is served, so it is a warning.
func (c *fileChecker) servingCertificate(block, certFile, keyFile string) {
	path := block + ".certFile"
	content, _ := c.pair(path, certFile, block+".privateKeyFile", keyFile)
	if content != nil {
		c.warnOfExpiry(path, certFile, content)
	}
}

// warnOfExpiry warns of a serving certificate that has expired.
func (c *fileChecker) warnOfExpiry(path, certFile string, content []byte) {
	chain, err := cert.ParseCertsPEM(content)
	if err == nil && time.Now().After(chain[0].NotAfter) {
		c.report.Warnf(c.places.Position(path), path,
			"the certificate in %s expired at %s: clients that verify it cannot connect",
			certFile, chain[0].NotAfter.UTC().Format(time.RFC3339))
	}
}

// pair checks a certificate together with its key; it returns nil if they are bad.
func (c *fileChecker) pair(certPath, certFile, keyPath, keyFile string) (certificate, key []byte) {
	certificate = c.file(certPath, certFile, checkCertificates)
	key = c.file(keyPath, keyFile, checkPrivateKey)
	if certificate == nil || key == nil {
		return nil, nil
	}
	if err := checkMatch(certFile, keyFile, certificate, key); err != nil {
		c.fail(err, named{path: certPath, name: certFile}, named{path: keyPath, name: keyFile})
		return nil, nil
	}
	return certificate, key
}

// checkMatch requires a certificate and its key.
func checkMatch(certFile, keyFile string, certificate, key []byte) error {
	if _, err := tls.X509KeyPair(certificate, key); err != nil {
		return fmt.Errorf("%s and %s do not match: %w", certFile, keyFile, err)
	}
	return nil
}

// authority checks the CA of a signer. One that has expired does not prevent the start of a
// process: controllers that do not sign can work.
func (c *fileChecker) authority(path string, ca v1beta1.SigningCA) {
	certificate := named{path: path + ".certFile", name: ca.CertFile}
	key := named{path: path + ".privateKeyFile", name: ca.PrivateKeyFile}
	cert, private := c.pair(certificate.path, certificate.name, key.path, key.name)
	if cert == nil {
		return
	}
	read, err := authority.Files{Cert: ca.CertFile, Key: ca.PrivateKeyFile}.Parse(cert, private)
	if err != nil {
		c.fail(err, certificate, key)
		return
	}
	err = read.Expired(time.Now())
	switch {
	case err == nil:
	case c.starting:
		c.report.Warnf(c.places.Position(certificate.path), certificate.path, "%v", err)
	default:
		c.fail(err, certificate, key)
	}
}

// directory accepts a directory that does not exist yet: it is created when needed.
func (c *fileChecker) directory(name string) {
	if name == "" {
		return
	}
	field := named{path: "serving.tls.certDirectory", name: name, directory: true}
	c.names = append(c.names, field)
	if c.namesOnly || c.only != "" {
		return
	}
	info, err := os.Stat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return
	case err == nil && !info.IsDir():
		err = fmt.Errorf("%s is not a directory", name)
	case err == nil:
		err = c.madePair(field)
	}
	if err != nil {
		c.fail(err, field)
	}
}

// madePair checks the self-signed pair that is in a directory already: it is served, and not made again.
func (c *fileChecker) madePair(directory named) error {
	const pair = "kube-controller-manager"
	certFile, keyFile := filepath.Join(directory.name, pair+".crt"), filepath.Join(directory.name, pair+".key")
	if absent(certFile) && absent(keyFile) {
		return nil
	}
	certificate, certErr := readFile(certFile)
	key, keyErr := readFile(keyFile)
	if err := errors.Join(certErr, keyErr); err != nil {
		return fmt.Errorf("a certificate and its key must be there together: %w", err)
	}
	if err := checkMatch(certFile, keyFile, certificate, key); err != nil {
		return err
	}
	c.warnOfExpiry(directory.path, certFile, certificate)
	return nil
}

func absent(name string) bool {
	_, err := os.Stat(name)
	return errors.Is(err, fs.ErrNotExist)
}

func readFile(name string) ([]byte, error) {
	info, err := os.Stat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("the file %s does not exist", name)
	case err != nil:
		return nil, fmt.Errorf("the file cannot be read: %w", err)
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s is not a file", name)
	case info.Size() == 0:
		return nil, fmt.Errorf("the file %s is empty", name)
	case info.Size() > MaxFileBytes:
		return nil, fmt.Errorf("the file %s has %d bytes: the limit is %d", name, info.Size(), MaxFileBytes)
	}
	content, err := os.ReadFile(name)
	if err != nil {
		return nil, fmt.Errorf("the file cannot be read: %w", err)
	}
	return content, nil
}

func checkPrivateKey(name string, content []byte) error {
	if _, err := keyutil.ParsePrivateKeyPEM(content); err != nil {
		return fmt.Errorf("%s contains no private key in PEM format: %w", name, err)
	}
	return nil
}

// checkSigningKey accepts the kinds of keys that tokens are signed with.
func checkSigningKey(name string, content []byte) error {
	key, err := keyutil.ParsePrivateKeyPEM(content)
	if err != nil {
		return fmt.Errorf("%s contains no private key in PEM format: %w", name, err)
	}
	switch k := key.(type) {
	case *rsa.PrivateKey:
		return nil
	case *ecdsa.PrivateKey:
		if curves := []elliptic.Curve{elliptic.P256(), elliptic.P384(), elliptic.P521()}; slices.Contains(curves, k.Curve) {
			return nil
		}
		return fmt.Errorf("%s contains an ECDSA key of the curve %s: the curve must be P-256, P-384 or P-521", name, k.Curve.Params().Name)
	}
	return fmt.Errorf("%s contains a %T: the key must be an RSA or ECDSA key", name, key)
}

func checkCertificates(name string, content []byte) error {
	if _, err := cert.ParseCertsPEM(content); err != nil {
		return fmt.Errorf("%s contains no certificates in PEM format: %w", name, err)
	}
	return nil
}

// checkBundle requires certificates, and that nothing else would be published with them.
func checkBundle(name string, content []byte) error {
	if err := checkCertificates(name, content); err != nil {
		return err
	}
	if err := cabundle.CheckPublishable(content); err != nil {
		return fmt.Errorf("%s cannot be published: %w", name, err)
	}
	return nil
}

// checkPodTemplate requires a pod with a volume, in place of which the volume to be emptied
// is mounted.
func checkPodTemplate(name string, content []byte) error {
	pod := &corev1.Pod{}
	if err := yaml.UnmarshalStrict(content, pod); err != nil {
		return fmt.Errorf("%s contains no pod: %w", name, err)
	}
	if pod.APIVersion != "v1" || pod.Kind != "Pod" {
		return fmt.Errorf("%s contains %q, kind %q: it must be a pod (v1, Pod)", name, pod.APIVersion, pod.Kind)
	}
	if len(pod.Spec.Volumes) == 0 {
		return fmt.Errorf("the pod in %s has no volume: its first volume is replaced by the volume to be emptied", name)
	}
	return nil
}

// checkAllowList requires a map as in metrics.allowListMapping.
func checkAllowList(name string, content []byte) error {
	_, err := AllowList(name, content)
	return err
}

// AllowList returns the content of a file with a map as in metrics.allowListMapping. A file without content is an
// error, since it may not have been written yet.
func AllowList(name string, content []byte) (map[string]string, error) {
	if len(content) == 0 {
		return nil, fmt.Errorf("the file %s is empty", name)
	}
	values := map[string]string{}
	if err := yaml.UnmarshalStrict(content, &values); err != nil {
		return nil, fmt.Errorf("%s contains no map of \"metric,label\" to \"value,value\": %w", name, err)
	}
	for _, key := range slices.Sorted(maps.Keys(values)) {
		if !rules.IsMetricLabel(key) {
			return nil, fmt.Errorf("%s has the key %s: it must be the name of a metric, a comma and the name of a label",
				name, problem.Quote(key))
		}
	}
	return values, nil
}
