package validation

import (
	"net/netip"
	"slices"
	"strings"

	cliflag "k8s.io/component-base/cli/flag"

	"kcmd.dev/pkg/config/fieldpath"
	"kcmd.dev/pkg/config/gates"
	"kcmd.dev/pkg/config/problem"
)

func (v *validator) validateServing() {
	s := v.cfg.Serving
	if addr, err := netip.ParseAddr(s.BindAddress); err != nil || addr.Zone() != "" {
		v.errorf("serving.bindAddress",
			"must be an IP address such as 0.0.0.0, 127.0.0.1 or ::, not %s", problem.Quote(s.BindAddress))
	}
}

func (v *validator) validateTLS() {
	const cert, key = "serving.tls.certFile", "serving.tls.privateKeyFile"
	t := v.cfg.Serving.TLS
	if v.decoded(cert, key) {
		switch {
		case t.CertFile != "" && t.PrivateKeyFile == "":
			v.errorf(cert, "needs serving.tls.privateKeyFile")
		case t.CertFile == "" && t.PrivateKeyFile != "":
			v.errorf(key, "needs serving.tls.certFile")
		}
	}
	if t.MinVersion == "VersionTLS10" || t.MinVersion == "VersionTLS11" {
		v.warnf("serving.tls.minVersion", "%s is insecure: use VersionTLS12 or VersionTLS13", t.MinVersion)
	}
	v.validateCipherSuites()
	v.validateSuitesOfHTTP2()
	v.validateCurves()
	v.validateSNI()
}

// validateCurves warns of mechanisms that the lowest version accepted does not have.
func (v *validator) validateCurves() {
	t := v.cfg.Serving.TLS
	isClassic := func(name string) bool { return !strings.Contains(name, "MLKEM") }
	if len(t.CurvePreferences) == 0 || t.MinVersion == "VersionTLS13" {
		return
	}
	if !slices.ContainsFunc(t.CurvePreferences, isClassic) {
		v.warnf("serving.tls.curvePreferences",
			"TLS 1.2 supports none of these: TLS 1.2 clients cannot connect; set serving.tls.minVersion to VersionTLS13")
	}
}

// validateSNI reports host names that two certificates claim.
func (v *validator) validateSNI() {
	claimed := map[string]string{}
	for i, c := range v.cfg.Serving.TLS.SNICertificates {
		list := fieldpath.Element("serving.tls.sniCertificates", i) + ".names"
		for n, name := range c.Names {
			path := fieldpath.Element(list, n)
			if other, ok := claimed[name]; ok && !strings.HasPrefix(other, list) && v.decoded(path) {
				v.errorf(path, "%s is already used by %s", problem.Quote(name), other)
				continue
			}
			claimed[name] = path
		}
	}
}

func (v *validator) validateCipherSuites() {
	known, insecure := cliflag.TLSCipherPossibleValues(), cliflag.InsecureTLSCipherNames()
	preferred := cliflag.PreferredTLSCipherNames()
	v.eachItem("serving.tls.cipherSuites", func(path, suite string) {
		switch {
		case slices.Contains(insecure, suite):
			v.warnf(path, "%s is insecure", suite)
		case !slices.Contains(known, suite):
			message := ""
			if !v.report.Terse() {
				message = ", " + problem.Hint(suite, preferred)
			}
			v.errorf(path, "unknown cipher suite %s%s", problem.Quote(suite), message)
			v.undecoded[path] = true // the list needs no further report
		}
	})
}

// suitesOfHTTP2 are the cipher suites of which a server that offers HTTP/2 with TLS 1.2 needs one.
// It is a rule of RFC 7540, section 9.2.2, which net/http enforces.
var suitesOfHTTP2 = []string{"TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"}

// validateSuitesOfHTTP2 requires a cipher suite with which HTTP/2 can be offered.
func (v *validator) validateSuitesOfHTTP2() {
	const suites, lowest, http2 = "serving.tls.cipherSuites", "serving.tls.minVersion", "serving.http2.enabled"
	s := v.cfg.Serving
	if !v.decoded("serving.port", suites, lowest, http2) || *s.Port == 0 || !*s.HTTP2.Enabled {
		return
	}
	if len(s.TLS.CipherSuites) == 0 || s.TLS.MinVersion == "VersionTLS13" {
		return
	}
	good := func(suite string) bool { return slices.Contains(suitesOfHTTP2, suite) }
	if !slices.ContainsFunc(s.TLS.CipherSuites, good) && !v.anyUndecoded(suites) {
		v.errorf(suites, "must contain %s for HTTP/2: add one, or set %s to false, or %s to VersionTLS13",
			strings.Join(suitesOfHTTP2, " or "), http2, lowest)
	}
}

