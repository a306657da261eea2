// Package controlplane runs a real Kubernetes control plane for tests and for
// the sandbox: etcd, kube-apiserver and, on request, kube-scheduler and kwok,
// each a child process with data, logs and certificates in one folder.
//
//  1. Start returns when the API server is ready, its bootstrap RBAC and system
//     namespaces exist and every simulated node is Ready; otherwise it returns an
//     error that shows the end of the failing program's log, and nothing is left.
//  2. Stop ends every process and removes a temporary folder. Processes cannot
//     outlive the one that started them, however that ends (package process); a
//     folder left by a killed run is removed by the next Start.
//  3. Everything listens on free loopback ports and trusts only this control
//     plane's own certificate authorities: any number of them may run at once.
//  4. RBAC is on. The manager's identity is a client certificate for
//     system:kube-controller-manager with no other rights than a real cluster
//     gives it. AdminConfig is a member of system:masters.
//  5. Requests of the manager and of service accounts in kube-system are audited; see
//     Audit. A test can hold, resume and restart the API server, restore etcd from a
//     snapshot, and cut the network between the API server and one client; see Proxy.
//     Package faultproxy injects faults into single requests and watches.
//  6. StartKubelet starts a real kubelet, which joins by TLS bootstrap. Its container runtime
//     runs nothing.
//  7. Options.CSI adds a CSI driver with the real external provisioner, attacher and resizer. The
//     simulated nodes mount nothing, so the driver has no part that runs on nodes.
//  8. A package of tests shares one control plane (RunTests), each test works in
//     a namespace of its own (ControlPlane.Namespace).
//
// There is no controller manager here: no namespace is ever finalized and no
// default service account created, unless a test runs the manager. Tests that
// create pods without it set Options.NoServiceAccountAdmission.
package controlplane
