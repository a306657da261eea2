package bootstrap

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	bootstrapapi "k8s.io/cluster-bootstrap/token/api"
	"k8s.io/cluster-bootstrap/token/jws"

	"kcmd.dev/test/await"
	"kcmd.dev/test/controlplane"
	"kcmd.dev/test/must"
)

const (
	nodeName = "joined"
	nodeUser = "system:node:" + nodeName

	tokenID     = "abcdef"
	tokenSecret = "0123456789abcdef"
)

// A node joins with nothing but a token. Pins BOOT-16, CSRA-13b and CSRS-34.
func TestAKubeletJoins(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("a kubelet runs as root only")
	}
	prepareCluster(t)
	kubelet := join(t, discover(t))

	await.Within(t, time.Minute, "the node is ready", func(ctx context.Context) error {
		if err := kubelet.Err(); err != nil {
			return await.Final(err)
		}
		node, err := admin.CoreV1().Nodes().Get(ctx, nodeName, metav1.GetOptions{})
		if err == nil && !slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
			return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
		}) {
			err = fmt.Errorf("its conditions are %v", node.Status.Conditions)
		}
		return err
	})
	t.Run("its request was approved by rule", func(t *testing.T) {
		csr := request(t, certificatesv1.KubeAPIServerClientKubeletSignerName)
		want := certificatesv1.CertificateSigningRequestCondition{
			Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue,
			Reason: "AutoApproved", Message: "Auto approving kubelet client certificate after SubjectAccessReview.",
		}
		if len(csr.Status.Conditions) != 1 {
			t.Fatalf("the conditions are %+v", csr.Status.Conditions)
		}
		got := csr.Status.Conditions[0]
		got.LastUpdateTime, got.LastTransitionTime = metav1.Time{}, metav1.Time{}
		if got != want {
			t.Errorf("the condition is %+v, want %+v", got, want)
		}
	})
	t.Run("it acts by the certificate it was issued", func(t *testing.T) {
		leaf := parse(t, must.Get(os.ReadFile(kubelet.ClientCertificateFile()))(t))
		verify(t, leaf, x509.ExtKeyUsageClientAuth)
		if leaf.Subject.CommonName != nodeUser || !slices.Equal(leaf.Subject.Organization, []string{"system:nodes"}) {
			t.Errorf("the subject is %s", leaf.Subject)
		}
		events := must.Get(cluster.Audit().Since(0, controlplane.ByUser(nodeUser), controlplane.Writes(), controlplane.ByResource("nodes")))(t)
		if len(events) == 0 {
			t.Error("the node was not created by its own kubelet")
		}
	})
	t.Run("it serves by the certificate it was issued", func(t *testing.T) {
		csr := request(t, certificatesv1.KubeletServingSignerName)
		csr.Status.Conditions = append(csr.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{
			Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue, Reason: "Test",
		})
		must.Get(admin.CertificatesV1().CertificateSigningRequests().UpdateApproval(t.Context(), csr.Name, csr, metav1.UpdateOptions{}))(t)
		leaf := served(t, kubelet)
		verify(t, leaf, x509.ExtKeyUsageServerAuth)
		if err := leaf.VerifyHostname(nodeName); err != nil {
			t.Error(err)
		}
	})
	t.Run("without its token nobody can join", func(t *testing.T) {
		must.Succeed(t, admin.CoreV1().Secrets(metav1.NamespaceSystem).Delete(t.Context(), "bootstrap-token-"+tokenID, metav1.DeleteOptions{}))
		await.That(t, "the signature is gone", func(ctx context.Context) error {
			info, err := admin.CoreV1().ConfigMaps(metav1.NamespacePublic).Get(ctx, bootstrapapi.ConfigMapClusterInfo, metav1.GetOptions{})
			if err == nil && info.Data[bootstrapapi.JWSSignatureKeyPrefix+tokenID] != "" {
				err = errors.New("it is still there")
			}
			return err
		})
	})
}

// prepareCluster does what kubeadm init does for those who join: a token, what bearers of
// tokens may do, and the cluster-info for everybody to read.
func prepareCluster(t *testing.T) {
	t.Helper()
	ctx := t.Context()
	must.Get(admin.CoreV1().Secrets(metav1.NamespaceSystem).Create(ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "bootstrap-token-" + tokenID},
		Type:       bootstrapapi.SecretTypeBootstrapToken,
		StringData: map[string]string{
			bootstrapapi.BootstrapTokenIDKey:               tokenID,
			bootstrapapi.BootstrapTokenSecretKey:           tokenSecret,
			bootstrapapi.BootstrapTokenUsageAuthentication: "true",
			bootstrapapi.BootstrapTokenUsageSigningKey:     "true",
			bootstrapapi.BootstrapTokenExpirationKey:       time.Now().Add(time.Hour).Format(time.RFC3339),
		},
	}, metav1.CreateOptions{}))(t)
	for _, role := range []string{"system:node-bootstrapper", "system:certificates.k8s.io:certificatesigningrequests:nodeclient"} {
		must.Get(admin.RbacV1().ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{GenerateName: "bootstrap-"},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
			Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: bootstrapapi.BootstrapDefaultGroup}},
		}, metav1.CreateOptions{}))(t)
	}
	config := clientcmdapi.NewConfig()
	config.Clusters[""] = &clientcmdapi.Cluster{Server: cluster.URL(), CertificateAuthorityData: must.Get(os.ReadFile(cluster.RootCAFile()))(t)}
	info := map[string]string{bootstrapapi.KubeConfigKey: string(must.Get(clientcmd.Write(*config))(t))}
	public := metav1.ObjectMeta{Name: bootstrapapi.ConfigMapClusterInfo, Namespace: metav1.NamespacePublic}
	await.That(t, "the cluster-info can be created", func(ctx context.Context) error {
		_, err := admin.CoreV1().ConfigMaps(public.Namespace).Create(ctx, &corev1.ConfigMap{ObjectMeta: public, Data: info}, metav1.CreateOptions{})
		return err
	})
	must.Get(admin.RbacV1().Roles(public.Namespace).Create(ctx, &rbacv1.Role{
		ObjectMeta: public,
		Rules:      []rbacv1.PolicyRule{{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"configmaps"}, ResourceNames: []string{public.Name}}},
	}, metav1.CreateOptions{}))(t)
	must.Get(admin.RbacV1().RoleBindings(public.Namespace).Create(ctx, &rbacv1.RoleBinding{
		ObjectMeta: public,
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: public.Name},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "system:anonymous"}},
	}, metav1.CreateOptions{}))(t)
}

