// Package fieldpath builds the paths of fields that messages, rules and Plans use:
// leaderElection.groups[0].name.
package fieldpath

import (
	"fmt"
	"strconv"
	"strings"
)

// maxKey is the length of the longest key that a path contains unquoted; longer ones are cut
// off there.
const maxKey = 64

// Join returns the path of a field of the mapping at path.
func Join(path, name string) string {
	if !isPlain(name) {
		return path + "[" + quote(name) + "]"
	}
	if path == "" {
		return name
	}
	return path + "." + name
}

// Element returns the path of an element of the list at path.
func Element(path string, index int) string { return path + "[" + strconv.Itoa(index) + "]" }

// Parent returns the path without its last field or index.
func Parent(path string) string {
	cut := strings.LastIndexAny(path, ".[")
	if cut < 0 {
		return ""
	}
	return path[:cut]
}

// General returns the path with [] in place of every index, as in rules.
func General(path string) string {
	if !strings.Contains(path, "[") {
		return path
	}
	out := make([]byte, 0, len(path))
	for i := 0; i < len(path); i++ {
		out = append(out, path[i])
		if path[i] != '[' {
			continue
		}
		end := i + 1
		for end < len(path) && '0' <= path[end] && path[end] <= '9' {
			end++
		}
		if end < len(path) && path[end] == ']' {
			i = end - 1
		}
	}
	return string(out)
}

// isPlain reports whether a key needs no quotes in a path.
func isPlain(name string) bool {
	for _, c := range []byte(name) {
		letter, digit := 'a' <= c|0x20 && c|0x20 <= 'z', '0' <= c && c <= '9'
		if !letter && !digit && c != '_' && c != '-' {
			return false
		}
	}
	return 0 < len(name) && len(name) <= maxKey
}

// quote quotes a key that is not plain, and cuts it off if it is long.
func quote(name string) string {
	if runes := []rune(name); len(runes) > maxKey {
		name = string(runes[:maxKey]) + "…"
	}
	return fmt.Sprintf("%q", name)
}
