package satoken

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clienttesting "k8s.io/client-go/testing"

	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/test/controllertest"
	"kcmd.dev/test/must"
)

// start makes a controller whose caches hold cached, and whose API server then holds live
// as well.
func start(t testing.TB, cached []runtime.Object, live ...runtime.Object) (*controllertest.Env, *tokenController) {
	t.Helper()
	return startAfter(t, nil, cached, live...)
}

func startAfter(t testing.TB, predecessor any, cached []runtime.Object, live ...runtime.Object) (*controllertest.Env, *tokenController) {
	t.Helper()
	env := controllertest.New(t, cached...)
	env.ClusterCA = []byte("ca")
	env.Succession.Leave(predecessor)
	c := must.Get(newController(env.Env, config{concurrentSyncs: 1, privateKeyFile: write(t, keyPEM(t))}))(t)
	env.Start(t)
	env.Fake.ClearActions()
	for _, object := range live {
		// A reactor keeps it out of the watches, and so out of the caches.
		serve(env, object)
	}
	return env, c
}

// serve makes live reads of an account or a Secret return object.
func serve(env *controllertest.Env, object runtime.Object) {
	resource := "serviceaccounts"
	if _, ok := object.(*corev1.Secret); ok {
		resource = "secrets"
	}
	env.Fake.PrependReactor("get", resource, func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, object.DeepCopyObject(), nil
	})
}

// refuse makes a verb on a resource fail.
func refuse(env *controllertest.Env, verb, resource string, err error) {
	env.Fake.PrependReactor(verb, resource, func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, err
	})
}

// requests are the requests made, as "verb resource name".
func requests(env *controllertest.Env) []string {
	all := []string{}
	for _, action := range env.Fake.Actions() {
		name := ""
		switch a := action.(type) {
		case clienttesting.DeleteActionImpl:
			name = a.Name
		case clienttesting.UpdateActionImpl:
			name = a.Object.(metav1.Object).GetName()
		case clienttesting.GetActionImpl:
			name = a.Name
		}
		all = append(all, fmt.Sprintf("%s %s %s", action.GetVerb(), action.GetResource().Resource, name))
	}
	return all
}

func objects(all ...runtime.Object) []runtime.Object { return all }

// writesOf are the requests that change something.
func writesOf(env *controllertest.Env) []string {
	return slices.DeleteFunc(requests(env), func(request string) bool { return strings.HasPrefix(request, "get ") })
}

const testNamespace = "ns"

func account(name string, uid types.UID, references ...string) *corev1.ServiceAccount {
	a := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: testNamespace, Name: name, UID: uid, ResourceVersion: "1"}}
	for _, name := range references {
		a.Secrets = append(a.Secrets, corev1.ObjectReference{Name: name})
	}
	return a
}

// secret is a token Secret that names account sa, with the UID if it is not empty.
func secret(name string, accountUID string, changes ...func(*corev1.Secret)) *corev1.Secret {
	s := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: testNamespace, Name: name, UID: types.UID(name + "-uid"), ResourceVersion: "1",
			Annotations: map[string]string{corev1.ServiceAccountNameKey: "sa"},
		},
		Type: corev1.SecretTypeServiceAccountToken,
	}
	if accountUID != "" {
		s.Annotations[corev1.ServiceAccountUIDKey] = accountUID
	}
	for _, change := range changes {
		change(s)
	}
	return s
}

func withData(ca, namespace, token string) func(*corev1.Secret) {
	return func(s *corev1.Secret) {
		s.Data = map[string][]byte{"ca.crt": []byte(ca), "namespace": []byte(namespace), "token": []byte(token)}
	}
}

func replaceSecret(c *tokenController) {
	c.secretAdded(reconcile.Fresh, secret("s", "u1"))
	c.secretUpdated(reconcile.Fresh, secret("s", "u1"), secret("s", "u1", func(s *corev1.Secret) { s.UID = "replacement" }))
}
