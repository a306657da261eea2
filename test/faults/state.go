package faults

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// object is what of an object does not depend on chance or on the time of day.
type object struct {
	// key is its resource and name: pods/web-*, where the API server made up the rest.
	key string
	// content is JSON.
	content string
}

// state is what exists at a moment, in order.
type state []object

// alphabet is what the API server makes up names of.
const alphabet = "bcdfghjklmnpqrstvwxz2456789"

// longestPrefix is how much it keeps of generateName.
const longestPrefix = 58

var (
	timePattern    = regexp.MustCompile(`\d{4}-\d\d-\d\d(T\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d))?`)
	uidPattern     = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)
	hashed         = regexp.MustCompile(`^csi-[0-9a-f]{64}$`)
	endsHashed     = regexp.MustCompile(`-[` + alphabet + `]{1,10}$`)
	madeUp         = regexp.MustCompile(`^[` + alphabet + `]{5}$`)
	addressPattern = regexp.MustCompile(`\b(\d{1,3}\.){3}\d{1,3}\b`)
	// typePattern matches a type of an expression whose name was made up: of a kind, and of the nanosecond.
	typePattern = regexp.MustCompile(`\b([A-Z][A-Za-z]*)\d{4,9}\b`)
)

// keyOf is what an object is called in every run.
func keyOf(resource string, o *unstructured.Unstructured) string {
	return resource + "/" + publicName(o)
}

// publicName is the name of an object without what the API server has made up of it. That of a VolumeAttachment
// is the hash of what it attaches, and where. That of a provisioned volume has the UID of its claim. That of a Workload
// ends in the hash of the UID of its Job, that of a PodGroup begins with that of its Workload and ends in its hash.
func publicName(o *unstructured.Unstructured) string {
	if hashed.MatchString(o.GetName()) {
		return "csi-*"
	}
	workload, _, _ := unstructured.NestedString(o.Object, "spec", "podGroupTemplateRef", "workload", "workloadName")
	if rest, is := strings.CutPrefix(o.GetName(), workload); is && (workload != "" || o.GetKind() == "Workload" && metav1.GetControllerOf(o) != nil) {
		return endsHashed.ReplaceAllString(workload, "-*") + endsHashed.ReplaceAllString(rest, "-*")
	}
	prefix := o.GetGenerateName()
	if service := o.GetLabels()[discoveryv1.LabelServiceName]; prefix == "" && service != "" {
		prefix = service + "-" // an update of a mirrored EndpointSlice leaves generateName out
	}
	prefix = prefix[:min(len(prefix), longestPrefix)]
	if prefix != "" && madeUp.MatchString(strings.TrimPrefix(o.GetName(), prefix)) {
		return prefix + "*"
	}
	return uidPattern.ReplaceAllString(o.GetName(), "UID")
}

// stateOf removes from objects, by resource, what differs from run to run.
func stateOf(namespace string, objects map[string][]unstructured.Unstructured) (state, error) {
	made := map[string]string{}
	for _, list := range objects {
		for i := range list {
			if name, public := list[i].GetName(), publicName(&list[i]); name != public {
				made[name] = public
			}
		}
	}
	names := replacerOf(namespace, made)
	var all state
	for resource, list := range objects {
		for i := range list {
			o := list[i].DeepCopy()
			key := strings.ReplaceAll(keyOf(resource, o), namespace, "NAMESPACE") // a definition may be of its group
			prune(o)
			content, err := json.Marshal(steady(o.Object, names))
			if err != nil {
				return nil, fmt.Errorf("encoding %s: %w", key, err)
			}
			all = append(all, object{key, string(content)})
		}
	}
	slices.SortFunc(all, func(a, b object) int { return cmp.Or(cmp.Compare(a.key, b.key), cmp.Compare(a.content, b.content)) })
	return all, nil
}

// replacerOf replaces the namespace of a run and made-up names.
func replacerOf(namespace string, made map[string]string) *strings.Replacer {
	replace := []string{namespace, "NAMESPACE", base64.StdEncoding.EncodeToString([]byte(namespace)), "NAMESPACE"}
	// A name may begin with another one.
	longestFirst := func(a, b string) int { return cmp.Or(cmp.Compare(len(b), len(a)), cmp.Compare(a, b)) }
	for _, name := range slices.SortedFunc(maps.Keys(made), longestFirst) {
		replace = append(replace, name, made[name])
	}
	return strings.NewReplacer(replace...)
}

// unordered are fields whose lists have no order, or one that depends on addresses and made-up names.
var unordered = []string{"active", "addresses", "endpoints", "notReadyAddresses", "reservedFor", "resourceClaimStatuses", "subsets"}

// prune removes what counts changes, when the last one was seen, what is encrypted, and where the scheduler put a pod.
func prune(o *unstructured.Unstructured) {
	for _, path := range [][]string{
		{"metadata", "uid"}, {"metadata", "resourceVersion"}, {"metadata", "generation"}, {"metadata", "managedFields"},
		{"metadata", "annotations", corev1.EndpointsLastChangeTriggerTime},
		{"metadata", "labels", corev1.LabelTopologyZone}, {"metadata", "labels", corev1.LabelTopologyRegion},
		{"status", "observedGeneration"}, {"status", "resourceVersion"}, {"spec", "claimRef", "resourceVersion"},
	} {
		unstructured.RemoveNestedField(o.Object, path...)
	}
	if len(o.GetAnnotations()) == 0 {
		o.SetAnnotations(nil)
	}
	describe(o, describeToken, "data", corev1.ServiceAccountTokenKey)
	describe(o, describeCertificate, "status", "certificate")
	switch o.GetKind() {
	case "Pod":
		unstructured.RemoveNestedField(o.Object, "spec", "nodeName")
	case "Service":
		for _, field := range []string{"clusterIP", "clusterIPs", "healthCheckNodePort"} {
			unstructured.RemoveNestedField(o.Object, "spec", field)
		}
		withoutField(o, "nodePort", "spec", "ports")
	case "CronJob":
		withoutField(o, "resourceVersion", "status", "active")
	case "ValidatingAdmissionPolicy":
		pruneWarnings(o)
	}
}

