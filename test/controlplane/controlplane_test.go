package controlplane

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/ptr"

	"kcmd.dev/test/await"
	"kcmd.dev/test/must"
)

const testNodes = 3

// plane is shared by the tests of this package.
var plane *ControlPlane

func TestMain(m *testing.M) {
	options := Options{Nodes: testNodes, Scheduler: true, NoServiceAccountAdmission: true}
	if os.Getenv(subprocessMode) != "" {
		options = Options{} // a lean one: the subprocess is there to be ended
	}
	os.Exit(RunTests(m, options, func(c *ControlPlane) { plane = c }))
}

func TestVersion(t *testing.T) {
	version, err := plane.AdminClient().Discovery().ServerVersion()
	if err != nil {
		t.Fatal(err)
	}
	if version.GitVersion != "v1.36.3" || version.Major != "1" || version.Minor != "36" || version.GitTreeState != "clean" {
		t.Errorf("got %+v", version)
	}
}

func TestManagerHasOnlyItsOwnRights(t *testing.T) {
	config, err := clientcmd.BuildConfigFromFlags("", plane.ManagerKubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	manager := newClient(t, config)
	if _, err := manager.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{}); err != nil {
		t.Errorf("the manager may not list nodes: %v", err)
	}
	err = manager.CoreV1().Nodes().Delete(t.Context(), NodeName(0), metav1.DeleteOptions{})
	if !apierrors.IsForbidden(err) {
		t.Errorf("the manager deletes a node with its own identity: %v", err)
	}
}

func TestAnyIdentity(t *testing.T) {
	path, err := plane.Kubeconfig("jane", "jane", "developers")
	if err != nil {
		t.Fatal(err)
	}
	config, err := clientcmd.BuildConfigFromFlags("", path)
	if err != nil {
		t.Fatal(err)
	}
	who := whoAmI(t, config)
	if who.Username != "jane" || !strings.Contains(strings.Join(who.Groups, " "), "developers") {
		t.Errorf("got %+v", who)
	}
}

