package docs

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"

	"kcmd.dev/pkg/config"
	"kcmd.dev/test/controlplane/binaries"
	"kcmd.dev/test/must"
)

// The service account of the Deployment is bound to the roles that an API server has for the manager, and to no others.
// They are those of a process whose controllers use accounts of their own, so the configuration says so. Pins MGR-139.
func TestTheDeploymentHasTheRolesOfTheManager(t *testing.T) {
	base := filepath.Join(must.Get(binaries.Root())(t), "configs", "deployment", "base")
	read := func(name string) []byte { return must.Get(os.ReadFile(filepath.Join(base, name)))(t) }

	var deployment appsv1.Deployment
	must.Succeed(t, yaml.UnmarshalStrict(read("deployment.yaml"), &deployment))
	account := deployment.Spec.Template.Spec.ServiceAccountName

	var got []string
	for document := range strings.SplitSeq(string(read("rbac.yaml")), "\n---\n") {
		var binding rbacv1.RoleBinding // has the fields of a ClusterRoleBinding
		must.Succeed(t, yaml.UnmarshalStrict([]byte(document), &binding))
		for _, s := range binding.Subjects {
			got = append(got, fmt.Sprintf("%s in %q: %s %s for %s %s/%s", binding.Kind, binding.Namespace,
				binding.RoleRef.Kind, binding.RoleRef.Name, s.Kind, s.Namespace, s.Name))
		}
	}
	slices.Sort(got)
	subject := " for ServiceAccount kube-system/" + account
	want := []string{
		`ClusterRoleBinding in "": ClusterRole system:kube-controller-manager` + subject,
		`RoleBinding in "kube-system": Role extension-apiserver-authentication-reader` + subject,
		`RoleBinding in "kube-system": Role system::leader-locking-kube-controller-manager` + subject,
	}
	if account == "" || !slices.Equal(got, want) {
		t.Errorf("the bindings are\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}

	loaded := must.Get(config.Load("config.yaml", read("config.yaml")))(t)
	if !*loaded.Config.ClientConnection.UseServiceAccountCredentials {
		t.Error("the controllers share the credentials of the process, whose roles do not permit what they do")
	}
}
