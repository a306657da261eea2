package validation

import (
	"slices"

	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/config/fieldpath"
	"kcmd.dev/pkg/config/gates"
	"kcmd.dev/pkg/config/locks"
	"kcmd.dev/pkg/config/problem"
	"kcmd.dev/pkg/config/registry"
	"kcmd.dev/pkg/config/v1beta1"
)

// validateControllers checks rules across the fields of single controllers.
func (v *validator) validateControllers() {
	v.validateTokenController()
	v.validateSigners()
	v.validateNodeLifecycle()
	v.validateVolumes()
	v.validateStorageVersionMigrator()
	v.validatePauses()
	v.warnOfGates()
}

// warnOfGates reports the controllers that the file enables and that do not run, because the feature gate
// which they need is off.
func (v *validator) warnOfGates() {
	for _, c := range registry.Controllers() {
		path := "controllers." + c.Name + ".enabled"
		if c.Needs == "" || !v.set(path) || !v.cfg.ControllerEnabled(c.Name) || gates.Enabled(v.cfg, c.Needs) {
			continue
		}
		stage := fieldpath.Join("featureGates", gates.Of(v.cfg)[c.Needs].StageGate())
		if v.decoded("emulatedVersion", fieldpath.Join("featureGates", c.Needs), stage) {
			v.warnf(path, "the controller does not run: it needs the feature gate %s, which is off", c.Needs)
		}
	}
}

// validatePauses reports namespaces in which a controller cannot be paused, and those in which
// it is paused twice.
func (v *validator) validatePauses() {
	for _, c := range v.cfg.Controllers.All() {
		path := "controllers." + c.Name + ".pausedNamespaces"
		if !v.decoded(path) || len(c.Settings.PausedNamespaces) == 0 {
			continue
		}
		if registry.ClusterScoped(c.Name) {
			v.errorf(path, "%s writes no objects in namespaces: pause it as a whole with paused, or remove the setting", c.Name)
			continue
		}
		for i, namespace := range c.Settings.PausedNamespaces {
			if slices.Contains(v.cfg.PausedNamespaces, namespace) {
				v.warnf(fieldpath.Element(path, i), "has no effect: pausedNamespaces has %s for all controllers",
					problem.Quote(namespace))
			}
		}
	}
}

func (v *validator) validateTokenController() {
	const token = "controllers." + locks.NotMigrated + ".enabled"
	enabled := ptr.Deref(v.cfg.Controllers.ServiceAccountToken.Enabled, false)
	if enabled && v.cfg.ServiceAccounts.PrivateKeyFile == "" && v.decoded("serviceAccounts.privateKeyFile") {
		v.warnf(token, "the controller stays idle until serviceAccounts.privateKeyFile is set")
	}
}

// validateSigners requires whole pairs, and either one CA for all or CAs for single signers.
func (v *validator) validateSigners() {
	c := v.cfg.Controllers.CSRSigning
	v.pair(v1beta1.AllSigners, c.AllSigners)
	for _, s := range c.Signers() {
		v.pair(s.Path, s.CA)
		if c.AllSigners != (v1beta1.SigningCA{}) && s.CA != (v1beta1.SigningCA{}) {
			v.errorf(s.Path, "cannot be combined with allSigners: set either the CA of all signers or the CAs of single signers")
		}
	}
}

// pair reports a certificate without its key, and a key without its certificate.
func (v *validator) pair(path string, ca v1beta1.SigningCA) {
	certificate, key := path+".certFile", path+".privateKeyFile"
	if !v.decoded(certificate, key) {
		return
	}
	switch {
	case ca.CertFile != "" && ca.PrivateKeyFile == "":
		v.errorf(certificate, "needs privateKeyFile")
	case ca.CertFile == "" && ca.PrivateKeyFile != "":
		v.errorf(key, "needs certFile")
	}
}

// validateNodeLifecycle warns of a grace period in which a node is not checked twice: upstream
// accepts it, and virtual clusters whose nodes send no heartbeats use it.
func (v *validator) validateNodeLifecycle() {
	const block = "controllers.node-lifecycle-controller."
	const period, grace = block + "nodeMonitorPeriod", block + "nodeMonitorGracePeriod"
	c := v.cfg.Controllers.NodeLifecycle
	if v.decoded(period, grace) && c.NodeMonitorGracePeriod.Duration <= c.NodeMonitorPeriod.Duration {
		v.warnf(v.firstSet(grace, period), "nodeMonitorGracePeriod (%s) should be more than nodeMonitorPeriod (%s): "+
			"a node that stops reporting may be noticed late",
			v1beta1.FormatDuration(c.NodeMonitorGracePeriod.Duration), v1beta1.FormatDuration(c.NodeMonitorPeriod.Duration))
	}
	const rate, secondary = block + "nodeEvictionRate", block + "secondaryNodeEvictionRate"
	if v.decoded(rate, secondary) && *c.SecondaryNodeEvictionRate > *c.NodeEvictionRate {
		v.warnf(v.firstSet(secondary, rate), "secondaryNodeEvictionRate (%g) is more than nodeEvictionRate (%g): "+
			"nodes in a disrupted zone should be tainted more slowly",
			*c.SecondaryNodeEvictionRate, *c.NodeEvictionRate)
	}
}

func (v *validator) validateVolumes() {
	const block = "controllers.persistentvolume-binder-controller."
	c := v.cfg.Controllers.PersistentVolumeBinder
	if !*c.HostPathProvisioning {
		return
	}
	if !*c.DynamicProvisioning {
		v.warnf(block+"hostPathProvisioning", "has no effect without dynamicProvisioning")
	}
	v.warnf(block+"hostPathProvisioning", "is for tests on a single node: pods can write to the node's disk")
}

// validateStorageVersionMigrator requires the garbage collector, whose caches the migrator reads.
// It is an error where the migrator is enabled, or else where its feature gate is.
func (v *validator) validateStorageVersionMigrator() {
	const migrator, collector = "storage-version-migrator-controller", "garbage-collector-controller"
	const block, needs = "controllers." + migrator + ".enabled", "needs %s, which is disabled"
	known := v.decoded(block, "controllers."+collector+".enabled", "controllerDefaults.enabled")
	if !known || v.cfg.ControllerEnabled(collector) {
		return
	}
	if enabled := v.cfg.Controllers.StorageVersionMigrator.Enabled; enabled != nil && *enabled {
		v.errorf(block, needs, collector)
		return
	}
	gate := gates.Of(v.cfg)[gates.StorageVersionMigrator]
	if by, ok := v.setBy(gate); ok && v.cfg.ControllerEnabled(migrator) && gate.EnabledBy(v.cfg.FeatureGates) {
		path := fieldpath.Join("featureGates", by)
		v.report.Errorf(v.places.Key(path), path, "enables "+migrator+", which "+needs, collector)
	}
}
