package config

import (
	"mime"
	"slices"
	"strings"

	fieldpath "k8s.io/apimachinery/pkg/util/validation/field"
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
	v.validateControllers()
	v.validateBuilt()
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
	return slices.ContainsFunc(v.changedFields(), func(c Change) bool {
		return c.Path == path || strings.HasPrefix(c.Path, path+".")
	})
}

// changedFields are the fields that differ from their defaults.
func (v *validator) changedFields() []Change {
	if v.changes == nil {
		v.changes = changedLeaves(toObject(v1beta1.NewDefault()), toObject(v.cfg))
	}
	return v.changes
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

// firstSet is the first field that the file sets, else the first.
func (v *validator) firstSet(paths ...string) string {
	for _, path := range paths {
		if v.set(path) {
			return path
		}
	}
	return paths[0]
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