func TestServiceAccountTokens(t *testing.T) {
	admin := plane.AdminClient()
	namespace := plane.Namespace(t)
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "robot"}}
	if _, err := admin.CoreV1().ServiceAccounts(namespace).Create(t.Context(), account, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	token, err := admin.CoreV1().ServiceAccounts(namespace).CreateToken(t.Context(), "robot", &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	config := rest.AnonymousClientConfig(plane.AdminConfig())
	config.BearerToken = token.Status.Token
	if who := whoAmI(t, config); who.Username != "system:serviceaccount:"+namespace+":robot" {
		t.Errorf("got %+v", who)
	}
}

func TestAggregationIsConfigured(t *testing.T) {
	published, err := plane.AdminClient().CoreV1().ConfigMaps(metav1.NamespaceSystem).Get(t.Context(), "extension-apiserver-authentication", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	authority, err := os.ReadFile(plane.RequestHeaderCAFile())
	if err != nil {
		t.Fatal(err)
	}
	if published.Data["requestheader-client-ca-file"] != string(authority) {
		t.Error("the front proxy's authority is not published to aggregated API servers")
	}
}

func isReady(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

func TestPodIsScheduledAndRun(t *testing.T) {
	pods := plane.AdminClient().CoreV1().Pods(plane.Namespace(t))
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "web"}}},
	}
	begin := time.Now()
	if _, err := pods.Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	await.That(t, "the pod is Ready on a node", func(ctx context.Context) error {
		got, err := pods.Get(ctx, "web", metav1.GetOptions{})
		if err != nil {
			return err
		}
		if !isReady(got) || !strings.HasPrefix(got.Spec.NodeName, "node-") {
			return errors.New(got.Status.String())
		}
		return nil
	})
	t.Logf("ready after %s", time.Since(begin).Round(time.Millisecond))
	if err := pods.Delete(t.Context(), "web", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	await.That(t, "the pod is gone", func(ctx context.Context) error {
		_, err := pods.Get(ctx, "web", metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return errors.Join(errors.New("it is there"), err)
	})
}

// Kwok deletes pods by name, and may come when another pod has the name of one that the API server deleted at
// once. The first pods are Ready: kwok writes nothing more to them. The API server deletes by name as well when
// it has carried out a write to a pod that was deleted at once meanwhile.
func TestAPodThatReplacesOneThatIsDeletedAtOnceStays(t *testing.T) {
	const count = 30
	pods := plane.AdminClient().CoreV1().Pods(plane.Namespace(t))
	create := func(name string) types.UID {
		t.Helper()
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec:       corev1.PodSpec{NodeName: NodeName(0), Containers: []corev1.Container{{Name: "web", Image: "web"}}},
		}
		return must.Get(pods.Create(t.Context(), pod, metav1.CreateOptions{}))(t).UID
	}
	for i := range count {
		create(fmt.Sprint("web-", i))
	}
	await.That(t, "the pods are Ready", func(ctx context.Context) error {
		list, err := pods.List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		for i := range list.Items {
			if !isReady(&list.Items[i]) {
				return errors.New(list.Items[i].Name + " is not")
			}
		}
		return nil
	})
	replaced := map[string]types.UID{}
	for i := range count {
		name := fmt.Sprint("web-", i)
		must.Succeed(t, pods.Delete(t.Context(), name, metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0)}))
		replaced[name] = create(name)
	}
	create("later")
	must.Succeed(t, pods.Delete(t.Context(), "later", metav1.DeleteOptions{}))
	await.That(t, "kwok has ended a pod that was deleted later", func(ctx context.Context) error {
		_, err := pods.Get(ctx, "later", metav1.GetOptions{})
		return await.Gone(err)
	})
	for name, uid := range replaced {
		if pod := must.Get(pods.Get(t.Context(), name, metav1.GetOptions{}))(t); pod.UID != uid || pod.DeletionTimestamp != nil {
			t.Errorf("pod %s is %s, deleted at %v, want %s", name, pod.UID, pod.DeletionTimestamp, uid)
		}
	}
}

// The API server marks a pod that is deleted without a grace period, and removes it then. If its
// request ends in between, as when the API server is stopped, the pod stays marked: the kubelet
// removes it, and so has kwok to. The pod is Ready: the next write to it would have the API server
// remove it.
func TestAPodWhoseDeletionAtOnceWasCutOffIsEnded(t *testing.T) {
	pods := plane.AdminClient().CoreV1().Pods(plane.Namespace(t))
	pod := must.Get(pods.Create(t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Finalizers: []string{"example.com/stays"}},
		Spec:       corev1.PodSpec{NodeName: NodeName(0), Containers: []corev1.Container{{Name: "web", Image: "web"}}},
	}, metav1.CreateOptions{}))(t)
	await.That(t, "the pod is Ready", func(ctx context.Context) error {
		pod, err := pods.Get(ctx, pod.Name, metav1.GetOptions{})
		if err == nil && !isReady(pod) {
			err = errors.New("it is not")
		}
		return err
	})
	must.Succeed(t, pods.Delete(t.Context(), pod.Name, metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0)}))
	rewriteInEtcd(t, "/registry/pods/"+pod.Namespace+"/"+pod.Name, func(stored *corev1.Pod) {
		if stored.DeletionTimestamp == nil || *stored.DeletionGracePeriodSeconds != 0 {
			t.Fatalf("deleted at %v with %v", stored.DeletionTimestamp, stored.DeletionGracePeriodSeconds)
		}
		stored.Finalizers = nil
	})
	await.That(t, "the pod is gone", func(ctx context.Context) error {
		_, err := pods.Get(ctx, pod.Name, metav1.GetOptions{})
		return await.Gone(err)
	})
}

