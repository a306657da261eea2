// Package kit is the index of what controllers share. It has no code.
//
// Who reads a controller for the first time needs the first four:
//
//   - reconcile: the work loop: a queue of keys, workers, retries, and when work begins.
//   - watch: typed notifications of informers, and which keys they queue.
//   - writes: what was written and the caches do not show yet, so that nothing is done twice.
//   - owners: objects that own others: events mapped to owners, adoption and release.
//
// Then, by what a controller deals with:
//
//   - pods: the states of pods, their creation, deletion and order of deletion.
//   - slowstart: many API calls in batches that grow while they succeed.
//   - requests: what the outcome of a request proves, and when it is worth another try.
//   - index: objects by controller, node, selector, claim or device.
//   - protection: finalizers that keep an object while it is in use.
//   - workloads: pod templates, their revisions (history), hashes and names (podtemplate), and
//     the engine of ReplicaSets and ReplicationControllers (replicas).
//   - services: changes of pods (podchanges), EndpointSlices as last written (slicewrites), and
//     the form of Endpoints (subsets).
//   - volumes: what the volumes of pods are, and the metric of what is done with them (operations).
//   - certificates: what the controllers of CertificateSigningRequests share, and the metrics of
//     those that publish CAs.
//   - cloud: the controllers of k8s.io/cloud-provider as instances that stop and start.
package kit
