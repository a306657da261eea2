package problem

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// maxSuggestLength is the length of the longest word that Nearest compares.
const maxSuggestLength = 64

// Nearest returns the candidate that word was probably meant to be, or "" if none is close: at
// most a third of its letters may differ, not the only one, and letter case does not count.
func Nearest(word string, candidates []string) string {
	if word == "" || len(word) > maxSuggestLength {
		return ""
	}
	lower := strings.ToLower(word)
	best, bestDistance := "", 0
	for _, candidate := range candidates {
		limit := min(max(1, min(len(word), len(candidate))/3), len(word)-1)
		known := strings.ToLower(candidate)
		if len(known) > maxSuggestLength || len(lower)-len(known) > limit || len(known)-len(lower) > limit {
			continue
		}
		distance := editDistance(lower, known)
		if distance > limit {
			continue
		}
		if best == "" || distance < bestDistance {
			best, bestDistance = candidate, distance
		}
	}
	return best
}

// editDistance counts the insertions, deletions, substitutions and swaps of
// neighbours that make b from a. b has at most maxSuggestLength letters.
func editDistance(a, b string) int {
	if a == b {
		return 0
	}
	var rows [3][maxSuggestLength + 1]int
	before, previous, current := &rows[0], &rows[1], &rows[2]
	for j := range previous {
		previous[j] = j
	}
	for i := 1; i <= len(a); i++ {
		current[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			current[j] = min(previous[j]+1, current[j-1]+1, previous[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				current[j] = min(current[j], before[j-2]+1)
			}
		}
		before, previous, current = previous, current, before
	}
	return previous[len(b)]
}

// Hint returns the end of a message about an unknown word: the nearest candidate, or else
// the list of all candidates.
func Hint(word string, candidates []string) string {
	if best := Nearest(word, candidates); best != "" {
		return fmt.Sprintf("did you mean %q?", best)
	}
	sorted := slices.Sorted(slices.Values(candidates))
	return "allowed: " + strings.Join(sorted, ", ")
}

// maxShown is how much of a text from a file is shown in a message.
const maxShown = 64

// Quote returns a text from a file, quoted and shortened for a message.
func Quote(text string) string {
	runes := []rune(text)
	if len(runes) > maxShown {
		text = string(runes[:maxShown]) + "…"
	}
	return fmt.Sprintf("%q", text)
}

// Name returns a name from a file as it is, or quoted if it has line breaks or what a terminal may obey.
func Name(text string) string {
	if strings.ContainsFunc(text, func(r rune) bool { return !strconv.IsPrint(r) }) {
		return Quote(text)
	}
	return text
}

// Shorten returns a text from a file, such as a number, shortened for a message.
func Shorten(text string) string {
	if len(text) > maxShown {
		return text[:maxShown] + "…"
	}
	return text
}
