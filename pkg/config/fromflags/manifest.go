package fromflags

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/yaml"
)

// FromManifest makes a configuration from a manifest with a container that runs
// kube-controller-manager: a static pod as kubeadm writes it, or a Deployment, DaemonSet or
// StatefulSet. The container is found by its command. If there are several, the first object
// with such a container is used. A unit file is read as FromCommandLine reads it.
func FromManifest(data []byte) (*Result, error) {
	if text := string(data); isUnit(text) && !isManifest(text) {
		return FromCommandLine(text)
	}
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(data), 4096)
	var seen []string
	for {
		object := workload{}
		err := decoder.Decode(&object)
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

// workload is the part of a pod, or of an object with a pod template, that is read.
type workload struct {
	Kind string `json:"kind"`
	Spec struct {
		corev1.PodSpec `json:",inline"`
		Template       corev1.PodTemplateSpec `json:"template"`
	} `json:"spec"`
}

func (w workload) containers() []corev1.Container {
	return slices.Concat(w.Spec.Containers, w.Spec.Template.Spec.Containers)
}

// containerArguments returns the flags of the container; ok is false if it does not run
// kube-controller-manager.
func containerArguments(container corev1.Container) (args []string, ok bool, err error) {
	words := slices.Concat(container.Command, container.Args)
	if !runsProgram(words) {
		return nil, false, nil
	}
	words, err = expand(words, container.Env)
	if err != nil {
		return nil, true, err
	}
	if line, ok := shellCommand(words); ok {
		args, err = commandLine(line)
		return args, true, err
	}
	args, err = arguments(words)
	return args, true, err
}

// runsProgram reports whether the command is the program, or a shell that runs it.
func runsProgram(words []string) bool {
	if line, ok := shellCommand(words); ok {
		words, err := command(strings.ReplaceAll(line, "\\\n", " "))
		return err == nil && slices.ContainsFunc(words, isProgram)
	}
	// The image may have an entry point in front of it, such as an init process.
	return slices.ContainsFunc(words, isProgram)
}

// shellCommand returns the command line that is passed to a shell with -c, alone or combined with
// other options as in -ec.
func shellCommand(words []string) (line string, ok bool) {
	shell := slices.IndexFunc(words, func(word string) bool {
		return slices.Contains([]string{"sh", "bash", "ash", "dash"}, filepath.Base(word))
	})
	if shell < 0 {
		return "", false
	}
	for i, word := range words[shell:] {
		if strings.HasPrefix(word, "-") && !strings.HasPrefix(word, "--") && strings.HasSuffix(word, "c") && shell+i+1 < len(words) {
			return words[shell+i+1], true
		}
	}
	return "", false
}

var variable = regexp.MustCompile(`\$\$|\$\(([A-Za-z_][-A-Za-z0-9_.]*)\)`)

// expand replaces $(NAME) by the value that the container's environment gives it, as the
// kubelet does. A variable that takes its value from elsewhere is an error.
func expand(words []string, env []corev1.EnvVar) ([]string, error) {
	out := make([]string, len(words))
	var failed error
	for i, word := range words {
		out[i] = variable.ReplaceAllStringFunc(word, func(match string) string {
			if match == "$$" {
				return "$"
			}
			name := match[2 : len(match)-1]
			at := slices.IndexFunc(env, func(e corev1.EnvVar) bool { return e.Name == name })
			switch {
			case at < 0:
				return match // the kubelet leaves it as well
			case env[at].ValueFrom != nil:
				failed = errors.Join(failed, fmt.Errorf("the value of %s in %q is not in the manifest: replace it with its value", match, word))
			}
			return env[at].Value
		})
	}
	return out, failed
}
