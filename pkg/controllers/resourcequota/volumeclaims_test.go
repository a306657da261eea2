package resourcequota

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	"kcmd.dev/test/controllertest"
)

func volumeClaim(changes ...func(*corev1.PersistentVolumeClaim)) *corev1.PersistentVolumeClaim {
	claim := &corev1.PersistentVolumeClaim{}
	claim.Namespace, claim.Name, claim.UID = "ns", "claim", "claim"
	return controllertest.Changed(claim, changes...)
}

func storage(size string) func(*corev1.PersistentVolumeClaim) {
	return func(c *corev1.PersistentVolumeClaim) {
		c.Spec.Resources.Requests = corev1.ResourceList{"storage": resource.MustParse(size)}
	}
}

func allocated(size string) func(*corev1.PersistentVolumeClaim) {
	return func(c *corev1.PersistentVolumeClaim) {
		c.Status.AllocatedResources = corev1.ResourceList{"storage": resource.MustParse(size)}
	}
}

func classed(name string) func(*corev1.PersistentVolumeClaim) {
	return func(c *corev1.PersistentVolumeClaim) { c.Spec.StorageClassName = &name }
}

func annotated(class string) func(*corev1.PersistentVolumeClaim) {
	return func(c *corev1.PersistentVolumeClaim) {
		c.Annotations = map[string]string{corev1.BetaStorageClassAnnotation: class}
	}
}

// attributes gives a claim the classes that it is to have, has, and is about to get.
func attributes(spec, current, target string) func(*corev1.PersistentVolumeClaim) {
	return func(c *corev1.PersistentVolumeClaim) {
		c.Spec.VolumeAttributesClassName, c.Status.CurrentVolumeAttributesClassName = ptr.To(spec), ptr.To(current)
		c.Status.ModifyVolumeStatus = &corev1.ModifyVolumeStatus{TargetVolumeAttributesClassName: target}
	}
}

