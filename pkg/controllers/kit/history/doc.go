// Package history keeps the numbered revisions of a pod template in ControllerRevisions.
//
// The model, in rules:
//
//  1. A revision holds a payload: a strategic merge patch that replaces spec.template of
//     its owner. The same template always has the same payload, byte for byte, and that
//     is how revisions are compared. Payloads agree with those of kube-controller-manager.
//  2. The newest revision has the highest number. A template that comes back, by a
//     rollback, keeps its revision, which gets a higher number.
//  3. A name ends in a hash of the payload. If an object of that name exists with another
//     payload, the owner counts one more collision and the name is made anew.
//  4. The revisions of an owner are those that it controls and its selector matches.
//     Orphans that match are part of the list until they are adopted.
//  5. Cached revisions are never changed. What a write returns is what the caller goes on with.
//
// See specs/workload-common.md, section 13.
package history
