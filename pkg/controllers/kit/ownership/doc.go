// Package ownership answers who controls an object, and takes control of objects or
// gives them up.
//
// The model, in rules:
//
//  1. An object has at most one controller: the owner reference with controller set to
//     true. Other owner references do not count here.
//  2. A reference leads to an owner only if its kind, name and UID are those of an owner
//     that exists. The API group of the reference is not compared.
//  3. Claim sorts candidates by one decision per object: claimed (controlled by the
//     owner and matching), adopt (controlled by nobody and matching), release
//     (controlled by the owner, matching no more) or ignore. An owner that is being
//     deleted neither adopts nor releases; an object that is being deleted is not adopted.
//  4. Before its first adoption a claim looks at the owner live, once: an owner that is
//     gone, recreated or being deleted must not take objects from the garbage collector.
//  5. Adopting and releasing are strategic merge patches that carry the UID of the
//     object, so they cannot hit a namesake. An object that is gone is no error.
//  6. Every candidate is looked at, whatever happened to the others. If there was an
//     error, the owner's dependents are not known and the caller must not act on them.
//
// See specs/workload-common.md, sections 3 and 4.
package ownership
