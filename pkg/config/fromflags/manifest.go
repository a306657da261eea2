package fromflags

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/yaml"
)

// FromManifest makes a configuration from a manifest with a container that runs
// kube-controller-manager: a static pod as kubeadm writes it, a Deployment, DaemonSet or
// StatefulSet, or a List of those. The container is found by its command. If there are several, the first object
// with such a container is used. A unit file is read as FromCommandLine reads it.
func FromManifest(data []byte) (*Result, error) {
	if text := string(data); isUnit(text) && !isManifest(text) {
		return FromCommandLine(text)
	}
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(data), 4096)
	var seen []string
	for {
		object, err := nextWorkload(decoder)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("reading the manifest: %w", err)
		}
		for _, container := range object.containers() {
			args, ok, err := containerArguments(container)
			if err != nil {
				return nil, fmt.Errorf("container %s: %w", container.Name, err)
			}
			if ok {
				return Convert(args)
			}
			seen = append(seen, container.Name)
		}
	}
	if len(seen) == 0 {
		return nil, errors.New("the manifest has no pod with containers")
	}
	return nil, fmt.Errorf("no container of the manifest runs %s: it has %s", program, strings.Join(seen, ", "))
}

var manifestKind = regexp.MustCompile(`(?m)^\s*["']?kind["']?\s*:|"kind"\s*:`)

// isManifest reports whether text is a manifest rather than a command line.
func isManifest(text string) bool { return manifestKind.MatchString(text) }

// workload is the part of a pod, of an object with a pod template, or of a list of those, that is read.
type workload struct {
	Items []workload `json:"items"`
	Spec  struct {
		Containers []corev1.Container     `json:"containers"`
		Template   corev1.PodTemplateSpec `json:"template"`
	} `json:"spec"`
}

// nextWorkload decodes the next document of a manifest. An empty document has no containers.
func nextWorkload(decoder *yaml.YAMLOrJSONDecoder) (workload, error) {
	var document json.RawMessage
	if err := decoder.Decode(&document); err != nil || len(document) == 0 {
		return workload{}, err
	}
	var object workload
	err := json.Unmarshal(document, &object)
	if mistyped := (*json.UnmarshalTypeError)(nil); errors.As(err, &mistyped) {
		at := cmp.Or(mistyped.Field, "a document")
		return workload{}, fmt.Errorf("%s must be %s, not %s", at, nameOf(mistyped.Type), mistyped.Value)
	}
	return object, err
}

// nameOf returns what values of a type are called in a manifest.
func nameOf(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Struct, reflect.Map, reflect.Pointer:
		return "an object"
	case reflect.Slice:
		return "an array"
	case reflect.String:
		return "a string"
	case reflect.Bool:
		return "a boolean"
	default:
		return "a number"
	}
}

func (w workload) containers() []corev1.Container {
	out := slices.Concat(w.Spec.Containers, w.Spec.Template.Spec.Containers)
	for _, item := range w.Items {
		out = append(out, item.containers()...)
	}
	return out
}

// containerArguments returns the flags of the container; ok is false if it does not run
// kube-controller-manager.
func containerArguments(container corev1.Container) (args []string, ok bool, err error) {
	words := slices.Concat(container.Command, container.Args)
	if !runsProgram(words) {
		return nil, false, nil
	}
	variables := values(container.Env)
	if line, ok := shellCommand(words); ok {
		// What the kubelet does not know, the shell takes for a command of its own.
		line, unknown := variables.expand(line)
		if i := slices.IndexFunc(unknown, func(name string) bool { _, set := variables.known[name]; return set }); i >= 0 {
			return nil, true, unknownVariable(unknown[i], line)
		}
		args, err = commandLine(line)
		return args, true, err
	}
	if args, err = arguments(words); err != nil {
		return nil, true, err
	}
	args = slices.Clone(args)
	for i, arg := range args {
		var unknown []string
		if args[i], unknown = variables.expand(arg); len(unknown) > 0 {
			err = errors.Join(err, unknownVariable(unknown[0], arg))
		}
	}
	return args, true, err
}

func unknownVariable(name, word string) error {
	return fmt.Errorf("the value of $(%s) in %q is not in the manifest: replace it with its value", name, word)
}

// runsProgram reports whether the command is the program, or a shell that runs it.
func runsProgram(words []string) bool {
	if line, ok := shellCommand(words); ok {
		words, err := command(strings.ReplaceAll(line, "\\\n", " "))
		return err == nil && runs(words)
	}
	// The image may have an entry point in front of it, such as an init process.
	return slices.ContainsFunc(words, isProgram)
}

// shellCommand returns the command line that is passed to a shell with -c, alone or combined with
// other options as in -ec and -ce.
func shellCommand(words []string) (line string, ok bool) {
	shell := slices.IndexFunc(words, func(word string) bool {
		return slices.Contains([]string{"sh", "bash", "ash", "dash"}, filepath.Base(word))
	})
	if shell < 0 {
		return "", false
	}
	for i, word := range words[shell:] {
		if shellOptions.MatchString(word) && shell+i+1 < len(words) {
			return words[shell+i+1], true
		}
	}
	return "", false
}

// shellOptions are options of a shell with -c among them.
var shellOptions = regexp.MustCompile(`^-[a-zA-Z]*c[efhuvx]*$`)

var variable = regexp.MustCompile(`\$\$|\$\(([A-Za-z_][-A-Za-z0-9_.]*)\)`)

// environment has the values that the environment of a container gives to variables. That of one that takes it from
// elsewhere is nil.
type environment struct {
	known map[string]*string
	// left is how many bytes may still be put in place of variables.
	left int
}

// maxExpanded is how many bytes may take the place of variables. Each may refer twice to the one above it.
const maxExpanded = 1 << 20

// values reads an environment as the kubelet does: a value may refer to the variables above it, and the last of several
// for one name counts.
func values(env []corev1.EnvVar) *environment {
	v := &environment{known: map[string]*string{}, left: maxExpanded}
	for _, e := range env {
		value, unknown := v.expand(e.Value)
		if v.known[e.Name] = &value; e.ValueFrom != nil || len(unknown) > 0 {
			v.known[e.Name] = nil
		}
	}
	return v
}

// expand replaces $(NAME) by the value of the variable. It leaves those without a known value, and returns their names:
// they may come from envFrom, or from a Service. So it does when too much would take the place of variables.
func (v *environment) expand(word string) (out string, unknown []string) {
	out = variable.ReplaceAllStringFunc(word, func(match string) string {
		if match == "$$" {
			return "$"
		}
		name := match[2 : len(match)-1]
		if value := v.known[name]; value != nil && len(*value) <= v.left {
			v.left -= len(*value)
			return *value
		}
		unknown = append(unknown, name)
		return match
	})
	return out, unknown
}
