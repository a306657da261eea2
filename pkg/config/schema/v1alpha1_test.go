package schema

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"reflect"
	"strings"
	"sync"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"k8s.io/kube-controller-manager/config/v1alpha1"
	"sigs.k8s.io/yaml"

	"kcmd.dev/pkg/config"
	"kcmd.dev/pkg/config/upstream/conversion"
)

const v1alpha1Header = "apiVersion: kubecontrollermanager.config.k8s.io/v1alpha1\nkind: KubeControllerManagerConfiguration\n"

var compileUpstreamOnce = sync.OnceValues(func() (*jsonschema.Schema, error) { return compile(generatedUpstream()) })

func compiledUpstream(t *testing.T) *jsonschema.Schema {
	t.Helper()
	schema, err := compileUpstreamOnce()
	if err != nil {
		t.Fatal(err)
	}
	return schema
}

// upstreamSample returns a file of the tests of the conversion, without the key around
// what /configz answers.
func upstreamSample(t *testing.T, name string) []byte {
	t.Helper()
	data, err := os.ReadFile("../upstream/testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	file := map[string]any{}
	if err := yaml.Unmarshal(data, &file); err != nil {
		t.Fatal(err)
	}
	if inner, ok := file[conversion.Group]; ok {
		if data, err = yaml.Marshal(inner); err != nil {
			t.Fatal(err)
		}
	}
	return data
}

func TestFilesOfUpstreamAreValid(t *testing.T) {
	schema := compiledUpstream(t)
	defaults, err := yaml.Marshal(conversion.NewDefault())
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string][]byte{
		"what /configz answers": upstreamSample(t, "configz-kubeadm-1.36.json"),
		"a written file":        upstreamSample(t, "handwritten.yaml"),
		"upstream's defaults":   defaults,
	} {
		if err := validate(t, schema, data); err != nil {
			t.Errorf("%s: the schema says %v", name, err)
		}
		if _, err := config.Load(name, data); err != nil {
			t.Errorf("%s: Load says %v", name, err)
		}
	}
}

func TestSchemaOfUpstreamAgreesWithLoad(t *testing.T) {
	tests := []struct {
		text  string
		valid bool
	}{
		{v1alpha1Header, true},
		{v1alpha1Header + "JobController: {ConcurrentJobSyncs: 3}", true},
		{v1alpha1Header + "jobController: {concurrentJobSyncs: 3}", true},
		{v1alpha1Header + "jobController: {ConcurrentJobSyncs: 3}", true},
		{v1alpha1Header + "JobController: null\nCronJobController: {ConcurrentCronJobSyncs: null}", true},
		{v1alpha1Header + "hpaController: {horizontalPodAutoscalerTolerance: 0.2}", true},
		{v1alpha1Header + "deprecatedController: {}", true},
		{v1alpha1Header + "Generic: {ClientConnection: {qps: -1, contentType: null}}", true},
		{v1alpha1Header + "Generic: {MinResyncPeriod: -5s}", true},
		{v1alpha1Header + "Generic: {Controllers: ['*', -deployment, job-controller]}", true},
		{v1alpha1Header + "KubeCloudShared: {NodeSyncPeriod: -1s}", true},
		{v1alpha1Header + "podGCController: {terminatedPodGCThreshold: -1}", true},
		{v1alpha1Header + "garbageCollectorController: {gcIgnoredResources: [{resource: events}]}", true},
		{v1alpha1Header + "Generic: {ClientConnection: {contentType: ''}}", true},
		{v1alpha1Header + "KubeCloudShared: {ClusterName: ''}", true},
		{v1alpha1Header + "persistentVolumeBinderController: {volumeConfiguration: {flexVolumePluginDir: ''}}", true},

		{"apiVersion: kubecontrollermanager.config.k8s.io/v1alpha1", false},
		{"apiVersion: kubecontrollermanager.config.k8s.io/v1\nkind: KubeControllerManagerConfiguration", false},
		{"apiVersion: kubecontrollermanager.config.k8s.io/v1alpha1\nkind: Pod", false},
		{"apiVersion: kubecontrollermanager.config.k8s.io/v1alpha1\nkind: null", false},
		{v1alpha1Header + "Foo: 1", false},
		{v1alpha1Header + "jobcontroller: {}", false},
		{v1alpha1Header + "JobController: {ConcurentJobSyncs: 3}", false},
		{v1alpha1Header + "generic: {leaderElection: {LeaseDuration: 15s}}", false},
		{v1alpha1Header + "JobController: []", false},
		{v1alpha1Header + "JobController: {ConcurrentJobSyncs: many}", false},
		{v1alpha1Header + "JobController: {ConcurrentJobSyncs: 2.5}", false},
		{v1alpha1Header + "jobController: {concurrentJobSyncs: 0}", false},
		{v1alpha1Header + "Generic: {MinResyncPeriod: 3600}", false},
		{v1alpha1Header + "HPAController: {HorizontalPodAutoscalerSyncPeriod: -5s}", false},
		{v1alpha1Header + "Generic: {Controllers: [deploy]}", false},
		{v1alpha1Header + "Generic: {Controllers: [cloud-node-controller]}", false},
		{v1alpha1Header + "Generic: {Controllers: [null]}", false},
		{v1alpha1Header + "Generic: {ClientConnection: {contentType: text/plain}}", false},
		{v1alpha1Header + "Generic: {LeaderElection: {resourceName: Main}}", false},
		{v1alpha1Header + "Generic: {LeaderElection: {resourceName: ''}}", false},
		{v1alpha1Header + "Generic: {LeaderElection: {resourceNamespace: ''}}", false},
		{v1alpha1Header + "Generic: {LeaderElection: {leaderElect: 'true'}}", false},
		{v1alpha1Header + "GarbageCollectorController: {GCIgnoredResources: [{Name: events}]}", false},
	}
	schema := compiledUpstream(t)
	for _, test := range tests {
		if err := validate(t, schema, []byte(test.text)); (err == nil) != test.valid {
			t.Errorf("%q: the schema says %v, want valid %t", test.text, err, test.valid)
		}
		if _, err := config.Load("f.yaml", []byte(test.text)); (err == nil) != test.valid {
			t.Errorf("%q: Load says %v, want valid %t", test.text, err, test.valid)
		}
	}
}

