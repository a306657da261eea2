package bootstrapsigner

import (
	"fmt"
	"maps"
	"strings"

	bootstrapapi "k8s.io/cluster-bootstrap/token/api"
	"k8s.io/cluster-bootstrap/token/jws"
)

// sign returns the data of a ConfigMap with the signatures of exactly these tokens. The data
// must have a kubeconfig, which may be empty.
func sign(data map[string]string, tokens []token) (map[string]string, error) {
	kubeconfig := data[bootstrapapi.KubeConfigKey]
	signed := maps.Clone(data)
	maps.DeleteFunc(signed, func(key, _ string) bool { return strings.HasPrefix(key, bootstrapapi.JWSSignatureKeyPrefix) })
	for _, t := range tokens {
		signature, err := jws.ComputeDetachedSignature(kubeconfig, t.id, t.secret)
		if err != nil {
			return nil, fmt.Errorf("signing with bootstrap token %s: %w", t.id, err)
		}
		signed[bootstrapapi.JWSSignatureKeyPrefix+t.id] = signature
	}
	return signed, nil
}
