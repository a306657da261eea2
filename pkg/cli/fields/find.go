package fields

import (
	"fmt"
	"regexp"
	"strings"

	"kcmd.dev/pkg/config/problem"
	"kcmd.dev/pkg/config/registry"
)

// UnknownError reports that there is no such field.
type UnknownError struct {
	// Block is the path up to which there are fields, Name what does not follow in it.
	Block, Name string
	// Hint is what to write instead, or what there is.
	Hint string
}

func (e *UnknownError) Error() string {
	if e.Block == "" {
		return fmt.Sprintf("there is no field %q, %s", e.Name, e.Hint)
	}
	return fmt.Sprintf("there is no field %q in %s, %s", e.Name, e.Block, e.Hint)
}

var index = regexp.MustCompile(`\[\d*\]`)

// Find returns the field at a path. Indexes of lists can be given or left out, and the
// former name of a controller stands for the controller. The error is an *UnknownError.
func (f *Field) Find(path string) (*Field, error) {
	at := f
	for _, name := range strings.Split(strings.Trim(index.ReplaceAllString(path, ""), "."), ".") {
		if name == "" {
			continue
		}
		next := at.child(name)
		if next == nil {
			return nil, at.unknown(f, name)
		}
		at = next
	}
	return at, nil
}

func (f *Field) child(name string) *Field {
	if child := f.exact(name); child != nil || f.Path != "controllers" {
		return child
	}
	for _, known := range registry.Controllers() {
		for _, former := range known.FormerNames {
			if former == name {
				return f.exact(known.Name)
			}
		}
	}
	return nil
}

func (f *Field) exact(name string) *Field {
	for _, child := range f.Fields {
		if child.Name == name {
			return child
		}
	}
	return nil
}

// unknown suggests the nearest name in the block, else the nearest in all of the tree.
func (f *Field) unknown(root *Field, name string) error {
	err := &UnknownError{Block: f.Path, Name: name}
	if len(f.Fields) == 0 {
		err.Hint = "which is not a block"
		return err
	}
	var names []string
	for _, child := range f.Fields {
		names = append(names, child.Name)
	}
	if f.Path == "controllers" {
		if similar := registry.Similar(name); len(similar) > 0 {
			for i := range similar {
				similar[i] = join(f.Path, similar[i])
			}
			err.Hint = fmt.Sprintf("did you mean %s?", strings.Join(similar, " or "))
			return err
		}
	}
	if best := problem.Nearest(name, names); best != "" {
		err.Hint = fmt.Sprintf("did you mean %s?", join(f.Path, best))
		return err
	}
	if elsewhere := root.named(name); len(elsewhere) > 0 && len(elsewhere) <= maxSuggested {
		err.Hint = fmt.Sprintf("did you mean %s?", strings.Join(elsewhere, " or "))
		return err
	}
	if containing := containing(name, names); len(containing) > 0 && len(containing) <= maxSuggested {
		for i := range containing {
			containing[i] = join(f.Path, containing[i])
		}
		err.Hint = fmt.Sprintf("did you mean %s?", strings.Join(containing, " or "))
		return err
	}
	if len(names) > maxListed {
		err.Hint = fmt.Sprintf("'config explain %s' lists its %d fields", f.Path, len(names))
		return err
	}
	err.Hint = "there are: " + strings.Join(names, ", ")
	return err
}

const (
	// maxSuggested is how many fields an error suggests, maxListed how many it lists.
	maxSuggested = 3
	maxListed    = 30
	// minFragment is the length of the shortest part of a name that is searched for.
	minFragment = 4
)

// containing lists the names that a word is a part of, in any letter case.
func containing(word string, names []string) []string {
	var out []string
	for _, name := range names {
		if len(word) >= minFragment && strings.Contains(strings.ToLower(name), strings.ToLower(word)) {
			out = append(out, name)
		}
	}
	return out
}

// named lists the paths of all fields with a name.
func (f *Field) named(name string) []string {
	var out []string
	for _, child := range f.Fields {
		if strings.EqualFold(child.Name, name) {
			out = append(out, child.Path)
		}
		out = append(out, child.named(name)...)
	}
	return out
}