// Both spellings of every field mean the field that the decoder takes them for.
func TestSchemaOfUpstreamHasTheSpellingsOfTheDecoder(t *testing.T) {
	fields := 0
	walkUpstream(t, func(path string, owner reflect.Type, properties map[string]any) {
		for name, value := range properties {
			canonical, _, ok := conversion.FieldNamed(owner, name)
			means := name
			if ref, isRef := value.(map[string]any)["$ref"].(string); isRef {
				means = ref[strings.LastIndex(ref, "/")+1:]
			}
			if !ok || means != canonical {
				t.Errorf("%s.%s is %s in the schema, and %q to the decoder", path, name, means, canonical)
			}
			if _, both := properties[conversion.CamelCase(canonical)]; !both || properties[canonical] == nil {
				t.Errorf("%s.%s is there in one spelling only", path, canonical)
			}
			fields++
		}
	})
	if fields < 200 {
		t.Errorf("found %d fields, want at least 200: the test looks in the wrong place", fields)
	}
}

// Every field is described, and Load refuses what is outside the limits that the schema
// has for numbers and durations.
func TestLimitsOfUpstreamAreThoseOfLoad(t *testing.T) {
	limited := 0
	walkUpstream(t, func(path string, _ reflect.Type, properties map[string]any) {
		for name, value := range properties {
			property := value.(map[string]any)
			at := strings.TrimPrefix(path+"."+name, ".")
			if property["$ref"] == nil && property["description"] == "" {
				t.Errorf("%s has no description", at)
			}
			if property["pattern"] == durationPattern {
				if _, err := config.Load("f.yaml", fileSetting(t, at, "-1s")); err == nil {
					t.Errorf("Load accepts a negative %s, the schema does not", at)
				}
			}
			lowest, ok := property["minimum"].(float64)
			if !ok {
				continue
			}
			highest := property["maximum"].(float64)
			if lowest > math.MinInt32 {
				limited++
			}
			for _, outside := range []float64{lowest - 1, highest + 1} {
				if _, err := config.Load("f.yaml", fileSetting(t, at, outside)); err == nil {
					t.Errorf("Load accepts %s: %g, the schema has %g to %g", at, outside, lowest, highest)
				}
			}
		}
	})
	if limited < 30 {
		t.Errorf("found %d fields with limits, want at least 30", limited)
	}
}

func TestEntriesForControllersLoad(t *testing.T) {
	for _, entry := range controllerEntries() {
		entries := []any{entry}
		if entry != "*" { // with the others, since one controller may need another
			entries = append(entries, "*")
		}
		if _, err := config.Load("f.yaml", fileSetting(t, "Generic.Controllers", entries)); err != nil {
			t.Errorf("Load says of the entry %s: %v", entry, err)
		}
	}
}

// fileSetting is a file that sets one field.
func fileSetting(t *testing.T, path string, value any) []byte {
	t.Helper()
	words := strings.Split(path, ".")
	for i := len(words) - 1; i >= 0; i-- {
		value = map[string]any{words[i]: value}
	}
	data, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Appendf(nil, `{"apiVersion": %q, "kind": %q, %s`, conversion.APIVersion, conversion.Kind, data[1:])
}

// walkUpstream visits every object in the schema, with the struct it describes.
func walkUpstream(t *testing.T, visit func(path string, owner reflect.Type, properties map[string]any)) {
	t.Helper()
	data, err := generatedUpstream()
	if err != nil {
		t.Fatal(err)
	}
	root := map[string]any{}
	if err := json.Unmarshal(data, &root); err != nil {
		t.Fatal(err)
	}
	var walk func(object map[string]any, path string, owner reflect.Type)
	walk = func(object map[string]any, path string, owner reflect.Type) {
		properties, ok := object["properties"].(map[string]any)
		if !ok {
			return
		}
		visit(path, owner, properties)
		for name, value := range properties {
			property := value.(map[string]any)
			_, inner, _ := conversion.FieldNamed(owner, name)
			if items, ok := property["items"].(map[string]any); ok {
				property, inner = items, inner.Elem()
			}
			walk(property, strings.TrimPrefix(path+"."+name, "."), inner)
		}
	}
	walk(root, "", reflect.TypeFor[v1alpha1.KubeControllerManagerConfiguration]())
}
