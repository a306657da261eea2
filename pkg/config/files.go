package config

import (
	"crypto/ecdsa"
	"crypto/rsa"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"
	"sigs.k8s.io/yaml"

	"kcmd.dev/pkg/config/v1beta1"
)

// maxReferencedBytes bounds what is read of a file that a configuration names.
const maxReferencedBytes = 16 << 20

// CheckFiles checks, on this machine and now, the files that the configuration
// names: that they exist and can be read, that kubeconfigs load, that PEM files
// hold what they are used for, and that certificates and keys belong together.
// Relative paths are relative to the working directory.
func (d *Document) CheckFiles() Errors {
	problems, _ := d.CheckEdit(nil)
	return problems
}

// CheckEdit is CheckFiles for a configuration that follows another one, which is in force.
// What that names in the same field was good when it came into force. If it is bad now, that
// is no fault of the edit: whoever read the file goes on with what it held, so that the
// problem is a warning. bad lists these files. An edit that names a file anew, or in another
// field, or with another key, is at fault.
func (d *Document) CheckEdit(inForce *v1beta1.KubeControllerManagerConfiguration) (problems Errors, bad []string) {
	c := &fileChecker{report: &report{file: d.Name}, places: d.places, inForce: map[string]string{}}
	if inForce != nil {
		for _, n := range namesIn(inForce) {
			c.inForce[n.path] = n.name
		}
	}
	c.check(d.Config)
	return c.report.finish(), c.bad
}

// NamedFiles lists the files that the configuration names and CheckFiles reads.
func NamedFiles(cfg *v1beta1.KubeControllerManagerConfiguration) []string {
	var files []string
	for _, n := range namesIn(cfg) {
		if !n.directory {
			files = append(files, n.name)
		}
	}
	return files
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
	report    *report
	places    places
	namesOnly bool
	names     []named
	inForce   map[string]string // names by field, of the configuration in force
	bad       []string          // of these, files that are bad now
}

func (c *fileChecker) check(cfg *v1beta1.KubeControllerManagerConfiguration) {
	a, z := cfg.Serving.Authentication, cfg.Serving.Authorization
	c.file("clientConnection.kubeconfig", cfg.ClientConnection.Kubeconfig, checkKubeconfig)
	c.file("serviceAccounts.privateKeyFile", cfg.ServiceAccounts.PrivateKeyFile, checkSigningKey)
	c.file("serviceAccounts.rootCAFile", cfg.ServiceAccounts.RootCAFile, checkCertificates)
	c.file("metrics.allowListMappingManifest", cfg.Metrics.AllowListMappingManifest, checkAllowList)
	c.controllers(cfg.Controllers)
	if *cfg.Serving.Port == 0 {
		return
	}
	c.file("serving.authentication.kubeconfig", a.Kubeconfig, checkKubeconfig)
	c.file("serving.authentication.clientCAFile", a.ClientCAFile, checkCertificates)
	c.file("serving.authentication.requestHeader.clientCAFile", a.RequestHeader.ClientCAFile, checkCertificates)
	c.file("serving.authorization.kubeconfig", z.Kubeconfig, checkKubeconfig)
	c.servingCertificates(cfg.Serving.TLS)
}

// controllers checks the files that blocks of controllers name.
func (c *fileChecker) controllers(blocks v1beta1.Controllers) {
	all := append([]signer{{signing + "allSigners", blocks.CSRSigning.AllSigners}}, signers(blocks.CSRSigning)...)
	for _, s := range all {
		c.pair(s.path+".certFile", s.ca.CertFile, s.path+".privateKeyFile", s.ca.PrivateKeyFile)
	}
	const recycler = "controllers.persistentvolume-binder-controller.recycler."
	r := blocks.PersistentVolumeBinder.Recycler
	c.file(recycler+"nfs.podTemplateFile", r.NFS.PodTemplateFile, checkPodTemplate)
	c.file(recycler+"hostPath.podTemplateFile", r.HostPath.PodTemplateFile, checkPodTemplate)
}

// fail reports the first of some fields, which name what is bad together; as a warning if
// nothing in this build reads it, or if the configuration in force names the same.
func (c *fileChecker) fail(err error, fields ...named) {
	path := fields[0].path
	at := c.places.nearest(path)
	if readers, ok := ReadBy(path); ok && !slices.ContainsFunc(readers, Built) {
		c.report.warnf(at, path, "%v", err)
		return
	}
	if slices.ContainsFunc(fields, func(f named) bool { return c.inForce[f.path] != f.name }) {
		c.report.errorf(at, path, "%v", err)
		return
	}
	for _, f := range fields {
		c.bad = append(c.bad, f.name)
	}
	c.report.warnf(at, path, "%v; what was read of it before stays in use", err)
}

