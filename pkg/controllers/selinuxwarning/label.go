package selinuxwarning

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// label is an SELinux label as a pod asks for it. Missing parts are empty: the node fills them in.
type label struct {
	text                    string
	user, role, kind, level string
}

// labelOf joins the options of a container. Without any the text is empty.
func labelOf(o *corev1.SELinuxOptions) label {
	return parse(strings.Join([]string{o.User, o.Role, o.Type, o.Level}, ":"))
}

// parse splits the text of a label. The level, which is last, may have colons.
func parse(text string) label {
	if text == ":::" {
		return label{}
	}
	parts := append(strings.SplitN(text, ":", 4), "", "", "")
	return label{text, parts[0], parts[1], parts[2], parts[3]}
}

// conflictsWith reports whether a volume cannot be mounted with both labels. A part that is missing
// may turn out to be any, except for the level: a pod without one gets a random one.
func (l label) conflictsWith(other label) bool {
	differ := func(a, b string) bool { return a != "" && b != "" && a != b }
	return differ(l.user, other.user) || differ(l.role, other.role) || differ(l.kind, other.kind) || l.level != other.level
}
