package config

import (
	"fmt"
	"mime"
	"net/netip"
	"slices"
	"strings"
	"time"

	fieldpath "k8s.io/apimachinery/pkg/util/validation/field"
	cliflag "k8s.io/component-base/cli/flag"
	logsapi "k8s.io/component-base/logs/api/v1"
	_ "k8s.io/component-base/logs/json/register" // makes the log format json known

	"kcmd.dev/pkg/config/v1beta1"
)

// validator checks a defaulted configuration against the rules of single fields
// and those across fields.
type validator struct {
	cfg       *v1beta1.KubeControllerManagerConfiguration
	report    *report
	rules     []Rule
	places    places
	undecoded map[string]bool
	changes   []Change // against the defaults, computed when first needed
}

func (v *validator) validate() {
	v.validateRules()
	v.validateClientConnection()
	v.validateLeaderElection()
	v.validateServing()
	v.validateTLS()
	v.validateAuthentication()
	v.validateAuthorization()
	v.validateLogging()
	v.validateGates()
	v.validateControllers()
}

// set says whether the file sets the field to a value that could be decoded.
func (v *validator) set(path string) bool {
	_, ok := v.places.values[path]
	return ok && v.decoded(path)
}

// decoded says whether none of the fields was left out: a check across fields
// would otherwise compare with a default nobody meant.
func (v *validator) decoded(paths ...string) bool {
	for _, path := range paths {
		for ; path != ""; path = parentPath(path) {
			if v.undecoded[path] {
				return false
			}
		}
	}
	return true
}

// changed says whether the file sets the field, or a field in the block, to
// something else than its default.
func (v *validator) changed(path string) bool {
	if !v.set(path) {
		return false
	}
	if v.changes == nil {
		v.changes = changedLeaves(toObject(v1beta1.NewDefault()), toObject(v.cfg))
	}
	return slices.ContainsFunc(v.changes, func(c Change) bool {
		return c.Path == path || strings.HasPrefix(c.Path, path+".")
	})
}

// key is the position of the field's name, for problems with the name.
func (v *validator) key(path string) Position {
	if at, ok := v.places.keys[path]; ok {
		return at
	}
	return v.places.nearest(path)
}

func (v *validator) errorf(path, format string, args ...any) {
	v.report.errorf(v.places.nearest(path), path, format, args...)
}

func (v *validator) warnf(path, format string, args ...any) {
	v.report.warnf(v.places.nearest(path), path, format, args...)
}

// validateRules applies the rules to what the file sets; defaults satisfy them,
// which a test proves.
func (v *validator) validateRules() {
	for _, rule := range v.rules {
		if !v.set(rule.Path) {
			continue
		}
		if message, ok := rule.admits(v.places.values[rule.Path].value); !ok {
			v.errorf(rule.Path, "%s", message)
			v.undecoded[rule.Path] = true
		}
	}
}

func (v *validator) validateClientConnection() {
	c := v.cfg.ClientConnection
	if v.decoded("clientConnection.qps", "clientConnection.burst") && *c.QPS == 0 && *c.Burst > 0 {
		v.errorf("clientConnection.burst", "must be 0 without qps, not %d: set clientConnection.qps too, or remove burst", *c.Burst)
	}
	for _, part := range strings.Split(c.AcceptContentTypes, ",") {
		if strings.TrimSpace(part) == "" && c.AcceptContentTypes == "" {
			continue
		}
		if _, _, err := mime.ParseMediaType(part); err != nil || !strings.Contains(part, "/") {
			v.errorf("clientConnection.acceptContentTypes", "must be media types separated by commas: %s is none", shorten(part))
		}
	}
}

func (v *validator) validateLeaderElection() {
	const lease, renew, retry = "leaderElection.leaseDuration", "leaderElection.renewDeadline", "leaderElection.retryPeriod"
	l := v.cfg.LeaderElection
	if v.decoded(lease, renew) && l.LeaseDuration.Duration <= l.RenewDeadline.Duration {
		v.errorf(v.firstSet(lease, renew), "leaseDuration (%s) must be more than renewDeadline (%s)",
			formatDuration(l.LeaseDuration.Duration), formatDuration(l.RenewDeadline.Duration))
	}
	if v.decoded(renew, retry) && float64(l.RenewDeadline.Duration) <= 1.2*float64(l.RetryPeriod.Duration) {
		v.errorf(v.firstSet(renew, retry), "renewDeadline (%s) must be more than 1.2 × retryPeriod (%s)",
			formatDuration(l.RenewDeadline.Duration), formatDuration(l.RetryPeriod.Duration))
	}
	if v.decoded(lease) && l.LeaseDuration.Duration%time.Second != 0 {
		v.warnf(lease, "other processes see whole seconds only: they wait %s", formatDuration(l.LeaseDuration.Truncate(time.Second)))
	}
	if !*l.LeaderElect {
		for _, name := range []string{"leaseDuration", "renewDeadline", "retryPeriod", "resourceName", "resourceNamespace", "identity"} {
			if path := "leaderElection." + name; v.changed(path) {
				v.warnf(path, "has no effect while leaderElection.leaderElect is false")
			}
		}
	}
}