// file reads the file and checks its content; it returns nil if the content is bad.
func (c *fileChecker) file(path, name string, check func(name string, content []byte) error) []byte {
	if name == "" {
		return nil
	}
	field := named{path: path, name: name}
	c.names = append(c.names, field)
	if c.namesOnly {
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
		path := elementPath("serving.tls.sniCertificates", i)
		c.pair(path+".certFile", sni.CertFile, path+".privateKeyFile", sni.PrivateKeyFile)
	}
	if t.CertFile == "" {
		c.directory(t.CertDirectory)
		return
	}
	c.pair("serving.tls.certFile", t.CertFile, "serving.tls.privateKeyFile", t.PrivateKeyFile)
}

// pair checks a certificate together with its key.
func (c *fileChecker) pair(certPath, certFile, keyPath, keyFile string) {
	certificate := c.file(certPath, certFile, checkCertificates)
	key := c.file(keyPath, keyFile, checkPrivateKey)
	if certificate == nil || key == nil {
		return
	}
	if _, err := tls.X509KeyPair(certificate, key); err != nil {
		c.fail(fmt.Errorf("%s and %s do not belong together: %w", certFile, keyFile, err),
			named{path: certPath, name: certFile}, named{path: keyPath, name: keyFile})
	}
}

// directory accepts one that is not there yet: it is made when it is needed.
func (c *fileChecker) directory(name string) {
	if name == "" {
		return
	}
	field := named{path: "serving.tls.certDirectory", name: name, directory: true}
	c.names = append(c.names, field)
	if c.namesOnly {
		return
	}
	info, err := os.Stat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	if err == nil && !info.IsDir() {
		err = fmt.Errorf("%s is not a directory", name)
	}
	if err != nil {
		c.fail(err, field)
	}
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
	case info.Size() > maxReferencedBytes:
		return nil, fmt.Errorf("the file %s has %d bytes: at most %d are read", name, info.Size(), maxReferencedBytes)
	}
	content, err := os.ReadFile(name)
	if err != nil {
		return nil, fmt.Errorf("the file cannot be read: %w", err)
	}
	return content, nil
}

// checkKubeconfig loads the file as the clients will, files it names included.
func checkKubeconfig(name string, _ []byte) error {
	loaded, err := clientcmd.LoadFromFile(name)
	if err == nil {
		err = clientcmd.ResolveLocalPaths(loaded)
	}
	if err == nil {
		_, err = clientcmd.NewDefaultClientConfig(*loaded, &clientcmd.ConfigOverrides{}).ClientConfig()
	}
	if err != nil {
		return fmt.Errorf("%s is not a usable kubeconfig: %w", name, err)
	}
	return nil
}

func checkPrivateKey(name string, content []byte) error {
	if _, err := keyutil.ParsePrivateKeyPEM(content); err != nil {
		return fmt.Errorf("%s holds no private key in PEM: %w", name, err)
	}
	return nil
}

// checkSigningKey accepts the kinds of keys that tokens are signed with.
func checkSigningKey(name string, content []byte) error {
	key, err := keyutil.ParsePrivateKeyPEM(content)
	if err != nil {
		return fmt.Errorf("%s holds no private key in PEM: %w", name, err)
	}
	switch key.(type) {
	case *rsa.PrivateKey, *ecdsa.PrivateKey:
		return nil
	}
	return fmt.Errorf("%s holds a %T: tokens are signed with RSA or ECDSA keys", name, key)
}

func checkCertificates(name string, content []byte) error {
	if _, err := cert.ParseCertsPEM(content); err != nil {
		return fmt.Errorf("%s holds no certificates in PEM: %w", name, err)
	}
	return nil
}

// checkPodTemplate wants a pod with a volume, which stands for the one to be emptied.
func checkPodTemplate(name string, content []byte) error {
	pod := &corev1.Pod{}
	if err := yaml.UnmarshalStrict(content, pod); err != nil {
		return fmt.Errorf("%s holds no pod: %w", name, err)
	}
	if pod.APIVersion != "v1" || pod.Kind != "Pod" {
		return fmt.Errorf("%s holds %q, kind %q: a pod is needed (v1, Pod)", name, pod.APIVersion, pod.Kind)
	}
	if len(pod.Spec.Volumes) == 0 {
		return fmt.Errorf("the pod in %s has no volume: the first one stands for the volume to be emptied", name)
	}
	return nil
}

// checkAllowList wants a map as in metrics.allowListMapping.
func checkAllowList(name string, content []byte) error {
	values := map[string]string{}
	if err := yaml.UnmarshalStrict(content, &values); err != nil {
		return fmt.Errorf("%s holds no map of \"metric,label\" to \"value,value\": %w", name, err)
	}
	for _, key := range sortedKeys(values) {
		if !metricLabelPattern.MatchString(key) {
			return fmt.Errorf("%s has the key %s: it must be the name of a metric, a comma and the name of a label", name, shorten(key))
		}
	}
	return nil
}
