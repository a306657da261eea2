package clustertrustbundle

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/pem"
	"maps"
	"slices"
	"strings"
)

// nameOf returns the name of the signer's ClusterTrustBundle with this content.
func nameOf(bundle []byte) string {
	sum := sha256.Sum256(bundle)
	return strings.ReplaceAll(signerName, "/", ":") + ":" + hex.EncodeToString(sum[:12])
}

// withoutRepetitions leaves out what a bundle contains again, with the comment above it: the API server refuses a
// ClusterTrustBundle with duplicates. The rest stays as it is.
func withoutRepetitions(bundle []byte) []byte {
	var kept []byte
	seen := map[string]bool{}
	for block, rest := pem.Decode(bundle); block != nil; block, rest = pem.Decode(bundle) {
		if !seen[string(block.Bytes)] {
			kept = append(kept, bundle[:len(bundle)-len(rest)]...)
		}
		seen[string(block.Bytes)] = true
		bundle = rest
	}
	return append(kept, bundle...)
}

// plan is what has to be written.
type plan struct {
	create, update bool
	// surplus has the names of those to delete, sorted.
	surplus []string
}

// decide compares what the signer should have, one ClusterTrustBundle, with the names and
// contents of those it has.
func decide(name, trust string, existing map[string]string) plan {
	published, found := existing[name]
	surplus := slices.Sorted(maps.Keys(existing))
	return plan{
		create:  !found,
		update:  found && published != trust,
		surplus: slices.DeleteFunc(surplus, func(other string) bool { return other == name }),
	}
}
