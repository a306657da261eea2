package faultproxy

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"kcmd.dev/test/await"
	"kcmd.dev/test/controlplane"
)

const tokenUser = "system:serviceaccount:default:fault-tester"

func TestAPIServerSeesTheClientsUser(t *testing.T) {
	p := Start(t, plane)
	mark, err := plane.Audit().Mark()
	if err != nil {
		t.Fatal(err)
	}
	path, err := p.Kubeconfig("behind-fault-proxy", user, admins)
	if err != nil {
		t.Fatal(err)
	}
	config, err := clientcmd.BuildConfigFromFlags("", path)
	if err != nil {
		t.Fatal(err)
	}
	review, err := kubernetes.NewForConfigOrDie(config).AuthenticationV1().SelfSubjectReviews().Create(t.Context(), &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if got := review.Status.UserInfo; got.Username != user || !slices.Contains(got.Groups, admins) {
		t.Errorf("the API server saw %s of %v", got.Username, got.Groups)
	}
	plain := client(t, p, func(c *rest.Config) {
		other, err := p.Config("nobody-special")
		if err != nil {
			t.Fatal(err)
		}
		c.TLSClientConfig = other.TLSClientConfig
	})
	if _, err := plain.CoreV1().ConfigMaps("default").List(t.Context(), metav1.ListOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("a user without rights lists: %v", err)
	}
	events, err := plane.Audit().Since(mark, controlplane.BySourceIP(p.SourceIP()))
	if err != nil {
		t.Fatal(err)
	}
	if len(events) != 1 || events[0].User.Username != user || len(events[0].SourceIPs) != 1 {
		t.Errorf("from %s the audit log has %+v", p.SourceIP(), events)
	}
}

func TestBearerTokenIsAuthenticatedByTheAPIServer(t *testing.T) {
	p := Start(t, plane)
	namespace := plane.Namespace(t)
	admin := plane.AdminClient()
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "fault-tester"}}
	if _, err := admin.CoreV1().ServiceAccounts("default").Create(t.Context(), account, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	binding := &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "all"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: "fault-tester", Namespace: "default"}},
	}
	if _, err := admin.RbacV1().RoleBindings(namespace).Create(t.Context(), binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	token, err := admin.CoreV1().ServiceAccounts("default").CreateToken(t.Context(), "fault-tester", &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	with := func(token string) kubernetes.Interface {
		return client(t, p, func(c *rest.Config) { c.CertData, c.KeyData, c.BearerToken = nil, nil, token })
	}
	await.True(t, "the service account has its rights", func() bool {
		_, err := with(token.Status.Token).CoreV1().ConfigMaps(namespace).Create(t.Context(), configMap("by-token"), metav1.CreateOptions{})
		return err == nil
	})
	if n := p.Seen(Requests{User: tokenUser, Verbs: []string{"create"}, Resource: configMaps, Namespace: namespace, Name: "by-token"}); n == 0 {
		t.Error("the request has another user than its token names")
	}
	for _, stranger := range []string{"", "no.such.token"} {
		if _, err := with(stranger).CoreV1().ConfigMaps(namespace).List(t.Context(), metav1.ListOptions{}); !apierrors.IsForbidden(err) && !apierrors.IsUnauthorized(err) {
			t.Errorf("with token %q: %v", stranger, err)
		}
	}
}

func TestHeldRequestsWaitUntilTheFaultIsLifted(t *testing.T) {
	p := Start(t, plane)
	namespace := plane.Namespace(t)
	slow, quick := client(t, p, withAgent("slow/1")), client(t, p, withAgent("quick/1"))
	creates := Requests{Client: "slow", Verbs: []string{"create"}, Resource: configMaps, Namespace: namespace, Name: "a"}
	first := p.HoldRequests(creates)
	second := p.HoldRequests(creates)
	done := make(chan error, 1)
	go func() {
		_, err := slow.CoreV1().ConfigMaps(namespace).Create(context.WithoutCancel(t.Context()), configMap("a"), metav1.CreateOptions{})
		done <- err
	}()
	await.True(t, "the request has come", func() bool { return first.Hits() == 1 })
	for name, c := range map[string]kubernetes.Interface{"b": slow, "c": quick} {
		if _, err := c.CoreV1().ConfigMaps(namespace).Create(t.Context(), configMap(name), metav1.CreateOptions{}); err != nil {
			t.Errorf("a request that is not held: %v", err)
		}
	}
	first.Lift()
	first.Lift()
	await.True(t, "the other fault holds the request", func() bool { return second.Hits() == 1 })
	if _, err := plane.AdminClient().CoreV1().ConfigMaps(namespace).Get(t.Context(), "a", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("a held request was passed on: %v", err)
	}
	second.Lift()
	if err := <-done; err != nil {
		t.Errorf("a request that was held: %v", err)
	}
	if n := p.Seen(creates); n != 1 {
		t.Errorf("%d requests were seen", n)
	}
}

func TestHeldRequestEndsWithItsClient(t *testing.T) {
	for name, edit := range map[string]func(*rest.Config){"HTTP/2": func(*rest.Config) {}, "HTTP/1.1": withHTTP1} {
		t.Run(name, func(t *testing.T) {
			p := Start(t, plane)
			namespace := plane.Namespace(t)
			c := client(t, p, edit)
			held := p.HoldRequests(Requests{Verbs: []string{"create"}})
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error, 1)
			go func() {
				_, err := c.CoreV1().ConfigMaps(namespace).Create(ctx, configMap("a"), metav1.CreateOptions{})
				done <- err
			}()
			await.True(t, "the request has come", func() bool { return held.Hits() == 1 })
			cancel()
			if err := <-done; !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
			await.True(t, "nothing is in work", func() bool { return p.inWork() == 0 })
			held.Lift()
			if _, err := c.CoreV1().ConfigMaps(namespace).Get(t.Context(), "a", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
				t.Errorf("a request of a client that is gone was passed on: %v", err)
			}
		})
	}
}

