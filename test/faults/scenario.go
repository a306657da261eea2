package faults

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/jsonpath"
	"k8s.io/utils/clock"
	"sigs.k8s.io/yaml"

	"kcmd.dev/test/await"
	"kcmd.dev/test/manager"
)

// Scenario is a script of what users do, and what has to come of it.
type Scenario struct {
	Name string
	// Controllers are those that run: the fields of the configuration that enable them.
	Controllers func(*manager.Config) []**bool
	// Configure changes further settings. Optional.
	Configure func(*manager.Config)
	// Flags say to upstream's manager what Configure says to ours, except for feature gates. Optional.
	Flags []string
	// Differs are the differences from upstream that the specifications explain: regular expressions of what compare
	// returns, and their rules.
	Differs map[string]string
	// Chance is as Differs, for what upstream's manager does at times and ours never: when ours plays alone, it explains
	// nothing that is too much.
	Chance map[string]string
	// Stalls is the rule that explains why upstream's manager does not come to the end of the script; empty if it does.
	Stalls string
	// Bare has the scenario take place in a cluster without nodes, scheduler and kubelets: there are only the
	// nodes that it creates.
	Bare bool
	// Clock makes that of the controllers, for each run: one that is fast is ahead of the API server by the longer,
	// the longer it runs. The real one if it is nil.
	Clock func() clock.WithTicker
	// Leaps has each run have a clock of its own, which the script puts forward.
	Leaps bool
	// Before is done before the controllers begin. Optional.
	Before []Action
	// Beside is what other programs do meanwhile, until their context ends. Optional.
	Beside []func(context.Context, *world) error
	// Kinds are those of the objects whose final state counts. What exists of them before a run in the whole
	// cluster is no part of it.
	Kinds []schema.GroupVersionResource
	// Outside lists what counts besides objects of the API server, each on a line. Optional.
	Outside func() []string
	Steps   []Step
	// AtMost is how many objects may exist at any time that are not being deleted and have not ended, by
	// resource and name: pods/web-*.
	AtMost map[string]int
	// Spare is how many more objects than in the reference may be created and deleted under a fault, by
	// resource and name. What is not named has none.
	Spare map[string]int
	// Final are writes whose refusal ends the work for good, as the specification wants it: such refusals are
	// not injected. By verb and resource, as faults name them.
	Final []string
	// Reads are the kinds whose caches show the past under a fault, as group resources. All that the controllers
	// read, if it is empty.
	Reads []string
	// Place is the namespace in which it takes place. It has one of its own for each run, if it is empty.
	Place string
}

// Step is something that users do, and what it leads to.
type Step struct {
	Name  string
	Do    []Action
	Until []Condition
}

// Action is a request of a user.
type Action func(context.Context, *world) error

// Condition is nil when something is as it has to be.
type Condition func(context.Context, *world) error

// Create creates the objects of a YAML text. NAMESPACE stands for the namespace of the run in it, as in patches.
func Create(text string) Action {
	return func(ctx context.Context, w *world) error {
		for document := range strings.SplitSeq(text, "\n---\n") {
			o := &unstructured.Unstructured{}
			if err := yaml.Unmarshal([]byte(w.fill(document)), o); err != nil {
				return fmt.Errorf("decoding %s: %w", document, err)
			}
			kind := o.GroupVersionKind()
			mapping, err := w.mapper.RESTMapping(kind.GroupKind(), kind.Version)
			if err != nil {
				return fmt.Errorf("kind %s: %w", kind, err)
			}
			client, err := w.kind(mapping.Resource)
			if err != nil {
				return err
			}
			if _, err := client.Create(ctx, o, metav1.CreateOptions{}); err != nil {
				return err
			}
		}
		return nil
	}
}

// Patch changes an object by a JSON merge patch.
func Patch(resource, name, patch string) Action { return patchOf(resource, name, patch) }

// PatchStatus changes the status of an object by a JSON merge patch.
func PatchStatus(resource, name, patch string) Action {
	return PatchPart(resource, name, patch, "status")
}

// PatchPart changes a subresource of an object by a JSON merge patch.
func PatchPart(resource, name, patch, subresource string) Action {
	return patchOf(resource, name, patch, subresource)
}

