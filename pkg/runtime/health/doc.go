// Package health checks whether the process does its work.
//
// What the three health pages promise:
//
//   - /livez fails when only a new process can help: the process holds a lease and does not
//     manage to renew it, or a change of the configuration or the leadership never ends. It
//     is what a kubelet restarts on.
//   - /readyz fails while the process could not take over work, or does not do all of it.
//   - /healthz has in addition one check for each controller. It is for people and alerts. A
//     controller that fails is isolated and tried again; ending the process on its account
//     would take all others with it.
//
// A rejected edit fails none of them: the configuration in force is good.
package health