func TestDelayedRequestIsLate(t *testing.T) {
	p := Start(t, plane)
	c := client(t, p)
	const delay = 300 * time.Millisecond
	p.DelayRequests(Requests{User: user, Verbs: []string{"list"}}, delay)
	begin := time.Now()
	if _, err := c.CoreV1().ConfigMaps("default").List(t.Context(), metav1.ListOptions{}); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(begin); took < delay {
		t.Errorf("answered after %s", took)
	}
	p.DelayRequests(Requests{Verbs: []string{"watch"}}, time.Hour).Lift()
	if w, err := c.CoreV1().ConfigMaps("default").Watch(t.Context(), metav1.ListOptions{}); err != nil {
		t.Error(err)
	} else {
		w.Stop()
	}
}

func TestRefusedRequestGetsTheStatus(t *testing.T) {
	for name, contentType := range contentTypes {
		t.Run(name, func(t *testing.T) {
			p := Start(t, plane)
			namespace := plane.Namespace(t)
			c := client(t, p, withContentType(contentType))
			quota := p.Refuse(Requests{Verbs: []string{"create"}, Resource: configMaps},
				&apierrors.NewForbidden(configMaps, "a", errors.New("exceeded quota")).ErrStatus)
			_, err := c.CoreV1().ConfigMaps(namespace).Create(t.Context(), configMap("a"), metav1.CreateOptions{})
			if !apierrors.IsForbidden(err) || quota.Hits() != 1 {
				t.Errorf("got %v", err)
			}
			quota.Lift()
			if _, err := c.CoreV1().ConfigMaps(namespace).Create(t.Context(), configMap("a"), metav1.CreateOptions{}); err != nil {
				t.Error(err)
			}
			p.Refuse(Requests{Verbs: []string{"watch"}}, &apierrors.NewResourceExpired("too old").ErrStatus)
			if _, err := c.CoreV1().ConfigMaps(namespace).Watch(t.Context(), metav1.ListOptions{}); !apierrors.IsResourceExpired(err) {
				t.Errorf("got %v", err)
			}
			p.Refuse(Requests{Path: "/version"}, &metav1.Status{Message: "no"})
			if _, err := c.Discovery().ServerVersion(); !apierrors.IsInternalError(err) && !isCode(err, http.StatusInternalServerError) {
				t.Errorf("got %v", err)
			}
		})
	}
}

