package app

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/config"
	"kcmd.dev/pkg/config/fromflags"
	"kcmd.dev/pkg/config/plan"
	"kcmd.dev/pkg/config/v1beta1"
	"kcmd.dev/pkg/controller"
	"kcmd.dev/pkg/controllers"
	"kcmd.dev/pkg/runtime"
	"kcmd.dev/test/controllertest"
)

// Upstream's list and our file take the names of all controllers, also of those whose gate is off. No name is that of
// two. Pins MGR-65.
func TestEveryControllerCanBeNamed(t *testing.T) {
	list, file := []string{"*"}, "apiVersion: config.kcmd.dev/v1beta1\nkind: KubeControllerManagerConfiguration\ncontrollers:\n"
	names, gated := map[string]string{}, 0
	for _, d := range controllers.All() {
		if _, reason := d.Enabled(v1beta1.NewDefault()); strings.HasPrefix(reason, "needs the feature gate ") {
			gated++
		}
		file += "  " + d.Name + ": {enabled: true}\n"
		for _, name := range append([]string{d.Name}, d.Aliases...) {
			if other, taken := names[name]; taken {
				t.Errorf("%s and %s are both called %s", d.Name, other, name)
			}
			names[name] = d.Name
			if d.Name != "cloud-node-controller" { // which upstream does not have
				list = append(list, name, "-"+name)
			}
		}
	}
	if gated == 0 {
		t.Error("no gate is off that a controller needs")
	}
	if _, err := config.Load("f.yaml", []byte(file)); err != nil {
		t.Error(err)
	}
	if _, err := fromflags.Convert([]string{"--controllers=" + strings.Join(list, ",")}); err != nil {
		t.Error(err)
	}
}

// Controllers of the cloud are known, off by default, and have nothing to do without a provider. Pins MGR-69.
func TestControllersOfTheCloudAreSkipped(t *testing.T) {
	cfg := v1beta1.NewDefault()
	for _, name := range []string{"service-lb-controller", "node-route-controller", "cloud-node-lifecycle-controller"} {
		d := descriptorOf(t, name)
		if enabled, reason := d.Enabled(cfg); enabled || reason != "disabled in the configuration" {
			t.Errorf("%s: %s", name, reason)
		}
		env := controllertest.New(t)
		if made, err := d.New(env.Env, d.Value(cfg)); made != nil || err != nil {
			t.Errorf("%s makes %v, %v", name, made, err)
		}
	}
}

// The token controller acts as the process does, since it makes the tokens of all others. Pins MGR-54.
func TestOnlyTheTokenControllerActsAsTheProcess(t *testing.T) {
	var own []string
	for _, d := range controllers.All() {
		if d.ServiceAccount == "" {
			own = append(own, fmt.Sprint(d.Name, " as ", d.ClientName))
		}
	}
	if want := []string{"serviceaccount-token-controller as tokens-controller"}; !slices.Equal(own, want) {
		t.Errorf("with the credentials of the process act %q, want %q", own, want)
	}
}

func descriptorOf(t *testing.T, name string) controller.Descriptor {
	t.Helper()
	all := controllers.All()
	n := slices.IndexFunc(all, func(d controller.Descriptor) bool { return d.Name == name })
	if n < 0 {
		t.Fatalf("there is no %s", name)
	}
	return all[n]
}

// The program has one name, on the command line and in its lease. Pins MGR-1.
func TestTheNameOfTheProgram(t *testing.T) {
	const name = "kube-controller-manager"
	if got := newRoot().Name(); got != name {
		t.Errorf("the command is %s", got)
	}
	if got := v1beta1.NewDefault().LeaderElection.ResourceName; got != name {
		t.Errorf("the lease is %s", got)
	}
}

// The token controller is built first, and a controller that is not built says why. Pins MGR-70.
func TestWhatIsBuilt(t *testing.T) {
	if first := controllers.All()[0].Name; first != "serviceaccount-token-controller" {
		t.Errorf("%s is built first", first)
	}
	off := v1beta1.NewDefault()
	off.ControllerDefaults.Enabled = new(bool)
	for _, c := range []struct {
		cfg        *controller.Config
		name, want string
	}{
		{v1beta1.NewDefault(), "job-controller", ""},
		{off, "job-controller", "disabled in the configuration"},
		{v1beta1.NewDefault(), "podgroup-protection-controller", "needs the feature gate GenericWorkload"},
	} {
		if enabled, reason := descriptorOf(t, c.name).Enabled(c.cfg); enabled != (c.want == "") || reason != c.want {
			t.Errorf("%s is enabled: %t, %q, want %q", c.name, enabled, reason, c.want)
		}
	}
}

// The controller that the others get their tokens from is disabled like any other. Pins MGR-172.
func TestTheTokenControllerCanBeDisabled(t *testing.T) {
	subjects := runtime.Subjects(controllers.All())
	n := slices.IndexFunc(subjects, func(s plan.Subject) bool { return s.Name == "serviceaccount-token-controller" })
	if n < 0 {
		t.Fatal("there is no token controller")
	}
	for _, enabled := range []*bool{nil, ptr.To(true), ptr.To(false)} {
		cfg := v1beta1.NewDefault()
		cfg.ServiceAccounts.PrivateKeyFile = "sa.key"
		cfg.Controllers.ServiceAccountToken.Enabled = enabled
		if spec, want := plan.SpecOf(cfg, subjects[n]), ptr.Deref(enabled, true); spec.Runs() != want {
			t.Errorf("enabled %v: it runs %v, %q", want, spec.Runs(), spec.Off)
		}
	}
}