// anyUndecoded reports whether an element of a list was left out.
func (v *validator) anyUndecoded(path string) bool {
	list, ok := v.places.Values[path]
	if !ok {
		return false
	}
	for i := range list.Items {
		if !v.decoded(fieldpath.Element(path, i)) {
			return true
		}
	}
	return false
}

// eachItem calls check for every decoded string of a list, with its own path.
func (v *validator) eachItem(path string, check func(path, item string)) {
	list, ok := v.places.Values[path]
	if !ok {
		return
	}
	for i := range list.Items {
		at := fieldpath.Element(path, i)
		if item, ok := v.places.Values[at]; ok && v.decoded(at) {
			text, _ := item.Value.(string)
			check(at, text)
		}
	}
}

func (v *validator) validateAuthentication() {
	h := v.cfg.Serving.Authentication.RequestHeader
	const uid = "serving.authentication.requestHeader.uidHeaders"
	if len(h.UIDHeaders) > 0 && !gates.Enabled(v.cfg, gates.RemoteRequestHeaderUID) && v.decoded(uid) {
		v.errorf(uid, "needs the feature gate %s, which is disabled", gates.RemoteRequestHeaderUID)
	}
	lists := []struct {
		name, standard string
		values         []string
	}{
		{"usernameHeaders", "X-Remote-User", h.UsernameHeaders},
		{"uidHeaders", "X-Remote-Uid", h.UIDHeaders},
		{"groupHeaders", "X-Remote-Group", h.GroupHeaders},
		{"extraHeaderPrefixes", "X-Remote-Extra-", h.ExtraHeaderPrefixes},
		{"allowedNames", "", h.AllowedNames},
	}
	for _, list := range lists {
		path := "serving.authentication.requestHeader." + list.name
		v.eachItem(path, func(at, item string) {
			if strings.TrimSpace(item) == "" {
				v.errorf(at, "must not be blank")
			}
		})
		if v.changed(path) {
			v.validateStandardHeader(path, list.name, list.standard, list.values)
		}
	}
}

func (v *validator) validateStandardHeader(path, name, standard string, values []string) {
	has := slices.ContainsFunc(values, func(value string) bool { return strings.EqualFold(value, standard) })
	if standard == "" || len(values) == 0 || has {
		return
	}
	if name == "uidHeaders" {
		v.errorf(path, "must contain the standard %s: API aggregation requires it", standard)
		return
	}
	v.warnf(path, "the standard %s is missing: API aggregation requires it", standard)
}

func (v *validator) validateAuthorization() {
	v.eachItem("serving.authorization.alwaysAllowPaths", func(path, item string) {
		if strings.TrimSpace(item) == "" {
			v.errorf(path, "must not be blank")
		}
		if star := strings.IndexByte(item, '*'); star >= 0 && star < len(item)-1 {
			v.errorf(path, "* is allowed only at the end, not in %s", problem.Quote(item))
		}
	})
}

// validateMetrics checks what the library that applies the settings leaves unchecked.
func (v *validator) validateMetrics() {
	const mapping, manifest = "metrics.allowListMapping", "metrics.allowListMappingManifest"
	m := v.cfg.Metrics
	if len(m.AllowListMapping) > 0 && m.AllowListMappingManifest != "" && v.decoded(mapping, manifest) {
		v.errorf(manifest, "cannot be combined with %s: use only one of them", mapping)
	}
	const showHidden = "metrics.showHiddenMetricsForVersion"
	emulates := v.cfg.EmulatedVersion != gates.Version(gates.NewestMinor)
	if m.ShowHiddenMetricsForVersion != "" && emulates && v.decoded(showHidden, "emulatedVersion") {
		v.warnf(showHidden, "follows the version of the process, not emulatedVersion (%s)", v.cfg.EmulatedVersion)
	}
}
