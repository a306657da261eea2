// Package conversion converts the settings of an unmodified kube-controller-manager to those
// of this program, and back.
//
// The model:
//
//  1. Table is the one place that pairs a flag, a field of upstream's
//     kubecontrollermanager.config.k8s.io/v1alpha1 and a field of v1beta1. A setting without
//     a field here has a reason. Tests compare the table with both types and with the list of
//     upstream's flags.
//  2. A pair without How is copied, whatever the spelling of its type. A pair with How
//     is converted by the code of this package, which How describes.
//  3. ToHub takes a configuration as it is in force, as /configz of a running process
//     shows it: zero is zero, and NewDefault holds upstream's defaults for what nobody
//     set. A default here need not be the one upstream has: what is carried over is
//     what was in force, with one exception, the client limits (see limits.go).
//  4. Nothing is dropped silently. A setting with a value of its own and no meaning here is a
//     Note. A value that upstream accepts and that cannot mean the same here is an Error that
//     states what upstream does with it.
//  5. ToHub and FromHub are inverse for everything that both versions can express.
//  6. Everything is pure: no file is read, no request is sent.
package conversion