// Pins QUOTA-56.
func TestVolumeClaimUsage(t *testing.T) {
	const plain = "count/persistentvolumeclaims=1 persistentvolumeclaims=1"
	const gold = " gold.storageclass.storage.k8s.io/persistentvolumeclaims=1"
	for name, test := range map[string]struct {
		claim *corev1.PersistentVolumeClaim
		want  string
	}{
		"of nothing":                  {volumeClaim(), plain},
		"of storage":                  {volumeClaim(storage("1Gi")), plain + " requests.storage=1Gi"},
		"of a fraction of a byte":     {volumeClaim(storage("1500m")), plain + " requests.storage=2"},
		"with more allocated":         {volumeClaim(storage("1Gi"), allocated("2Gi")), plain + " requests.storage=2Gi"},
		"with a fraction allocated":   {volumeClaim(storage("1"), allocated("1500m")), plain + " requests.storage=2"},
		"with less allocated":         {volumeClaim(storage("2Gi"), allocated("1Gi")), plain + " requests.storage=2Gi"},
		"with allocated storage only": {volumeClaim(allocated("1Gi")), plain},
		"of a class":                  {volumeClaim(storage("1Gi"), classed("gold")), plain + " requests.storage=1Gi" + gold + " gold.storageclass.storage.k8s.io/requests.storage=1Gi"},
		"of a class, without storage": {volumeClaim(classed("gold")), plain + gold},
		"of the class that is empty":  {volumeClaim(classed("")), plain},
		"of a class by annotation":    {volumeClaim(classed("silver"), annotated("gold")), plain + gold},
		"of no class by annotation":   {volumeClaim(classed("silver"), annotated("")), plain},
	} {
		t.Run(name, func(t *testing.T) { wantList(t, volumeClaimUsage(test.claim, everything), test.want) })
	}
	for name, want := range map[corev1.ResourceName]bool{
		"count/persistentvolumeclaims": true, "persistentvolumeclaims": true, "requests.storage": true,
		"gold.storageclass.storage.k8s.io/persistentvolumeclaims": true, "gold.storageclass.storage.k8s.io/requests.storage": true,
		"gold.storageclass.storage.k8s.io/limits.storage": false, "storage": false, "requests.ephemeral-storage": false,
	} {
		if got := limitsVolumeClaim(name); got != want {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
}

// Pins QUOTA-56.
func TestScopesOfVolumeClaims(t *testing.T) {
	const class = corev1.ResourceQuotaScopeVolumeAttributesClass
	for name, test := range map[string]struct {
		claim    *corev1.PersistentVolumeClaim
		selector *corev1.ScopeSelector
		want     bool
	}{
		"has a class":                        {volumeClaim(attributes("a", "", "")), where(class, "Exists"), true},
		"has a class still":                  {volumeClaim(attributes("", "a", "")), where(class, "Exists"), true},
		"has a class soon":                   {volumeClaim(attributes("", "", "a")), where(class, "Exists"), true},
		"has none":                           {volumeClaim(), where(class, "Exists"), false},
		"has the empty one":                  {volumeClaim(attributes("", "", "")), where(class, "Exists"), false},
		"any of them is wanted":              {volumeClaim(attributes("a", "b", "c")), where(class, "In", "b"), true},
		"none of them is wanted":             {volumeClaim(attributes("a", "b", "c")), where(class, "In", "d"), false},
		"one of them is not unwanted":        {volumeClaim(attributes("a", "b", "")), where(class, "NotIn", "a"), true},
		"all of them are unwanted":           {volumeClaim(attributes("a", "a", "a")), where(class, "NotIn", "a"), false},
		"it has none, which is not unwanted": {volumeClaim(), where(class, "NotIn", "a"), true},
		"it has none, as is wanted":          {volumeClaim(), where(class, "DoesNotExist"), true},
		"it has one, which is not wanted":    {volumeClaim(attributes("a", "", "")), where(class, "DoesNotExist"), false},
		"of scopes it knows only this one":   {volumeClaim(attributes("a", "", "")), where("Terminating", "Exists"), false},
		"priority classes are those of pods": {volumeClaim(attributes("a", "", "")), where("PriorityClass", "Exists"), false},
	} {
		t.Run(name, func(t *testing.T) {
			s := selectedBy(corev1.ResourceQuotaSpec{ScopeSelector: test.selector})
			if got := s.includes(profileOfVolumeClaim(test.claim, everything).meets); got != test.want {
				t.Errorf("selected is %v, want %v", got, test.want)
			}
		})
	}
}

// Pins QUOTA-15 and QUOTA-80.
func TestReleasesVolumeClaim(t *testing.T) {
	for name, test := range map[string]struct {
		old, new *corev1.PersistentVolumeClaim
		want     bool
	}{
		"nothing":                {volumeClaim(storage("1Gi")), volumeClaim(storage("1024Mi")), false},
		"less is asked for":      {volumeClaim(storage("2Gi")), volumeClaim(storage("1Gi")), true},
		"less is allocated":      {volumeClaim(storage("1Gi"), allocated("3Gi")), volumeClaim(storage("1Gi"), allocated("2Gi")), true},
		"a class is given":       {volumeClaim(), volumeClaim(classed("gold")), true},
		"an annotation is given": {volumeClaim(), volumeClaim(annotated("gold")), true},
		"the attributes are":     {volumeClaim(attributes("a", "a", "")), volumeClaim(attributes("b", "a", "")), true},
		"the attributes were":    {volumeClaim(attributes("b", "a", "")), volumeClaim(attributes("b", "b", "")), true},
		"the attributes will be": {volumeClaim(attributes("", "", "b")), volumeClaim(attributes("", "", "")), true},
		"what uses nothing": {volumeClaim(), volumeClaim(func(c *corev1.PersistentVolumeClaim) {
			c.Labels, c.Status.Phase = map[string]string{"a": "b"}, corev1.ClaimBound
		}), false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := releasesVolumeClaim(test.old, test.new, everything); got != test.want {
				t.Errorf("releases is %v, want %v", got, test.want)
			}
		})
	}
}

// Pins QUOTA-96.
func TestVolumeClaimsOfOlderVersions(t *testing.T) {
	claim := volumeClaim(storage("1Gi"), allocated("2Gi"), attributes("a", "", ""))
	wantList(t, volumeClaimUsage(claim, features{}), "count/persistentvolumeclaims=1 persistentvolumeclaims=1 requests.storage=1Gi")
	for _, operator := range []corev1.ScopeSelectorOperator{"Exists", "DoesNotExist"} {
		s := selectedBy(corev1.ResourceQuotaSpec{ScopeSelector: where(corev1.ResourceQuotaScopeVolumeAttributesClass, operator)})
		if s.includes(profileOfVolumeClaim(claim, features{}).meets) {
			t.Errorf("is in a scope that does not exist: %s", operator)
		}
	}
}
