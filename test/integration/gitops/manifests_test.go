package gitops

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	yamlserializer "k8s.io/apimachinery/pkg/util/yaml"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"kcmd.dev/pkg/config"
	daemon "kcmd.dev/pkg/runtime"
	"kcmd.dev/test/manager"
	"kcmd.dev/test/must"
)

const name = "kube-controller-manager"

// objects decodes a stream of YAML documents of built-in kinds, strictly.
func objects(t testing.TB, data []byte) []runtime.Object {
	t.Helper()
	strict := yamlserializer.NewYAMLOrJSONDecoder(bytes.NewReader(data), 4096)
	var all []runtime.Object
	for {
		var raw runtime.RawExtension
		if err := strict.Decode(&raw); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		object, _, err := scheme.Codecs.UniversalDeserializer().Decode(raw.Raw, nil, nil)
		must.Succeed(t, err)
		all = append(all, object)
	}
}

// one returns the only object of a type.
func one[T runtime.Object](t testing.TB, all []runtime.Object) T {
	t.Helper()
	var found []T
	for _, o := range all {
		if typed, ok := o.(T); ok {
			found = append(found, typed)
		}
	}
	if len(found) != 1 {
		t.Fatalf("%d objects of type %T", len(found), *new(T))
	}
	return found[0]
}

// TestTheDeploymentRunsUnderItsOwnRights applies the kustomization, and runs the manager
// with the file that is in its ConfigMap and the identity of its service account. The
// Deployment comes up, through the manager that is in it, and nothing is refused.
func TestTheDeploymentRunsUnderItsOwnRights(t *testing.T) {
	ctx := t.Context()
	rendered := kubectl(ctx, t, nil, "kustomize", configs(t, "deployment", "base"))
	kubectl(ctx, t, rendered, "apply", "--server-side", "-f", "-")
	t.Cleanup(func() { kubectl(context.Background(), t, rendered, "delete", "--wait=false", "-f", "-") })
	all := objects(t, rendered)
	data := one[*corev1.ConfigMap](t, all).Data["config.yaml"]

	mark, err := plane.Audit().Mark()
	must.Succeed(t, err)
	m := runAsServiceAccount(t, data)
	must.Succeed(t, m.WaitRunning(ctx))
	kubectl(ctx, t, nil, "-n", "kube-system", "rollout", "status", "deployment/"+name, "--timeout="+patience.String())
	must.Succeed(t, m.Wait(ctx, "the budget counts the replicas", func(*daemon.Status) error {
		budget, err := plane.AdminClient().PolicyV1().PodDisruptionBudgets("kube-system").Get(ctx, name, metav1.GetOptions{})
		if err == nil && (budget.Status.CurrentHealthy != 2 || budget.Status.DisruptionsAllowed != 1) {
			err = fmt.Errorf("%d are healthy, %d may be disrupted", budget.Status.CurrentHealthy, budget.Status.DisruptionsAllowed)
		}
		return err
	}))

	refused, err := plane.Audit().Since(mark, func(e *auditv1.Event) bool {
		return e.ResponseStatus != nil && e.ResponseStatus.Code == http.StatusForbidden
	})
	must.Succeed(t, err)
	for _, e := range refused {
		t.Errorf("refused: %s %s to %s", e.Verb, e.RequestURI, e.User.Username)
	}
}

// runAsServiceAccount runs the manager with a configuration for in-cluster credentials,
// which are brought here in a kubeconfig.
func runAsServiceAccount(t *testing.T, data string) *manager.Process {
	t.Helper()
	document, err := config.Load("config.yaml", []byte(data))
	must.Succeed(t, err)
	kubeconfig := serviceAccountKubeconfig(t)
	return manager.JoinProcess(t, plane, func(c *manager.Config) {
		port := c.Serving.Port
		key := c.ServiceAccounts.PrivateKeyFile
		*c = *document.Config.DeepCopy()
		c.ClientConnection.Kubeconfig = kubeconfig
		c.Serving.Authentication.Kubeconfig = kubeconfig
		c.Serving.Authorization.Kubeconfig = kubeconfig
		c.Serving.BindAddress, c.Serving.Port = "127.0.0.1", port
		c.ServiceAccounts.PrivateKeyFile = key
		c.ServiceAccounts.RootCAFile = plane.RootCAFile()
	})
}

