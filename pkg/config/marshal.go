package config

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	"sigs.k8s.io/yaml"

	"kcmd.dev/pkg/config/v1beta1"
)

// Marshal renders a configuration as YAML that Load reads back to an equal one.
// Fields are in alphabetical order.
func Marshal(cfg *v1beta1.KubeControllerManagerConfiguration) ([]byte, error) {
	data, err := yaml.Marshal(cfg)
	if err != nil {
		return nil, fmt.Errorf("marshalling the configuration: %w", err)
	}
	return data, nil
}

// Hash is the SHA-256, in hexadecimal, of the configuration's JSON. Configurations
// that mean the same after defaulting have the same hash, whatever their comments,
// order and spelling.
func Hash(cfg *v1beta1.KubeControllerManagerConfiguration) (string, error) {
	data, err := json.Marshal(cfg)
	if err != nil {
		return "", fmt.Errorf("hashing the configuration: %w", err)
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:]), nil
}