// firstSet is the first field that the file sets, else the first.
func (v *validator) firstSet(paths ...string) string {
	for _, path := range paths {
		if v.set(path) {
			return path
		}
	}
	return paths[0]
}

func (v *validator) validateServing() {
	s := v.cfg.Serving
	if addr, err := netip.ParseAddr(s.BindAddress); err != nil || addr.Zone() != "" {
		v.errorf("serving.bindAddress", "must be an IP address such as 0.0.0.0, 127.0.0.1 or ::, not %s", shorten(s.BindAddress))
	}
	if *s.Port != 0 {
		return
	}
	for _, name := range []string{"bindAddress", "tls", "authentication", "authorization", "profiling"} {
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
}

func (v *validator) validateCipherSuites() {
	known, insecure, preferred := cliflag.TLSCipherPossibleValues(), cliflag.InsecureTLSCipherNames(), cliflag.PreferredTLSCipherNames()
	v.eachItem("serving.tls.cipherSuites", func(path, suite string) {
		switch {
		case slices.Contains(insecure, suite):
			v.warnf(path, "%s is insecure", suite)
		case !slices.Contains(known, suite):
			message := ""
			if !v.report.full() {
				message = hint(suite, preferred)
			}
			v.errorf(path, "unknown cipher suite %s, %s", shorten(suite), message)
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
		at := fmt.Sprintf("%s[%d]", path, i)
		if item, ok := v.places.values[at]; ok && v.decoded(at) {
			text, _ := item.value.(string)
			check(at, text)
		}
	}
}

func (v *validator) validateAuthentication() {
	a := v.cfg.Serving.Authentication
	if *a.SkipLookup && *a.TolerateLookupFailure {
		v.warnf("serving.authentication.tolerateLookupFailure", "has no effect while skipLookup is true")
	}
	h := a.RequestHeader
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

// validateLogging leaves the judgement to the library that applies the settings.
func (v *validator) validateLogging() {
	gates, err := LoggingGates(v.cfg)
	if err != nil {
		v.errorf("logging", "checking feature gates: %v", err)
		return
	}
	for _, problem := range logsapi.Validate(&v.cfg.Logging, gates, fieldpath.NewPath("logging")) {
		if !v.decoded(problem.Field) {
			continue // already reported by its rule
		}
		message := problem.Detail
		if problem.Type == fieldpath.ErrorTypeForbidden {
			message = "is not allowed: " + message
		}
		v.errorf(problem.Field, "%s", message)
	}
	o := v.cfg.Logging.Options
	for _, format := range []struct {
		name  string
		split bool
		size  int64
	}{{"text", o.Text.SplitStream, o.Text.InfoBufferSize.Value()}, {"json", o.JSON.SplitStream, o.JSON.InfoBufferSize.Value()}} {
		path := "logging.options." + format.name
		if v.changed(path) && v.decoded("logging.format") && format.name != v.cfg.Logging.Format {
			v.warnf(path, "has no effect while logging.format is %s", v.cfg.Logging.Format)
		}
		if format.size < 0 {
			v.errorf(path+".infoBufferSize", "must be 0 or more")
		}
		if format.size > 0 && !format.split {
			v.warnf(path+".infoBufferSize", "has no effect without splitStream")
		}
	}
}

func (v *validator) validateControllers() {
	const token = "controllers.serviceaccount-token-controller.enabled"
	enabled := v.cfg.Controllers.ServiceAccountToken.Enabled
	if enabled != nil && *enabled && v.cfg.ServiceAccounts.PrivateKeyFile == "" && v.decoded("serviceAccounts.privateKeyFile") {
		v.warnf(token, "the controller stays idle until serviceAccounts.privateKeyFile is set")
	}
}