// serviceAccountKubeconfig writes a kubeconfig with a token of the Deployment's account.
func serviceAccountKubeconfig(t *testing.T) string {
	t.Helper()
	token, err := plane.AdminClient().CoreV1().ServiceAccounts("kube-system").
		CreateToken(t.Context(), name, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	must.Succeed(t, err)
	c := clientcmdapi.NewConfig()
	c.Clusters[name] = &clientcmdapi.Cluster{Server: plane.URL(), CertificateAuthority: plane.RootCAFile()}
	c.AuthInfos[name] = &clientcmdapi.AuthInfo{Token: token.Status.Token}
	c.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name}
	c.CurrentContext = name
	path := filepath.Join(t.TempDir(), "kubeconfig")
	must.Succeed(t, clientcmd.WriteToFile(*c, path))
	return path
}

// TestEditsKeepTheNameOfTheConfigMap proves what the reload in place rests on: an edit of
// the file changes the ConfigMap and nothing that would start a new pod.
func TestEditsKeepTheNameOfTheConfigMap(t *testing.T) {
	before := objects(t, kubectl(t.Context(), t, nil, "kustomize", configs(t, "deployment", "base")))
	folder := filepath.Join(t.TempDir(), "base")
	must.Succeed(t, os.CopyFS(folder, os.DirFS(configs(t, "deployment", "base"))))
	file := filepath.Join(folder, "config.yaml")
	data, err := os.ReadFile(file)
	must.Succeed(t, err)
	must.Succeed(t, os.WriteFile(file, bytes.Replace(data, []byte("verbosity: 2"), []byte("verbosity: 4"), 1), 0o600))
	after := objects(t, kubectl(t.Context(), t, nil, "kustomize", folder))

	was, is := one[*corev1.ConfigMap](t, before), one[*corev1.ConfigMap](t, after)
	if was.Name != is.Name || was.Data["config.yaml"] == is.Data["config.yaml"] {
		t.Errorf("the ConfigMap %s became %s, with other content: %v", was.Name, is.Name, was.Data["config.yaml"] != is.Data["config.yaml"])
	}
	if a, b := one[*appsv1.Deployment](t, before), one[*appsv1.Deployment](t, after); a.Spec.Template.String() != b.Spec.Template.String() {
		t.Error("the edit changed the pod template")
	}
}

// TestTheHostedKustomization checks what the overlay says of itself.
func TestTheHostedKustomization(t *testing.T) {
	rendered := kubectl(t.Context(), t, nil, "kustomize", configs(t, "deployment", "hosted"))
	namespace := kubectl(t.Context(), t, nil, "create", "namespace", "hosted-cluster-1", "--dry-run=client", "-o", "yaml")
	kubectl(t.Context(), t, namespace, "apply", "-f", "-")
	kubectl(t.Context(), t, rendered, "apply", "--server-side", "-f", "-")
	t.Cleanup(func() { kubectl(context.Background(), t, rendered, "delete", "--wait=false", "-f", "-") })

	all := objects(t, rendered)
	if len(all) != 3 {
		t.Errorf("%d objects, want a ConfigMap, a Deployment and a PodDisruptionBudget", len(all))
	}
	one[*policyv1.PodDisruptionBudget](t, all)
	document, err := config.Load("config.yaml", []byte(one[*corev1.ConfigMap](t, all).Data["config.yaml"]))
	must.Succeed(t, err)
	checkMounts(t, one[*appsv1.Deployment](t, all).Spec.Template.Spec, "/etc/kcmd/config.yaml", "/var/lib/kcmd", document)
}

