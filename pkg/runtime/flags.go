package runtime

import "encoding/json"

// flags are the flag of the process and, as it has one, the fields of the configuration
// in force by their paths. Neither holds secrets: they name files.
func (r *Runtime) flags() map[string]string {
	all := map[string]string{"config": r.options.ConfigFile}
	content, err := json.Marshal(r.inForce())
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
