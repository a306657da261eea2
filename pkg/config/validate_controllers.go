package config

import "kcmd.dev/pkg/config/v1beta1"

// validateControllers checks what concerns single controllers and more than one field.
func (v *validator) validateControllers() {
	v.validateTokenController()
	v.validateSigners()
	v.validateNodeLifecycle()
	v.validateVolumes()
	v.validateStorageVersionMigrator()
}

func (v *validator) validateTokenController() {
	const token = "controllers." + tokenController + ".enabled"
	enabled := v.cfg.Controllers.ServiceAccountToken.Enabled
	if enabled != nil && *enabled && v.cfg.ServiceAccounts.PrivateKeyFile == "" && v.decoded("serviceAccounts.privateKeyFile") {
		v.warnf(token, "the controller stays idle until serviceAccounts.privateKeyFile is set")
	}
}

const signing = "controllers.certificatesigningrequest-signing-controller."

// signer is one of the CAs of the block with the name of its field.
type signer struct {
	path string
	ca   v1beta1.SigningCA
}

// signers are those with a CA of their own.
func signers(c v1beta1.CSRSigningController) []signer {
	return []signer{
		{signing + "kubeletServing", c.KubeletServing},
		{signing + "kubeletClient", c.KubeletClient},
		{signing + "kubeAPIServerClient", c.KubeAPIServerClient},
		{signing + "legacyUnknown", c.LegacyUnknown},
	}
}

// validateSigners wants whole pairs, and one CA for all or CAs for single signers.
func (v *validator) validateSigners() {
	c := v.cfg.Controllers.CSRSigning
	v.pair(signing+"allSigners", c.AllSigners)
	for _, s := range signers(c) {
		v.pair(s.path, s.ca)
		if c.AllSigners != (v1beta1.SigningCA{}) && s.ca != (v1beta1.SigningCA{}) {
			v.errorf(s.path, "cannot be combined with allSigners: set either the CA of all signers or those of single ones")
		}
	}
}

// pair reports a certificate without its key and the other way round.
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

// validateNodeLifecycle wants a grace period in which a node is looked at more than once.
func (v *validator) validateNodeLifecycle() {
	const block = "controllers.node-lifecycle-controller."
	const period, grace = block + "nodeMonitorPeriod", block + "nodeMonitorGracePeriod"
	c := v.cfg.Controllers.NodeLifecycle
	if v.decoded(period, grace) && c.NodeMonitorGracePeriod.Duration <= c.NodeMonitorPeriod.Duration {
		v.errorf(v.firstSet(grace, period), "nodeMonitorGracePeriod (%s) must be more than nodeMonitorPeriod (%s)",
			v1beta1.FormatDuration(c.NodeMonitorGracePeriod.Duration), v1beta1.FormatDuration(c.NodeMonitorPeriod.Duration))
	}
	const rate, secondary = block + "nodeEvictionRate", block + "secondaryNodeEvictionRate"
	if v.decoded(rate, secondary) && *c.SecondaryNodeEvictionRate > *c.NodeEvictionRate {
		v.warnf(v.firstSet(secondary, rate), "secondaryNodeEvictionRate (%g) is more than nodeEvictionRate (%g): a disrupted zone should be treated with more care, not less",
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
		v.errorf(block+"hostPathProvisioning", "needs dynamicProvisioning")
	}
	v.warnf(block+"hostPathProvisioning", "is for tests on a single node: pods can write to the node's disk")
}

// validateStorageVersionMigrator wants the garbage collector, whose graph the migrator uses.
func (v *validator) validateStorageVersionMigrator() {
	const migrator, collector = "storage-version-migrator-controller", "garbage-collector-controller"
	enabled := v.cfg.Controllers.StorageVersionMigrator.Enabled
	if enabled == nil || !*enabled || v.cfg.ControllerEnabled(collector) {
		return
	}
	if path := "controllers." + migrator + ".enabled"; v.decoded(path, "controllers."+collector+".enabled", "controllerDefaults.enabled") {
		v.errorf(path, "needs %s, which is disabled", collector)
	}
}
