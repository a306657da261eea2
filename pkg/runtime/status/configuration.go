package status

import (
	"encoding/json"

	"kcmd.dev/pkg/config/upstream"
	"kcmd.dev/pkg/config/upstream/conversion"
	"kcmd.dev/pkg/config/v1beta1"
)

// Flags are the flags of the process and, as it is configured by a file, the fields of a
// configuration by their paths. Neither holds secrets: they name files. A flag that is not set
// is left out.
func Flags(file, lastGood string, c *v1beta1.KubeControllerManagerConfiguration) map[string]string {
	all := map[string]string{"config": file}
	if lastGood != "" {
		all["last-good"] = lastGood
	}
	content, err := json.Marshal(c)
	if err != nil {
		return all
	}
	var fields map[string]any
	if err := json.Unmarshal(content, &fields); err != nil {
		return all
	}
	flatten("", fields, all)
	return all
}

// Configz is a configuration in our form and in that of an unmodified
// kube-controller-manager. It names files and never shows what they hold.
func Configz(c *v1beta1.KubeControllerManagerConfiguration) map[string]any {
	theirs := upstream.FromHub(c)
	theirs.APIVersion, theirs.Kind = conversion.APIVersion, conversion.Kind
	return map[string]any{v1beta1.GroupName: c, conversion.Group: theirs}
}

// flatten adds the leaves of a tree of fields by their paths. A list is a leaf.
func flatten(path string, value any, to map[string]string) {
	if fields, ok := value.(map[string]any); ok {
		for name, v := range fields {
			inner := name
			if path != "" {
				inner = path + "." + name
			}
			flatten(inner, v, to)
		}
		return
	}
	if text, ok := value.(string); ok {
		to[path] = text
		return
	}
	// What was decoded from JSON can be encoded.
	encoded, _ := json.Marshal(value)
	to[path] = string(encoded)
}
