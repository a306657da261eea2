// Package v1beta1 holds the types of config.kcmd.dev/v1beta1, the one file that configures
// a kube-controller-manager process.
//
// The model:
//
//  1. v1beta1 is the hub: every other version of the configuration converts to it.
//  2. An absent field takes its default; SetDefaults writes every default that is a
//     constant. A pointer field is never nil after SetDefaults, with two exceptions that
//     inherit: `enabled` of a controller block (from controllerDefaults.enabled) and
//     `resyncPeriod` (from resync.minPeriod). ControllerEnabled and ResyncPeriod return
//     their effective values.
//  3. Every field states its default, unit and range, and what a change of it
//     does to the running process: it applies in place, or it restarts
//     controllers. Nothing needs a restart of the process.
//  4. One meaning, one field: a setting that several controllers share (the root CA, the
//     service account key) is in its own block, never repeated.
//  5. A controller's block has the controller's canonical name, under `controllers`. Every
//     controller of Kubernetes 1.36 has a block.
//  6. Whatever upstream's flags can configure has a field (docs/specs/config-fields.md),
//     except for flags that have no effect in 1.36.
package v1beta1
