// Package history keeps the numbered revisions of a pod template in ControllerRevisions.
//
// The model, in rules:
//
//  1. A revision holds a payload: a strategic merge patch that replaces spec.template of its
//     owner. The same template always has the same payload, byte for byte, and revisions are
//     compared by payload. Payloads equal those of kube-controller-manager.
//  2. The newest revision has the highest number. If a rollback restores a template, its
//     revision is kept and gets a higher number.
//  3. A name ends in a hash of the payload. If an object of that name exists with another
//     payload, the owner's collision count is incremented and another name is generated.
//  4. The revisions of an owner are those that it controls and its selector matches.
//     Orphans that match are part of the list until they are adopted.
//  5. Cached revisions are never modified. The caller continues with the object that a write
//     returned.
//
// See docs/specs/workload-common.md, section 13.
package history
