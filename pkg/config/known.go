package config

import (
	"maps"
	"slices"
	"strings"
)

// KnownController is a controller of Kubernetes, whether or not this build has it.
type KnownController struct {
	// Name is the canonical name.
	Name string
	// FormerNames are the names under which older releases knew it.
	FormerNames []string
}

// KnownControllers lists the controllers of Kubernetes, sorted by name.
func KnownControllers() []KnownController {
	former := map[string][]string{}
	for _, name := range neverRenamed {
		former[name] = nil
	}
	for _, old := range slices.Sorted(maps.Keys(formerNames)) {
		former[formerNames[old]] = append(former[formerNames[old]], old)
	}
	out := make([]KnownController, 0, len(former))
	for name, names := range former {
		out = append(out, KnownController{Name: name, FormerNames: names})
	}
	slices.SortFunc(out, func(a, b KnownController) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// Nearest returns the candidate that word was probably meant to be, or "" when none is
// close. It is what messages about unknown fields suggest.
func Nearest(word string, candidates []string) string { return nearest(word, candidates) }
