// Package validation checks a defaulted configuration against the rules of single fields and
// those across fields.
//
//  1. What the file does not set satisfies the rules, which tests prove: only what it sets is
//     checked against them.
//  2. A check across fields is skipped if one of its fields could not be decoded or is
//     against its rule: it would compare with a value that nobody chose.
//  3. A problem is reported at the field that the file sets, even if another one is part of it.
package validation

import (
	"mime"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"

	apifield "k8s.io/apimachinery/pkg/util/validation/field"
	logsapi "k8s.io/component-base/logs/api/v1"
	_ "k8s.io/component-base/logs/json/register" // makes the log format json known

	"kcmd.dev/pkg/config/diff"
	"kcmd.dev/pkg/config/fieldpath"
	"kcmd.dev/pkg/config/gates"
	"kcmd.dev/pkg/config/plan"
	"kcmd.dev/pkg/config/problem"
	"kcmd.dev/pkg/config/tree"
	"kcmd.dev/pkg/config/v1beta1"
)

// Validate reports what is wrong with a defaulted configuration. failed are the paths of
// fields that could not be decoded.
func Validate(
	cfg *v1beta1.KubeControllerManagerConfiguration, places tree.Places, failed map[string]bool, r *problem.Report,
) {
	v := &validator{cfg: cfg, report: r, places: places, undecoded: failed}
	v.validateRules()
	v.validateClientConnection()
	v.validateLeaderElection()
	v.validateCandidate()
	v.validateLeaseGroups()
	v.validateLeaderMigration()
	v.validateLeaseNames()
	v.validateServing()
	v.validateTLS()
	v.validateAuthentication()
	v.validateAuthorization()
	v.validateMetrics()
	v.validateLogging()
	v.validateVersions()
	v.validateGates()
	v.validateNetworking()
	v.validateCloud()
	v.validateControllers()
	v.validateDeletionBreaker()
	v.validateUnread()
}

// validator checks a defaulted configuration.
type validator struct {
	cfg       *v1beta1.KubeControllerManagerConfiguration
	report    *problem.Report
	places    tree.Places
	undecoded map[string]bool
	changes   []diff.Change // against the defaults, computed when first needed
}

// set reports whether the file sets the field to a value that could be decoded.
func (v *validator) set(path string) bool {
	_, ok := v.places.Values[path]
	return ok && v.decoded(path)
}

// decoded reports whether none of the fields was left out: a check across fields would
// otherwise compare with a default that nobody chose.
func (v *validator) decoded(paths ...string) bool {
	for _, path := range paths {
		for ; path != ""; path = fieldpath.Parent(path) {
			if v.undecoded[path] {
				return false
			}
		}
	}
	return true
}

// changed reports whether the file sets the field, or a field in the block, to a value other
// than its default.
func (v *validator) changed(path string) bool {
	if !v.set(path) {
		return false
	}
	changes := v.changedFields() // by path
	from := func(path string) int {
		n, _ := slices.BinarySearchFunc(changes, path, func(c diff.Change, path string) int {
			return strings.Compare(c.Path, path)
		})
		return n
	}
	if n := from(path); n < len(changes) && changes[n].Path == path {
		return true
	}
	n := from(path + ".")
	return n < len(changes) && strings.HasPrefix(changes[n].Path, path+".")
}

// defaults is the configuration of an empty file. It is read only.
var defaults = sync.OnceValue(func() diff.Object { return diff.ObjectOf(v1beta1.NewDefault()) })

// changedFields returns the fields that differ from their defaults.
func (v *validator) changedFields() []diff.Change {
	if v.changes == nil {
		v.changes = diff.Of(defaults(), diff.ObjectOf(v.cfg))
	}
	return v.changes
}

func (v *validator) errorf(path, format string, args ...any) {
	v.report.Errorf(v.places.Position(path), path, format, args...)
}

func (v *validator) warnf(path, format string, args ...any) {
	v.report.Warnf(v.places.Position(path), path, format, args...)
}

func (v *validator) validateClientConnection() {
	const server = "clientConnection.server"
	c := v.cfg.ClientConnection
	if v.decoded("clientConnection.qps", "clientConnection.burst") && *c.QPS == 0 && *c.Burst > 0 {
		v.errorf("clientConnection.burst",
			"must be 0 without qps, not %d: set clientConnection.qps too, or remove burst", *c.Burst)
	}
	if u, err := url.Parse(c.Server); v.decoded(server) && c.Server != "" && (err != nil || u.Host == "" || !isPort(u.Port())) {
		v.errorf(server, "must be a URL such as https://10.0.0.1:6443, not %s", problem.Quote(c.Server))
	}
	for _, part := range strings.Split(c.AcceptContentTypes, ",") {
		if strings.TrimSpace(part) == "" && c.AcceptContentTypes == "" {
			continue
		}
		if _, _, err := mime.ParseMediaType(part); err != nil || !strings.Contains(part, "/") {
			v.errorf("clientConnection.acceptContentTypes",
				"must be media types separated by commas: %s is not a media type", problem.Quote(part))
		}
	}
}

// isPort reports whether a text is the port of a URL, or empty.
func isPort(text string) bool {
	_, err := strconv.ParseUint(text, 10, 16)
	return text == "" || err == nil
}

// firstSet returns the first field that the file sets, or else the first.
func (v *validator) firstSet(paths ...string) string {
	for _, path := range paths {
		if v.set(path) {
			return path
		}
	}
	return paths[0]
}

// validateLogging checks with the library that applies the settings.
func (v *validator) validateLogging() {
	enabled, err := gates.Logging(v.cfg)
	if err != nil {
		v.errorf("logging", "checking feature gates: %v", err)
		return
	}
	for _, p := range logsapi.Validate(&v.cfg.Logging, enabled, apifield.NewPath("logging")) {
		if !v.decoded(p.Field) {
			continue // already reported by its rule
		}
		if p.Field == "logging.vmodule" && !v.decoded("logging.format") {
			continue // whether patterns are allowed depends on the format
		}
		message := strings.ToLower(p.Detail[:min(1, len(p.Detail))]) + p.Detail[min(1, len(p.Detail)):]
		if p.Type == apifield.ErrorTypeForbidden {
			message = "is not allowed: " + message
		}
		v.errorf(p.Field, "%s", message)
	}
	o := v.cfg.Logging.Options
	sizes := map[string]int64{"text": o.Text.InfoBufferSize.Value(), "json": o.JSON.InfoBufferSize.Value()}
	for name, size := range sizes {
		if size < 0 {
			v.errorf("logging.options."+name+".infoBufferSize", "must be 0 or more")
		}
	}
}

// validateUnread warns of what the file sets and nothing reads: a Plan uses the same list to
// show that a change has no effect.
func (v *validator) validateUnread() {
	for _, u := range plan.UnreadIn(v.cfg) {
		if v.changed(u.Path) && v.decoded(u.DecidedBy) {
			v.warnf(u.Path, "%s", u.Message)
		}
	}
}