// rewriteInEtcd changes an object behind the API server's back.
func rewriteInEtcd(t *testing.T, key string, change func(*corev1.Pod)) {
	t.Helper()
	ask := func(path string, question, answer any) {
		t.Helper()
		body := must.Get(plane.askEtcd(t.Context(), http.MethodPost, path, must.Get(json.Marshal(question))(t)))(t)
		must.Succeed(t, json.Unmarshal(body, answer))
	}
	// As in etcd's JSON gateway: []byte is base64.
	type pair struct {
		Key   []byte `json:"key"`
		Value []byte `json:"value,omitempty"`
	}
	var found struct {
		Kvs []pair `json:"kvs"`
	}
	ask("/v3/kv/range", pair{Key: []byte(key)}, &found)
	if len(found.Kvs) != 1 {
		t.Fatalf("found %d of %s", len(found.Kvs), key)
	}
	serializer := protobuf.NewSerializer(scheme.Scheme, scheme.Scheme)
	object, _, err := serializer.Decode(found.Kvs[0].Value, nil, nil)
	must.Succeed(t, err)
	change(object.(*corev1.Pod))
	var value bytes.Buffer
	must.Succeed(t, serializer.Encode(object, &value))
	ask("/v3/kv/put", pair{Key: []byte(key), Value: value.Bytes()}, &struct{}{})
}

func TestNodesAreUsable(t *testing.T) {
	nodes, err := plane.AdminClient().CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if len(nodes.Items) != testNodes {
		t.Fatalf("got %d nodes, want %d", len(nodes.Items), testNodes)
	}
	addresses := map[string]bool{}
	for _, node := range nodes.Items {
		if len(node.Spec.Taints) > 0 {
			t.Errorf("%s has taints %v", node.Name, node.Spec.Taints)
		}
		if pods := node.Status.Allocatable.Pods().Value(); pods < 1000 {
			t.Errorf("%s has room for %d pods", node.Name, pods)
		}
		addresses[node.Status.Addresses[0].Address] = true
		await.That(t, "kwok renews the lease of "+node.Name, func(ctx context.Context) error {
			_, err := plane.AdminClient().CoordinationV1().Leases("kube-node-lease").Get(ctx, node.Name, metav1.GetOptions{})
			return err
		})
	}
	if len(addresses) != testNodes {
		t.Errorf("nodes share addresses: %v", addresses)
	}
}

func TestPauseAndResume(t *testing.T) {
	if err := plane.PauseAPIServer(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	_, err := plane.AdminClient().CoreV1().Namespaces().List(ctx, metav1.ListOptions{})
	if resumeErr := plane.ResumeAPIServer(); resumeErr != nil {
		t.Fatal(resumeErr)
	}
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a paused API server answered: %v", err)
	}
	if _, err := plane.AdminClient().CoreV1().Namespaces().List(t.Context(), metav1.ListOptions{}); err != nil {
		t.Errorf("after resume: %v", err)
	}
}

func TestRestart(t *testing.T) {
	namespace, url := plane.Namespace(t), plane.URL()
	mark, err := plane.Audit().Mark()
	if err != nil {
		t.Fatal(err)
	}
	if err := plane.StopAPIServer(); err != nil {
		t.Fatal(err)
	}
	if _, err := net.Dial("tcp", strings.TrimPrefix(url, "https://")); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("the port of a stopped API server: %v", err)
	}
	begin := time.Now()
	if err := plane.RestartAPIServer(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Logf("restarted after %s", time.Since(begin).Round(time.Millisecond))
	if plane.URL() != url {
		t.Errorf("the address changed from %s to %s", url, plane.URL())
	}
	if _, err := plane.AdminClient().CoreV1().Namespaces().Get(t.Context(), namespace, metav1.GetOptions{}); err != nil {
		t.Errorf("data is lost: %v", err)
	}
	manager := newClient(t, must.Get(plane.Config(ManagerUser))(t))
	must.Get(manager.CoreV1().Namespaces().List(t.Context(), metav1.ListOptions{}))(t)
	if events, err := plane.Audit().Since(mark, ByVerb("list")); err != nil || len(events) != 1 {
		t.Errorf("the audit log does not go on: %v, %v", events, err)
	}
	if err := plane.Err(); err != nil {
		t.Errorf("a wanted stop counts as failure: %v", err)
	}
}

