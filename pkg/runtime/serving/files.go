package serving

import (
	"fmt"
	"os"
	"path/filepath"

	"k8s.io/client-go/tools/clientcmd"

	"kcmd.dev/pkg/config/fieldpath"
	"kcmd.dev/pkg/config/named"
	"kcmd.dev/pkg/config/v1beta1"
)

// checkFiles refuses files that the libraries must not open: reading a named pipe would block without limit. Whether a
// file exists is left to its reader.
func checkFiles(c v1beta1.Serving) error {
	type files struct {
		field string
		paths []string
	}
	all := []files{{certificateField(c), []string{c.TLS.CertFile, c.TLS.PrivateKeyFile}}}
	if c.TLS.CertFile == "" && c.TLS.CertDirectory != "" {
		pair := filepath.Join(c.TLS.CertDirectory, component)
		all[0].paths = []string{pair + ".crt", pair + ".key"}
	}
	for n, pair := range c.TLS.SNICertificates {
		all = append(all, files{sniField(n), []string{pair.CertFile, pair.PrivateKeyFile}})
	}
	all = append(all,
		files{"serving.authentication.clientCAFile", []string{c.Authentication.ClientCAFile}},
		files{"serving.authentication.requestHeader.clientCAFile", []string{c.Authentication.RequestHeader.ClientCAFile}},
		files{"serving.authentication.kubeconfig", []string{c.Authentication.Kubeconfig}},
		files{"serving.authorization.kubeconfig", []string{c.Authorization.Kubeconfig}})
	for _, of := range all {
		if err := checkRegular(of.paths); err != nil {
			return blame(of.field, err)
		}
	}
	return nil
}

// checkNamed is checkFiles for what a kubeconfig names. One that cannot be loaded is left to its loader.
func checkNamed(kubeconfig string) error {
	loaded, err := clientcmd.LoadFromFile(kubeconfig)
	if err != nil || clientcmd.ResolveLocalPaths(loaded) != nil {
		return nil
	}
	return checkRegular(named.FilesOf(loaded))
}

func checkRegular(paths []string) error {
	for _, path := range paths {
		if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
			return fmt.Errorf("%s is not a regular file", path)
		}
	}
	return nil
}

// sniField is the field of a certificate for names.
func sniField(n int) string { return fieldpath.Element("serving.tls.sniCertificates", n) + ".certFile" }