func isCode(err error, code int32) bool {
	var status apierrors.APIStatus
	return errors.As(err, &status) && status.Status().Code == code
}

func TestLostAnswerIsThatOfARequestCarriedOut(t *testing.T) {
	for name, edit := range map[string]func(*rest.Config){"HTTP/2": func(*rest.Config) {}, "HTTP/1.1": withHTTP1} {
		t.Run(name, func(t *testing.T) {
			p := Start(t, plane)
			namespace := plane.Namespace(t)
			c := client(t, p, edit)
			fault := p.LoseAnswers(Requests{Verbs: []string{"create"}, Resource: configMaps, Namespace: namespace})
			_, err := c.CoreV1().ConfigMaps(namespace).Create(t.Context(), configMap("a"), metav1.CreateOptions{})
			if err == nil || errors.As(err, new(apierrors.APIStatus)) || fault.Hits() != 1 {
				t.Errorf("the answer is %v", err)
			}
			if _, err := c.CoreV1().ConfigMaps(namespace).Get(t.Context(), "a", metav1.GetOptions{}); err != nil {
				t.Errorf("the request was not carried out: %v", err)
			}
		})
	}
}

func TestSeenCountsByResource(t *testing.T) {
	p := Start(t, plane)
	c := client(t, p)
	if _, err := c.CoreV1().Namespaces().Get(t.Context(), "default", metav1.GetOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.AppsV1().Deployments("").List(t.Context(), metav1.ListOptions{}); err != nil {
		t.Fatal(err)
	}
	_, err := c.AppsV1().Deployments("default").UpdateScale(t.Context(), "none", nil, metav1.UpdateOptions{})
	if err == nil {
		t.Fatal("scaled a deployment that does not exist")
	}
	deployments := schema.GroupResource{Group: "apps", Resource: "deployments"}
	for _, test := range []struct {
		requests Requests
		want     int
	}{
		{Requests{}, 3},
		{Requests{Resource: deployments}, 2},
		{Requests{Resource: deployments, Verbs: []string{"update", "create"}}, 1},
		{Requests{Resource: deployments, Subresource: "scale"}, 1},
		{Requests{Resource: deployments, Whole: true}, 1},
		{Requests{Resource: schema.GroupResource{Resource: "deployments"}}, 0},
		{Requests{Path: "/apis/apps/v1/deployments"}, 1},
		{Requests{User: "somebody"}, 0},
		{Requests{Namespace: "default"}, 2},
	} {
		if got := p.Seen(test.requests); got != test.want {
			t.Errorf("%d requests of %+v, want %d", got, test.requests, test.want)
		}
	}
}

// A test that has a namespace selects what happens there, and to objects without one that it made itself.
func TestObjectsWithoutANamespaceAreSelected(t *testing.T) {
	nodes := schema.GroupResource{Resource: "nodes"}
	own := Requests{Namespace: "own", ClusterScoped: true, ExceptNames: map[schema.GroupResource][]string{nodes: {"old"}}}
	for name, c := range map[string]struct {
		requests Requests
		of       attributes
		want     bool
	}{
		"in the namespace":          {own, attributes{resource: configMaps, namespace: "own", name: "a"}, true},
		"in another one":            {own, attributes{resource: configMaps, namespace: "other", name: "a"}, false},
		"in none":                   {own, attributes{resource: nodes, name: "new"}, true},
		"in none, excepted":         {own, attributes{resource: nodes, name: "old"}, false},
		"of the name, not excepted": {own, attributes{resource: configMaps, namespace: "own", name: "old"}, true},
		"in none, not asked for":    {Requests{Namespace: "own"}, attributes{resource: nodes, name: "new"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := c.requests.match(c.of); got != c.want {
				t.Errorf("it is selected: %v, want %v", got, c.want)
			}
		})
	}
}