// describe replaces a text by its description, if there is one.
func describe(o *unstructured.Unstructured, description func(string) string, path ...string) {
	if text, found, err := unstructured.NestedString(o.Object, path...); err == nil && found && text != "" {
		_ = unstructured.SetNestedField(o.Object, description(text), path...) // it is in an object
	}
}

// withoutField removes a field from the elements of a list, if there is one.
func withoutField(o *unstructured.Unstructured, field string, path ...string) {
	list, found, err := unstructured.NestedSlice(o.Object, path...)
	if err != nil || !found {
		return
	}
	for _, element := range list {
		if fields, ok := element.(map[string]any); ok {
			delete(fields, field)
		}
	}
	_ = unstructured.SetNestedSlice(o.Object, list, path...) // it is in an object
}

// pruneWarnings removes from warnings about expressions what is made up of types.
func pruneWarnings(o *unstructured.Unstructured) {
	warnings, isList, err := unstructured.NestedSlice(o.Object, "status", "typeChecking", "expressionWarnings")
	if err != nil || !isList {
		return
	}
	for _, one := range warnings {
		fields, ok := one.(map[string]any)
		if text, isText := fields["warning"].(string); ok && isText {
			fields["warning"] = typePattern.ReplaceAllString(text, "$1")
		}
	}
	_ = unstructured.SetNestedSlice(o.Object, warnings, "status", "typeChecking", "expressionWarnings") // it has been read from there
}

// steady returns a copy of a JSON value without times, UIDs, addresses and made-up names. Lists of which the
// order means nothing are sorted.
func steady(value any, names *strings.Replacer) any {
	switch v := value.(type) {
	case map[string]any:
		copied := make(map[string]any, len(v))
		for key, one := range v {
			copied[key] = steady(one, names)
		}
		for list, order := range orders {
			if elements, ok := copied[list].([]any); ok {
				slices.SortStableFunc(elements, order)
			}
		}
		for _, key := range unordered {
			if list, ok := copied[key].([]any); ok {
				slices.SortFunc(list, func(a, b any) int { return cmp.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
			}
		}
		return copied
	case []any:
		copied := make([]any, 0, len(v))
		for _, one := range v {
			copied = append(copied, steady(one, names))
		}
		return copied
	case string:
		v = timePattern.ReplaceAllString(v, "TIME")
		v = uidPattern.ReplaceAllString(v, "UID")
		return names.Replace(addressPattern.ReplaceAllString(v, "ADDRESS"))
	}
	return value
}

// orders are those of lists of which the order means nothing.
var orders = map[string]func(a, b any) int{"conditions": by("type"), "taints": by("key", "effect"), "volumesAttached": by("name")}

// by compares elements of a list by fields that are texts.
func by(fields ...string) func(a, b any) int {
	text := func(element any) string {
		object, _ := element.(map[string]any)
		var all []string
		for _, field := range fields {
			one, _ := object[field].(string)
			all = append(all, one)
		}
		return strings.Join(all, "/")
	}
	return func(a, b any) int { return cmp.Compare(text(a), text(b)) }
}

// differences lists what two states do not share. Of an object that is there in both, as its key tells, only
// what differs is listed.
func differences(want, got state) []string {
	missing, extra := without(want, got), without(got, want)
	var all []string
	for _, m := range missing {
		i := slices.IndexFunc(extra, func(e object) bool { return e.key == m.key })
		if i < 0 {
			all = append(all, fmt.Sprintf("missing: %s %s", m.key, m.content))
			continue
		}
		all = append(all, fmt.Sprintf("%s differs: %s", m.key, changes(m.content, extra[i].content)))
		extra = slices.Delete(extra, i, i+1)
	}
	for _, e := range extra {
		all = append(all, fmt.Sprintf("too much: %s %s", e.key, e.content))
	}
	return all
}

// without returns the objects of a that b does not have, each as often as it is too much.
func without(a, b state) state {
	counts := map[object]int{}
	for _, o := range b {
		counts[o]++
	}
	var rest state
	for _, o := range a {
		if counts[o]--; counts[o] < 0 {
			rest = append(rest, o)
		}
	}
	return rest
}

// changes lists the values that differ between two JSON texts, by their paths.
func changes(want, got string) string {
	before, after := flat(want), flat(got)
	paths := slices.Collect(maps.Keys(before))
	for path := range after {
		if _, both := before[path]; !both {
			paths = append(paths, path)
		}
	}
	slices.Sort(paths)
	var all []string
	for _, path := range paths {
		if before[path] != after[path] {
			all = append(all, fmt.Sprintf("%s is %q instead of %q", path, after[path], before[path]))
		}
	}
	return strings.Join(all, ", ")
}

// flat returns the values of a JSON text by their paths.
func flat(text string) map[string]string {
	var value any
	_ = json.Unmarshal([]byte(text), &value) // a text that is none has no values
	all := map[string]string{}
	var walk func(path string, value any)
	walk = func(path string, value any) {
		switch v := value.(type) {
		case map[string]any:
			for key, one := range v {
				walk(path+"."+key, one)
			}
		case []any:
			for i, one := range v {
				walk(fmt.Sprintf("%s[%d]", path, i), one)
			}
		default:
			all[path] = fmt.Sprint(v)
		}
	}
	walk("", value)
	return all
}
