package diff_test

import (
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"

	"kcmd.dev/pkg/config"
	"kcmd.dev/pkg/config/diff"
	"kcmd.dev/pkg/config/v1beta1"
)

func parsed(t *testing.T, text string) *v1beta1.KubeControllerManagerConfiguration {
	t.Helper()
	doc, err := config.Load("f.yaml", []byte("apiVersion: "+v1beta1.APIVersion+"\nkind: "+v1beta1.Kind+"\n"+text))
	if err != nil {
		t.Fatal(err)
	}
	return doc.Config
}

// A mixture has of each field what it should have, maps included, and changes nothing else.
func TestMixture(t *testing.T) {
	before := parsed(t, "featureGates: {PodDeletionCost: false}\nmetrics: {allowListMapping: {'a,b': c}}\n")
	after := parsed(t, `
featureGates: {HPAScaleToZero: true, LoggingAlphaOptions: true}
metrics: {allowListMapping: {"a,b": d, "e,f": g}}
logging: {verbosity: 3, flushFrequency: 1s, options: {text: {splitStream: true, infoBufferSize: 1Ki}}}
leaderElection: {groups: [{name: a, controllers: [job-controller]}]}
controllers: {deployment-controller: {concurrentSyncs: 6, enabled: false, resyncPeriod: 1h}, persistentvolume-binder-controller: {recycler: {nfs: {podTemplateFile: x}}}}
`)
	changes := diff.Between(before, after)
	if len(changes) < 12 {
		t.Fatalf("changes = %v, want at least 12", changes)
	}
	if difference := cmp.Diff(diff.ObjectOf(after), diff.ObjectOf(diff.Mix(before, after, changes...))); difference != "" {
		t.Errorf("a mixture with all changes is not the new configuration (-want +got):\n%s", difference)
	}
	wantBefore, wantAfter := before.DeepCopy(), after.DeepCopy()
	for _, change := range changes {
		got := diff.Between(before, diff.Mix(before, after, change))
		if len(got) != 1 || got[0].Path != change.Path || !reflect.DeepEqual(got[0].New, change.New) {
			t.Errorf("a mixture with %v differs from the old configuration by %v", change, got)
		}
	}
	if difference := cmp.Diff(diff.ObjectOf(wantBefore), diff.ObjectOf(before)) + cmp.Diff(diff.ObjectOf(wantAfter), diff.ObjectOf(after)); difference != "" {
		t.Errorf("mixing changed the inputs:\n%s", difference)
	}
}