func TestTheStaticPod(t *testing.T) {
	manifest, err := os.ReadFile(configs(t, "kubeadm", "kube-controller-manager.yaml"))
	must.Succeed(t, err)
	pod := one[*corev1.Pod](t, objects(t, manifest))
	account := kubectl(t.Context(), t, nil, "-n", "kube-system", "create", "serviceaccount", "default", "--dry-run=client", "-o", "yaml")
	kubectl(t.Context(), t, account, "apply", "-f", "-") // every pod has one, a static pod does not need it
	kubectl(t.Context(), t, manifest, "apply", "--dry-run=server", "-f", "-")
	file := configs(t, "kubeadm", "config.yaml")
	data, err := os.ReadFile(file)
	must.Succeed(t, err)
	document, err := config.Load(file, data)
	must.Succeed(t, err)
	checkMounts(t, pod.Spec, "/etc/kubernetes/controller-manager/config.yaml", "/var/lib/kube-controller-manager", document)
}

// checkMounts checks that the process is started with the file, that every file of its
// configuration is below a mount, that no mount is one that is never updated, that the last
// good configuration is kept where it may write and nowhere else, and that it is probed where
// it serves.
func checkMounts(t *testing.T, pod corev1.PodSpec, file, lastGood string, d *config.Document) {
	t.Helper()
	c := pod.Containers[0]
	if !slices.Equal(c.Command, []string{name, "--config=" + file, "--last-good=" + lastGood}) {
		t.Errorf("the command is %q", c.Command)
	}
	for _, path := range append(filesOf(t, d), file, lastGood) {
		if !slices.ContainsFunc(c.VolumeMounts, func(m corev1.VolumeMount) bool {
			return path == m.MountPath || strings.HasPrefix(path, m.MountPath+"/")
		}) {
			t.Errorf("%s is not mounted", path)
		}
	}
	for _, m := range c.VolumeMounts {
		if m.ReadOnly == (m.MountPath == lastGood) {
			t.Errorf("%s is mounted read-only: %t", m.MountPath, m.ReadOnly)
		}
		if m.SubPath != "" {
			t.Errorf("%s is mounted with a subPath, and so never updated", m.MountPath)
		}
		if !slices.ContainsFunc(pod.Volumes, func(v corev1.Volume) bool { return v.Name == m.Name }) {
			t.Errorf("there is no volume %s", m.Name)
		}
	}
	probe := c.LivenessProbe.HTTPGet
	if port := probe.Port.IntValue(); port != 0 && port != int(*d.Config.Serving.Port) || probe.Path != "/livez" {
		t.Errorf("it is probed at port %s, %s", probe.Port.String(), probe.Path)
	}
}

// filesOf lists the files that a configuration names.
func filesOf(t *testing.T, d *config.Document) []string {
	t.Helper()
	data, err := json.Marshal(d.Config)
	must.Succeed(t, err)
	var files []string
	for _, quoted := range regexp.MustCompile(`"/etc/[^"]+"`).FindAllString(string(data), -1) {
		files = append(files, strings.Trim(quoted, `"`))
	}
	if len(files) == 0 {
		t.Error("the configuration names no file")
	}
	return files
}

// TestEverySampleIsValid loads every configuration in configs/, wherever it is, and reads
// every other sample as YAML.
func TestEverySampleIsValid(t *testing.T) {
	configurations := 0
	root := configs(t)
	must.Succeed(t, filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if bytes.Contains(data, []byte("kind: KubeControllerManagerConfiguration")) {
			configurations++
			_, err = config.Load(path, data)
			return err
		}
		decoder := yamlserializer.NewYAMLOrJSONDecoder(bytes.NewReader(data), 4096)
		for {
			var any map[string]any
			if err := decoder.Decode(&any); errors.Is(err, io.EOF) {
				return nil
			} else if err != nil {
				return fmt.Errorf("%s: %w", path, err)
			}
		}
	}))
	if configurations < 6 {
		t.Errorf("only %d configurations were found in %s", configurations, root)
	}
}
