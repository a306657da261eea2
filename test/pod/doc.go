// Package pod has tests run code as in a pod with a service account.
package pod

// Host is the address of the API server that a pod is given.
const Host = "https://pod.test:443"