func TestRestoreOfEtcdUndoesWritesAndVersions(t *testing.T) {
	maps := plane.AdminClient().CoreV1().ConfigMaps(plane.Namespace(t))
	create := func(name string) *corev1.ConfigMap {
		t.Helper()
		m, err := maps.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	create("kept")
	snapshot, err := plane.SnapshotEtcd(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var lost *corev1.ConfigMap
	for n := range 200 {
		lost = create(fmt.Sprint("lost-", n))
	}
	if err := plane.RestoreEtcd(t.Context(), snapshot); err != nil {
		t.Fatal(err)
	}
	if _, err := maps.Get(t.Context(), "kept", metav1.GetOptions{}); err != nil {
		t.Error(err)
	}
	if _, err := maps.Get(t.Context(), lost.Name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("what was created after the snapshot: %v", err)
	}
	order, err := resourceversion.CompareResourceVersion(create("new").ResourceVersion, lost.ResourceVersion)
	if err != nil || order >= 0 {
		t.Errorf("versions have not gone back: %d, %v", order, err)
	}
	if err := plane.Err(); err != nil {
		t.Error(err)
	}
}

func TestTakenPortIsReplacedAndDeathNoticed(t *testing.T) {
	t.Setenv(keepVariable, "")
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = taken.Close() }()
	calls := 0
	var log strings.Builder
	second, err := Start(t.Context(), Options{NoAudit: true, Log: &log, freePort: func() (int, error) {
		calls++
		if calls == 3 { // the API server's
			return taken.Addr().(*net.TCPAddr).Port, nil
		}
		return freePort()
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Log(log.String())
	if calls != 6 {
		t.Errorf("asked for %d ports, want two attempts of three", calls)
	}
	if _, err := second.Audit().Mark(); err == nil {
		t.Error("a mark in an audit log that is off")
	}
	process, err := second.apiServer()
	if err != nil {
		t.Fatal(err)
	}
	if err := process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	<-second.Failed()
	if err := second.Err(); err == nil || !strings.Contains(err.Error(), "kube-apiserver ended unexpectedly: signal: killed") {
		t.Errorf("got %v", err)
	}
	begin := time.Now()
	if err := second.Stop(); err != nil {
		t.Errorf("stop: %v", err)
	}
	t.Logf("stopped after %s", time.Since(begin).Round(time.Millisecond))
	if err := second.Stop(); err != nil {
		t.Errorf("second stop: %v", err)
	}
	if _, err := os.Stat(second.Dir()); !os.IsNotExist(err) {
		t.Errorf("the folder is left: %v", err)
	}
}

func TestFailedStartShowsTheReasonAndLeavesNothing(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	_, err := Start(t.Context(), Options{APIServerArgs: []string{"--no-such-flag"}})
	if err == nil || !strings.Contains(err.Error(), "unknown flag: --no-such-flag") {
		t.Errorf("got %v, want the API server's message", err)
	}
	left, err := filepath.Glob(filepath.Join(os.TempDir(), folderPattern))
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v %v", left, err)
	}
}

func TestCancelledStartLeavesNothing(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	ctx, cancel := context.WithTimeout(t.Context(), 700*time.Millisecond)
	defer cancel()
	if _, err := Start(ctx, Options{}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v, want the deadline", err)
	}
	left, err := filepath.Glob(filepath.Join(os.TempDir(), folderPattern))
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v %v", left, err)
	}
}

func newClient(t *testing.T, config *rest.Config) kubernetes.Interface {
	t.Helper()
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

func whoAmI(t *testing.T, config *rest.Config) authenticationv1.UserInfo {
	t.Helper()
	review, err := newClient(t, config).AuthenticationV1().SelfSubjectReviews().Create(t.Context(), &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return review.Status.UserInfo
}
