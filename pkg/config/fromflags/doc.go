// Package fromflags makes a configuration file from how an unmodified
// kube-controller-manager is started today: its command line, a pod manifest, or a unit
// of systemd.
//
// The model:
//
//  1. A command line means what it means to kube-controller-manager 1.36: the same
//     flags, the hidden ones included, parsed into the same types by the same library. A
//     wrong value is the same error.
//  2. What each flag becomes is in the table of package conversion; the part that
//     upstream keeps in its configuration type goes through the same conversion as a
//     /configz does.
//  3. The file says only what differs from the defaults, in the order of the types, with
//     a comment where a value is not simply taken over. config.Load accepts it, or there
//     is no file but an error that names the flag.
//  4. Nothing is dropped silently: each flag that leaves no trace in the file has a Note.
//     Unknown flags are errors, with the nearest one that there is.
//  5. The one file that is read is that of --leader-migration-config, if it can be.
package fromflags