func patchOf(resource, name, patch string, subresources ...string) Action {
	return func(ctx context.Context, w *world) error {
		client, err := w.of(resource)
		if err != nil {
			return err
		}
		_, err = client.Patch(ctx, name, types.MergePatchType, []byte(w.fill(patch)), metav1.PatchOptions{}, subresources...)
		return err
	}
}

// Delete deletes an object.
func Delete(resource, name string, propagation metav1.DeletionPropagation) Action {
	return func(ctx context.Context, w *world) error {
		client, err := w.of(resource)
		if err != nil {
			return err
		}
		return client.Delete(ctx, name, metav1.DeleteOptions{PropagationPolicy: &propagation})
	}
}

// DeleteOne deletes the first of the objects that a selector of labels selects, by name.
func DeleteOne(resource, labels string) Action {
	return func(ctx context.Context, w *world) error {
		client, list, err := w.selected(ctx, resource, labels)
		if err != nil {
			return err
		}
		if len(list.Items) == 0 {
			return fmt.Errorf("no object of %s has the labels %s", resource, labels)
		}
		return client.Delete(ctx, list.Items[0].GetName(), metav1.DeleteOptions{})
	}
}

// Has is that the controller of an object has seen it as it is, and that JSON paths have values:
// "{.status.readyReplicas}", "3".
func Has(resource, name string, pathsAndValues ...string) Condition {
	return func(ctx context.Context, w *world) error {
		client, err := w.of(resource)
		if err != nil {
			return err
		}
		o, err := client.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		observed, found, err := unstructured.NestedInt64(o.Object, "status", "observedGeneration")
		if err != nil || found && observed != o.GetGeneration() {
			return errors.Join(err, fmt.Errorf("generation %d of %d of %s/%s is observed", observed, o.GetGeneration(), resource, name))
		}
		for i := 0; i < len(pathsAndValues); i += 2 {
			if err := hasValue(o, pathsAndValues[i], pathsAndValues[i+1]); err != nil {
				return err
			}
		}
		return nil
	}
}

func hasValue(o *unstructured.Unstructured, path, want string) error {
	is, err := valueAt(path, o)
	if err == nil && is != want {
		status, _ := json.Marshal(o.Object["status"])
		err = fmt.Errorf("%s of %s is %q, want %q; status: %s", path, o.GetName(), is, want, status)
	}
	return err
}

// valueAt is what an object has at a JSON path: several values have spaces between them.
func valueAt(path string, o *unstructured.Unstructured) (string, error) {
	p := jsonpath.New("condition").AllowMissingKeys(true)
	if err := p.Parse(path); err != nil {
		return "", fmt.Errorf("path %s: %w", path, err)
	}
	var is strings.Builder
	if err := p.Execute(&is, o.Object); err != nil {
		return "", fmt.Errorf("path %s: %w", path, err)
	}
	return is.String(), nil
}

// Count is that a selector of labels selects so many objects, none of which is being deleted.
func Count(resource, labels string, want int) Condition {
	return func(ctx context.Context, w *world) error {
		_, list, err := w.selected(ctx, resource, labels)
		if err != nil {
			return err
		}
		for _, o := range list.Items {
			if o.GetDeletionTimestamp() != nil {
				return fmt.Errorf("%s/%s is being deleted", resource, o.GetName())
			}
		}
		if len(list.Items) != want {
			return fmt.Errorf("there are %d %s, want %d", len(list.Items), resource, want)
		}
		return nil
	}
}

// Gone is that there is no object of a name.
func Gone(resource, name string) Condition {
	return func(ctx context.Context, w *world) error {
		client, err := w.of(resource)
		if err != nil {
			return err
		}
		_, err = client.Get(ctx, name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			return nil
		case err != nil:
			return err
		}
		return fmt.Errorf("%s/%s is still there", resource, name)
	}
}

// Check has a condition hold at once.
func Check(condition Condition) Action { return Action(condition) }

// Repeat does something until it succeeds: the API server may not know yet of what it needs.
func Repeat(do Action) Action {
	return func(ctx context.Context, w *world) error {
		return await.Nil(ctx, patience, func(ctx context.Context) error { return do(ctx, w) })
	}
}
