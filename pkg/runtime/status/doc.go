// Package status is what the process shows about itself.
//
// The rules:
//
//  1. A [Status] is a snapshot. It is shown as JSON, as text, and as a page; each is made from
//     the snapshot and the time, and nothing else. It contains snapshots of other packages.
//  2. What a state means, for instance that something is wrong, is decided here or in package
//     health, once for all forms. Package statuspage only draws.
//  3. The plots of the page go back some minutes. They consist of samples that are taken when
//     somebody looks at the process; nothing is kept of one that nobody looks at. See [Past].
//  4. The configuration is shown as it is in force, defaults filled in. It names files and
//     never shows what they hold.
package status