// discover reads the cluster-info without knowing whom it comes from, and trusts it because
// only somebody who knows the token can have signed it.
func discover(t *testing.T) *clientcmdapi.Config {
	t.Helper()
	stranger := must.Get(kubernetes.NewForConfig(&rest.Config{Host: cluster.URL(), TLSClientConfig: rest.TLSClientConfig{Insecure: true}}))(t)
	var content string
	await.That(t, "the cluster-info is signed with the token", func(ctx context.Context) error {
		info, err := stranger.CoreV1().ConfigMaps(metav1.NamespacePublic).Get(ctx, bootstrapapi.ConfigMapClusterInfo, metav1.GetOptions{})
		if err != nil {
			return err
		}
		content = info.Data[bootstrapapi.KubeConfigKey]
		if !jws.DetachedTokenIsValid(info.Data[bootstrapapi.JWSSignatureKeyPrefix+tokenID], content, tokenID, tokenSecret) {
			return fmt.Errorf("the signatures are in %v", info.Data)
		}
		return nil
	})
	return must.Get(clientcmd.Load([]byte(content)))(t)
}

// join starts a kubelet with what was discovered and the token.
func join(t *testing.T, discovered *clientcmdapi.Config) *controlplane.Kubelet {
	t.Helper()
	const bearer = "bearer"
	discovered.AuthInfos[bearer] = &clientcmdapi.AuthInfo{Token: tokenID + "." + tokenSecret}
	discovered.Contexts[bearer] = &clientcmdapi.Context{Cluster: "", AuthInfo: bearer}
	discovered.CurrentContext = bearer
	dir := t.TempDir()
	file := filepath.Join(t.TempDir(), "bootstrap.conf")
	must.Succeed(t, clientcmd.WriteToFile(*discovered, file))
	kubelet := must.Get(cluster.StartKubelet(t.Context(), dir, nodeName, file))(t)
	t.Cleanup(func() {
		kubelet.Stop()
		if t.Failed() {
			log, _ := os.ReadFile(filepath.Join(dir, "kubelet.log"))
			t.Logf("the end of the kubelet's log:\n%s", log[max(0, len(log)-4000):])
		}
	})
	return kubelet
}

// request waits for a request of the node to a signer.
func request(t *testing.T, signer string) *certificatesv1.CertificateSigningRequest {
	t.Helper()
	var found *certificatesv1.CertificateSigningRequest
	await.Within(t, time.Minute, "there is a request to "+signer, func(ctx context.Context) error {
		list, err := admin.CertificatesV1().CertificateSigningRequests().List(ctx, metav1.ListOptions{FieldSelector: "spec.signerName=" + signer})
		if err == nil && len(list.Items) == 0 {
			err = errors.New("there is none")
		}
		if err == nil {
			found = &list.Items[0]
		}
		return err
	})
	return found
}

// served is the certificate by which the kubelet serves, once it is issued.
func served(t *testing.T, kubelet *controlplane.Kubelet) *x509.Certificate {
	t.Helper()
	var leaf *x509.Certificate
	await.Within(t, time.Minute, "the kubelet serves by a certificate of the cluster", func(ctx context.Context) error {
		dialer := tls.Dialer{Config: &tls.Config{RootCAs: authorities(t), ServerName: nodeName}}
		connection, err := dialer.DialContext(ctx, "tcp", kubelet.Address)
		if err != nil {
			return err
		}
		leaf = connection.(*tls.Conn).ConnectionState().PeerCertificates[0]
		return connection.Close()
	})
	return leaf
}

func authorities(t *testing.T) *x509.CertPool {
	t.Helper()
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(must.Get(os.ReadFile(cluster.RootCAFile()))(t)) {
		t.Fatal("the CA of the cluster cannot be parsed")
	}
	return pool
}

func verify(t *testing.T, leaf *x509.Certificate, usage x509.ExtKeyUsage) {
	t.Helper()
	if _, err := leaf.Verify(x509.VerifyOptions{Roots: authorities(t), KeyUsages: []x509.ExtKeyUsage{usage}}); err != nil {
		t.Error(err)
	}
	if !slices.Equal(leaf.ExtKeyUsage, []x509.ExtKeyUsage{usage}) {
		t.Errorf("the usages are %v, want %v only", leaf.ExtKeyUsage, usage)
	}
}

// parse returns the first certificate of a file, which may hold a key as well.
func parse(t *testing.T, data []byte) *x509.Certificate {
	t.Helper()
	for block, rest := pem.Decode(data); block != nil; block, rest = pem.Decode(rest) {
		if block.Type == "CERTIFICATE" {
			return must.Get(x509.ParseCertificate(block.Bytes))(t)
		}
	}
	t.Fatal("the file holds no certificate")
	return nil
}
