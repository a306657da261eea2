package status

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"testing"

	upstream "k8s.io/kube-controller-manager/config/v1alpha1"
	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/config/v1beta1"
)

// A configuration is shown twice: as it is, and as an unmodified kube-controller-manager shows it, for programs that
// decode that. There, fields have the names that they have in Go. Pins MGR-106, MGR-148 and MGR-178.
func TestConfigz(t *testing.T) {
	c := v1beta1.NewDefault()
	c.Controllers.Job.ConcurrentSyncs = ptr.To[int32](17)
	encoded, err := json.Marshal(Configz(c))
	if err != nil {
		t.Fatal(err)
	}
	var shown map[string]json.RawMessage
	if err := json.Unmarshal(encoded, &shown); err != nil {
		t.Fatal(err)
	}
	if got := slices.Sorted(maps.Keys(shown)); !slices.Equal(got, []string{"config.kcmd.dev", "kubecontrollermanager.config.k8s.io"}) {
		t.Errorf("shown are %q", got)
	}
	ours := v1beta1.NewDefault()
	if err := json.Unmarshal(shown["config.kcmd.dev"], ours); err != nil || *ours.Controllers.Job.ConcurrentSyncs != 17 || ours.APIVersion != "config.kcmd.dev/v1beta1" {
		t.Errorf("ours is %s, %v", shown["config.kcmd.dev"], err)
	}
	var theirs upstream.KubeControllerManagerConfiguration
	strict := json.NewDecoder(bytes.NewReader(shown["kubecontrollermanager.config.k8s.io"]))
	strict.DisallowUnknownFields()
	if err := strict.Decode(&theirs); err != nil {
		t.Fatal(err)
	}
	if theirs.Kind != "KubeControllerManagerConfiguration" || theirs.APIVersion != "kubecontrollermanager.config.k8s.io/v1alpha1" || theirs.JobController.ConcurrentJobSyncs != 17 {
		t.Errorf("theirs is %+v", theirs)
	}
	var named struct {
		Generic map[string]json.RawMessage
		Job     struct{ ConcurrentJobSyncs int } `json:"JobController"`
	}
	if err := json.Unmarshal(shown["kubecontrollermanager.config.k8s.io"], &named); err != nil || named.Job.ConcurrentJobSyncs != 17 {
		t.Errorf("the fields of theirs: %v", err)
	}
	for _, field := range []string{"MinResyncPeriod", "ClientConnection", "Controllers", "LeaderElection"} {
		if named.Generic[field] == nil {
			t.Errorf("the fields of Generic lack %s", field)
		}
	}
}
