package config

import (
	"net/netip"
	"slices"
	"strings"

	cliflag "k8s.io/component-base/cli/flag"
)

func (v *validator) validateServing() {
	s := v.cfg.Serving
	if addr, err := netip.ParseAddr(s.BindAddress); err != nil || addr.Zone() != "" {
		v.errorf("serving.bindAddress", "must be an IP address such as 0.0.0.0, 127.0.0.1 or ::, not %s", shorten(s.BindAddress))
	}
	if *s.ContentionProfiling && !*s.Profiling {
		v.warnf("serving.contentionProfiling", "has no effect while serving.profiling is false")
	}
	if !*s.HTTP2.Enabled && v.changed("serving.http2.maxStreamsPerConnection") {
		v.warnf("serving.http2.maxStreamsPerConnection", "has no effect while serving.http2.enabled is false")
	}
	if *s.Port != 0 {
		return
	}
	for _, name := range []string{"bindAddress", "permitPortSharing", "permitAddressSharing", "tls", "http2", "authentication", "authorization", "profiling", "contentionProfiling"} {
		if path := "serving." + name; v.changed(path) {
			v.warnf(path, "has no effect while serving.port is 0")
		}
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
	if t.CertFile != "" && t.CertDirectory != "" {
		v.warnf("serving.tls.certDirectory", "has no effect while serving.tls.certFile is set")
	}
	if t.MinVersion == "VersionTLS10" || t.MinVersion == "VersionTLS11" {
		v.warnf("serving.tls.minVersion", "%s is insecure: use VersionTLS12 or VersionTLS13", t.MinVersion)
	}
	if t.MinVersion == "VersionTLS13" && len(t.CipherSuites) > 0 {
		v.warnf("serving.tls.cipherSuites", "has no effect while serving.tls.minVersion is VersionTLS13")
	}
	v.validateCipherSuites()
	v.validateCurves()
	v.validateSNI()
}

// validateCurves warns of mechanisms that the lowest version accepted does not have.
func (v *validator) validateCurves() {
	t := v.cfg.Serving.TLS
	hybrid := func(name string) bool { return strings.Contains(name, "MLKEM") }
	if len(t.CurvePreferences) > 0 && t.MinVersion != "VersionTLS13" && !slices.ContainsFunc(t.CurvePreferences, func(name string) bool { return !hybrid(name) }) {
		v.warnf("serving.tls.curvePreferences", "TLS 1.2 has none of these: such clients cannot connect; set serving.tls.minVersion to VersionTLS13")
	}
}

// validateSNI reports host names that two certificates claim.
func (v *validator) validateSNI() {
	claimed := map[string]string{}
	for i, c := range v.cfg.Serving.TLS.SNICertificates {
		list := elementPath("serving.tls.sniCertificates", i) + ".names"
		for n, name := range c.Names {
			path := elementPath(list, n)
			if other, ok := claimed[name]; ok && !strings.HasPrefix(other, list) && v.decoded(path) {
				v.errorf(path, "%s is claimed by %s already", shorten(name), other)
				continue
			}
			claimed[name] = path
		}
	}
}

func (v *validator) validateCipherSuites() {
	known, insecure, preferred := cliflag.TLSCipherPossibleValues(), cliflag.InsecureTLSCipherNames(), cliflag.PreferredTLSCipherNames()
	v.eachItem("serving.tls.cipherSuites", func(path, suite string) {
		switch {
		case slices.Contains(insecure, suite):
			v.warnf(path, "%s is insecure", suite)
		case !slices.Contains(known, suite):
			message := ""
			if !v.report.terse() {
				message = ", " + hint(suite, preferred)
			}
			v.errorf(path, "unknown cipher suite %s%s", shorten(suite), message)
		}
	})
}

// eachItem calls check for every decoded string of a list, with its own path.
func (v *validator) eachItem(path string, check func(path, item string)) {
	list, ok := v.places.values[path]
	if !ok {
		return
	}
	for i := range list.items {
		at := elementPath(path, i)
		if item, ok := v.places.values[at]; ok && v.decoded(at) {
			text, _ := item.value.(string)
			check(at, text)
		}
	}
}

func (v *validator) validateAuthentication() {
	a := v.cfg.Serving.Authentication
	if *a.TolerateLookupFailure {
		v.warnf("serving.authentication.tolerateLookupFailure", "has no effect: a failed lookup is always tolerated, and repeated until it succeeds")
	}
	h := a.RequestHeader
	const uid = "serving.authentication.requestHeader.uidHeaders"
	if len(h.UIDHeaders) > 0 && !Enabled(v.cfg, RemoteRequestHeaderUID) && v.decoded(uid) {
		v.errorf(uid, "needs the feature gate %s, which is disabled", RemoteRequestHeaderUID)
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
		if !v.changed(path) {
			continue
		}
		if h.ClientCAFile == "" && v.decoded("serving.authentication.requestHeader.clientCAFile") {
			v.warnf(path, "has no effect while requestHeader.clientCAFile is not set: the cluster's own settings are read")
		}
		v.validateStandardHeader(path, list.name, list.standard, list.values)
	}
}

func (v *validator) validateStandardHeader(path, name, standard string, values []string) {
	has := slices.ContainsFunc(values, func(value string) bool { return strings.EqualFold(value, standard) })
	if standard == "" || len(values) == 0 || has {
		return
	}
	if name == "uidHeaders" {
		v.errorf(path, "must contain the standard %s: API aggregation does not work without", standard)
		return
	}
	v.warnf(path, "the standard %s is missing: API aggregation does not work without", standard)
}

func (v *validator) validateAuthorization() {
	v.eachItem("serving.authorization.alwaysAllowPaths", func(path, item string) {
		if strings.TrimSpace(item) == "" {
			v.errorf(path, "must not be blank")
		}
		if star := strings.IndexByte(item, '*'); star >= 0 && star < len(item)-1 {
			v.errorf(path, "a * is allowed at the end only, not in %s", shorten(item))
		}
	})
}

// validateMetrics checks what the library that applies the settings leaves unchecked.
func (v *validator) validateMetrics() {
	const mapping, manifest = "metrics.allowListMapping", "metrics.allowListMappingManifest"
	m := v.cfg.Metrics
	if len(m.AllowListMapping) > 0 && m.AllowListMappingManifest != "" && v.decoded(mapping, manifest) {
		v.errorf(manifest, "cannot be combined with %s: put everything into one of them", mapping)
	}
	if m.ShowHiddenMetricsForVersion != "" && v.cfg.EmulatedVersion != version(newestMinor) && v.decoded("metrics.showHiddenMetricsForVersion", "emulatedVersion") {
		v.warnf("metrics.showHiddenMetricsForVersion", "follows the version of the process, not emulatedVersion (%s)", v.cfg.EmulatedVersion)
	}
	disabled := map[string]bool{}
	for _, name := range m.DisabledMetrics {
		disabled[name] = true
	}
	for _, key := range sortedKeys(m.AllowListMapping) {
		if name, _, _ := strings.Cut(key, ","); disabled[name] {
			v.warnf(join(mapping, key), "has no effect: the metric is in metrics.disabledMetrics")
		}
	}
}
