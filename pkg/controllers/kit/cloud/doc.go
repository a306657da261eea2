// Package cloud runs the controllers of k8s.io/cloud-provider as instances that stop and start.
//
// These controllers are published, and are made for a process that ends with them: what they
// start ends some time after Run has returned, and some of their calls have no context that
// could end. The model, in rules:
//
//  1. A provider is a Go package that registers itself under a name (cloudprovider.
//     RegisterCloudProvider) and is linked into the program. Without one of the configured name
//     there is nothing to run. Each instance of a controller has a provider of its own, made by
//     the factory when the instance runs, from the file as it was when the instance was built.
//  2. The library reads the shared caches, through the scope of the instance: its handlers are
//     removed with the scope, and it sends no LIST. That a Service is gone is confirmed by a live
//     read, since its load balancer is deleted then, and that a node is gone, since all load
//     balancers lose it (missing.go). A Service that is gone before a load balancer that it did
//     not want any more stays for the library until that is deleted (owed.go). The library writes
//     through the fenced client of the instance, by the UID of what it works on; like calls of the
//     provider, its requests end when the instance is fenced. A Service that it has written is not
//     read again before the cache shows that. Its events go through the recorder of the instance.
//  3. A call of the provider ends when the instance is fenced, whatever context the library
//     gave it, and not before: a stop lets the calls in flight end. Once the instance has ended,
//     the provider is not called any more.
//  4. A stop begins nothing new. The first step of a unit of work, which reads a Service from
//     the cache or asks the provider for an instance or for routes, is where a goroutine of the
//     library ends after the stop. See guard.first.
//  5. Run returns when every goroutine that the library started has ended. They carry a
//     profiler label, by which they are found. A provider ends its own when the channel closes
//     that Initialize got, which is after those of the library have ended.
//  6. A panic of the provider is an error of the call.
//
// What the library keeps for the process stays: its metrics, which are registered once, and the
// queues and caches of an instance, which are garbage when it has ended. Events about work that
// ends after the stop are not sent.
//
// Behaviour: docs/specs/cloud-loops-common.md.
package cloud
