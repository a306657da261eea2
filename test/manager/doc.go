// Package manager runs our kube-controller-manager against a control plane of
// package controlplane, for tests and benchmarks.
//
//  1. Start runs the runtime in the test's own process: fast, and open to the
//     race detector. StartProcess runs the real binary, for tests that send it
//     signals or kill it. Both return once the manager leads and every enabled
//     controller runs, and both end with the test. Join and JoinProcess do not wait: the
//     manager may be one that stands by. Launch, LaunchProcess, Begin and BeginProcess do
//     the same outside of a test.
//  2. The configuration is a file, as for any user. Its default here is the
//     product's, except for what Default says; the edit given at the start, and
//     later ones given to Edit, change it. Edit returns when the change is in force,
//     or with the reason why it was rejected. Write puts any bytes into the file.
//  3. Every controller acts as its own service account, so the API server's
//     bootstrap RBAC decides what it may do. Forbidden lists the requests the API
//     server refused.
//  4. Configuration and log are in a folder of their own inside the control plane's,
//     and go with it; KCMD_KEEP keeps them.
//  5. RunTests is a TestMain: one control plane and one manager for all tests of a
//     package, which fails if any request was forbidden.
package manager
