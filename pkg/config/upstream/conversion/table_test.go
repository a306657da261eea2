package conversion

import (
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kube-controller-manager/config/v1alpha1"

	"kcmd.dev/pkg/config/v1beta1"
)

// The file lists the flags of kube-controller-manager 1.36.3, from its --help and its two
// hidden ones (docs/specs/config-fields.md).
func TestEveryFlagOfUpstreamIsInTheTable(t *testing.T) {
	data, err := os.ReadFile("testdata/flags.txt")
	if err != nil {
		t.Fatal(err)
	}
	want := strings.Fields(string(data))
	var got []string
	for _, row := range Table() {
		if row.Flag != "" {
			got = append(got, row.Flag)
		}
	}
	slices.Sort(want)
	slices.Sort(got)
	if len(want) != 150 || !slices.Equal(got, want) {
		t.Errorf("the table has the flags %q\nupstream has %d: %q", got, len(want), want)
	}
}

func TestEveryRowSaysWhatBecomesOfIt(t *testing.T) {
	for _, row := range Table() {
		if (row.Field == "") == (row.Why == "") {
			t.Errorf("%+v must have either a field or a reason for none", row)
		}
		if row.Flag == "" && row.Upstream == "" {
			t.Errorf("%+v is about nothing", row)
		}
	}
}

// leaves lists the paths of a configuration type; a list, a map and a duration are leaves.
func leaves(goType reflect.Type, prefix string) []string {
	if goType.Kind() == reflect.Pointer {
		goType = goType.Elem()
	}
	if goType.Kind() != reflect.Struct || goType == durationType || strings.HasSuffix(goType.String(), "QuantityValue") || strings.HasSuffix(goType.String(), "TimeOrMetaDuration") {
		return []string{prefix}
	}
	var out []string
	for i := range goType.NumField() {
		name, inline := JSONName(goType.Field(i))
		switch {
		case goType.Field(i).Type == reflect.TypeFor[metav1.TypeMeta]():
		case inline:
			out = append(out, leaves(goType.Field(i).Type, prefix)...)
		case prefix == "":
			out = append(out, leaves(goType.Field(i).Type, name)...)
		default:
			out = append(out, leaves(goType.Field(i).Type, prefix+"."+name)...)
		}
	}
	return out
}

func TestEveryUpstreamFieldIsInTheTable(t *testing.T) {
	want := leaves(reflect.TypeFor[v1alpha1.KubeControllerManagerConfiguration](), "")
	for _, path := range want {
		_, whole := ByUpstream(path[:max(0, strings.LastIndexByte(path, '.'))])
		if _, ok := ByUpstream(path); !ok && !whole {
			t.Errorf("%s is not in the table", path)
		}
	}
	for _, row := range Table() {
		if row.Upstream != "" && row.Upstream != migrationPath && !slices.Contains(want, row.Upstream) {
			t.Errorf("v1alpha1 has no field %s", row.Upstream)
		}
	}
}

// fieldsOfOurOwn are the v1beta1 fields that nothing of upstream sets, with the reason.
var fieldsOfOurOwn = map[string]string{
	"leaderElection.identity":                                       "upstream always makes one up",
	"leaderElection.standby":                                        "upstream always keeps its caches cold",
	"leaderElection.spread":                                         "upstream has one lease",
	"leaderElection.groups":                                         "upstream has one lease",
	"leaderMigration.component":                                     "upstream is always kube-controller-manager",
	"reload.settleTime":                                             "upstream reads no file",
	"reload.pollInterval":                                           "upstream reads no file",
	"controllers.cloud-node-controller.concurrentSyncs":             "a flag of cloud controller managers",
	"controllers.cloud-node-controller.concurrentStatusUpdates":     "a flag of cloud controller managers",
	"controllers.cloud-node-controller.nodeStatusUpdateFrequency":   "a flag of cloud controller managers",
	"controllers.cloud-node-lifecycle-controller.nodeMonitorPeriod": "a flag of cloud controller managers",
	"controllers.storage-version-migrator-controller.migrationRate": "upstream has the limits of its client only",
	"deletionBreaker.mode":                                          "upstream deletes without asking",
	"deletionBreaker.window":                                        "upstream deletes without asking",
	"deletionBreaker.share":                                         "upstream deletes without asking",
	"deletionBreaker.minimum":                                       "upstream deletes without asking",
	"deletionBreaker.exemptResources":                               "upstream deletes without asking",
	"deletionBreaker.allowUntil":                                    "upstream deletes without asking",
	"pausedNamespaces":                                              "upstream pauses nothing",
	"controllers.<name>.paused":                                     "upstream pauses nothing",
	"controllers.<name>.pausedNamespaces":                           "upstream pauses nothing",
	"controllers.<name>.resyncPeriod":                               "upstream has one period for all, except for namespaces",
}

func TestEveryFieldIsReachedByAFlagOrIsOurOwn(t *testing.T) {
	own := map[string]bool{}
	reached := map[string]bool{}
	for _, row := range Table() {
		for _, field := range row.Fields() {
			reached[field] = true
		}
	}
	all := leaves(reflect.TypeFor[v1beta1.KubeControllerManagerConfiguration](), "")
	for _, path := range all {
		general := path
		if parts := strings.SplitN(path, ".", 3); len(parts) == 3 && parts[0] == "controllers" {
			general = "controllers.<name>." + parts[2]
		}
		if reached[path] || reached[general] {
			continue
		}
		switch {
		case fieldsOfOurOwn[path] != "":
			own[path] = true
		case fieldsOfOurOwn[general] != "":
			own[general] = true
		default:
			t.Errorf("no setting of upstream leads to %s, and it is not listed as our own", path)
		}
	}
	for path := range fieldsOfOurOwn {
		if !own[path] {
			t.Errorf("%s is listed as our own, but is not a field or is reached", path)
		}
	}
	for field := range reached {
		name := strings.ReplaceAll(field, "<name>", "deployment-controller")
		if !slices.Contains(all, name) && !slices.ContainsFunc(all, func(path string) bool { return strings.HasPrefix(path, name+".") }) {
			t.Errorf("v1beta1 has no field %s", field)
		}
	}
}

func TestCamelCaseIsThatOfTheAPIConventions(t *testing.T) {
	for name, want := range map[string]string{
		"Generic": "generic", "CSRSigningController": "csrSigningController", "HPAController": "hpaController",
		"LegacySATokenCleaner": "legacySATokenCleaner", "NodeIPAMController": "nodeIPAMController", "SAController": "saController",
		"TTLAfterFinishedController": "ttlAfterFinishedController", "PVClaimBinderSyncPeriod": "pvClaimBinderSyncPeriod",
		"CIDRAllocatorType": "cidrAllocatorType", "GCIgnoredResources": "gcIgnoredResources", "qps": "qps",
		"NodeCIDRMaskSizeIPv4": "nodeCIDRMaskSizeIPv4", "KubeAPIServerClientSignerConfiguration": "kubeAPIServerClientSignerConfiguration",
	} {
		if got := CamelCase(name); got != want {
			t.Errorf("CamelCase(%s) is %s, want %s", name, got, want)
		}
	}
}
