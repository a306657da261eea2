// Package certificates holds what the controllers of CertificateSigningRequests share, and the metrics that those which
// publish CA bundles have in common.
//
// The model, in rules:
//
//  1. The state of a request is in its conditions. It is the presence of a condition that counts;
//     only for Failed does its status matter.
//  2. A request is parsed before it is validated. One that cannot be parsed is an error.
//  3. A request is validated by the rules of its signer about the subject, the names and the
//     usages of a certificate. The first violation is the result.
//  4. Keys are names of requests. A failing key is retried after 200 ms, doubled up to 1000 s.
//
// Behaviour: docs/specs/certificatesigningrequest-signing-controller.md and
// docs/specs/certificatesigningrequest-approving-controller.md.
package certificates
