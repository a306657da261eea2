package config

import (
	"fmt"
	"slices"
	"strings"
)

// maxSuggestLength is the longest word for which a neighbour is looked for.
const maxSuggestLength = 64

// nearest returns the candidate closest to word, or "" when none is close: at
// most a third of its letters may differ, and letter case does not count.
func nearest(word string, candidates []string) string {
	if word == "" || len(word) > maxSuggestLength {
		return ""
	}
	lower := strings.ToLower(word)
	best, bestDistance := "", 0
	for _, candidate := range candidates {
		limit := max(1, min(len(word), len(candidate))/3)
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

// hint ends a message about an unknown word: the near candidate, else the list
// of all candidates.
func hint(word string, candidates []string) string {
	if best := nearest(word, candidates); best != "" {
		return fmt.Sprintf("did you mean %q?", best)
	}
	sorted := slices.Sorted(slices.Values(candidates))
	return "allowed: " + strings.Join(sorted, ", ")
}

// shorten quotes a text from the file for a message.
func shorten(text string) string {
	const limit = 64
	runes := []rune(text)
	if len(runes) > limit {
		text = string(runes[:limit]) + "…"
	}
	return fmt.Sprintf("%q", text)
}
