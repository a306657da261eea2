package upstream

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
	"k8s.io/kube-controller-manager/config/v1alpha1"

	"kcmd.dev/pkg/config/tree"
	"kcmd.dev/pkg/config/upstream/conversion"
)

// comments are those of a file of upstream's version.
type comments struct {
	// head are those of the whole file.
	head []string
	// fields are the others, by the path of the field in the spelling of /configz, in
	// the order of the file.
	fields []fieldComment
}

type fieldComment struct {
	path  string
	lines []string
}

// readComments collects the comments of a file that was read without errors.
func readComments(data []byte) comments {
	out := comments{}
	document, err := tree.Parse(data)
	if err != nil {
		return out // comments carry no settings
	}
	root := document.Content[0]
	out.head = append(lines(document.HeadComment), lines(root.HeadComment)...)
	if len(root.Content) == 2 && root.Content[0].Value == conversion.Group {
		out.head = append(out.head, lines(root.Content[0].HeadComment)...)
		root = root.Content[1]
	}
	out.collect(root, reflect.TypeFor[v1alpha1.KubeControllerManagerConfiguration](), "")
	out.head = append(out.head, lines(document.FootComment)...)
	return out
}

func (c *comments) collect(node *yaml.Node, goType reflect.Type, path string) {
	for goType.Kind() == reflect.Pointer {
		goType = goType.Elem()
	}
	switch {
	case node.Kind == yaml.MappingNode && goType.Kind() == reflect.Struct:
		for i := 0; i+1 < len(node.Content); i += 2 {
			key, value := node.Content[i], node.Content[i+1]
			name, fieldType, ok := conversion.FieldNamed(goType, key.Value)
			if !ok {
				continue
			}
			at := strings.TrimPrefix(path+"."+name, ".")
			c.add(at, key, value)
			c.collect(value, fieldType, at)
		}
	case node.Kind == yaml.SequenceNode && goType.Kind() == reflect.Slice:
		for i, item := range node.Content {
			at := fmt.Sprintf("%s[%d]", path, i)
			c.add(at, item)
			c.collect(item, goType.Elem(), at)
		}
	}
}

func (c *comments) add(path string, nodes ...*yaml.Node) {
	found := fieldComment{path: path}
	for _, node := range nodes {
		for _, text := range []string{node.HeadComment, node.LineComment, node.FootComment} {
			found.lines = append(found.lines, lines(text)...)
		}
	}
	switch {
	case len(found.lines) == 0:
	case path == "apiVersion" || path == "kind":
		c.head = append(c.head, found.lines...) // the file begins with them
	default:
		c.fields = append(c.fields, found)
	}
}

func lines(comment string) []string {
	var out []string
	for line := range strings.Lines(comment) {
		line = strings.TrimPrefix(strings.TrimSpace(line), "#")
		out = append(out, strings.TrimRight(strings.TrimPrefix(line, " "), " \n"))
	}
	return out
}

// byField gives each comment to the v1beta1 field that the commented one became, or that
// the first one in a commented block became, if the file writes it. Any other comment is
// kept at the top of the file, with the name of the field it belonged to.
func (c *comments) byField(origins map[string]string, written func(field string) bool) map[string][]string {
	out := map[string][]string{}
	for _, comment := range c.fields {
		became := becameOf(comment.path, origins)
		i := slices.IndexFunc(became, written)
		if i < 0 {
			c.head = append(c.head, comment.path+": "+strings.Join(comment.lines, " "))
			continue
		}
		out[became[i]] = append(out[became[i]], comment.lines...)
	}
	return out
}

// becameOf returns the v1beta1 fields that came from the path, then those that came from
// anything below it.
func becameOf(path string, origins map[string]string) []string {
	var own, below []string
	for field, from := range origins {
		switch {
		case from == path:
			own = append(own, field)
		case strings.HasPrefix(from, path+"."), strings.HasPrefix(from, path+"["):
			below = append(below, field)
		}
	}
	slices.Sort(own)
	slices.Sort(below)
	return append(own, below...)
}
