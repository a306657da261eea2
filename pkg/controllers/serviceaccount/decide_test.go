package serviceaccount

import (
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func namespace(name string, phase corev1.NamespacePhase) *corev1.Namespace {
	return &corev1.Namespace{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name + "-uid"), ResourceVersion: "1"},
		Status:     corev1.NamespaceStatus{Phase: phase},
	}
}

func account(namespace, name string) *corev1.ServiceAccount {
	return &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
}

func deleting(meta *metav1.ObjectMeta) {
	now := metav1.Now()
	meta.DeletionTimestamp = &now
	meta.Finalizers = []string{"example.com/hold"}
}

// Pins SA-27 and SA-31.
func TestBecameActive(t *testing.T) {
	active, terminating, unset := namespace("a", corev1.NamespaceActive), namespace("a", corev1.NamespaceTerminating), namespace("a", "")
	recreated := namespace("a", corev1.NamespaceActive)
	recreated.UID = "another"
	labelled := active.DeepCopy()
	labelled.Labels = map[string]string{"a": "b"}

	for name, tc := range map[string]struct {
		old, new *corev1.Namespace
		want     bool
	}{
		"becomes active":                 {unset, active, true},
		"back from terminating":          {terminating, active, true},
		"recreated between observations": {active, recreated, true},
		"label of an active namespace":   {active, labelled, false},
		"resync":                         {active, active, false},
		"becomes terminating":            {active, terminating, false},
		"stays terminating":              {terminating, terminating, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := becameActive(tc.old, tc.new); got != tc.want {
				t.Errorf("becameActive = %v, want %v", got, tc.want)
			}
		})
	}
}

func TestNeedsAccount(t *testing.T) {
	deletedButActive := namespace("a", corev1.NamespaceActive)
	deleting(&deletedButActive.ObjectMeta)
	held := account("a", "default")
	deleting(&held.ObjectMeta)

	for name, tc := range map[string]struct {
		ns      *corev1.Namespace
		account *corev1.ServiceAccount
		want    bool
	}{
		"active without account":                    {namespace("a", corev1.NamespaceActive), nil, true},
		"active with account":                       {namespace("a", corev1.NamespaceActive), account("a", "default"), false},
		"account held by a finalizer counts":        {namespace("a", corev1.NamespaceActive), held, false},
		"terminating":                               {namespace("a", corev1.NamespaceTerminating), nil, false},
		"phase not set yet":                         {namespace("a", ""), nil, false},
		"deletion timestamp alone is not looked at": {deletedButActive, nil, true},
	} {
		t.Run(name, func(t *testing.T) {
			if got := needsAccount(tc.ns, tc.account); got != tc.want {
				t.Errorf("needsAccount = %v, want %v", got, tc.want)
			}
		})
	}
}

func terminatingRefusal() error {
	err := apierrors.NewForbidden(corev1.Resource("serviceaccounts"), "default", errors.New("namespace is being terminated"))
	err.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
	return err
}
