// Package fromflags converts what starts an unmodified kube-controller-manager (a command
// line, a pod manifest or a systemd unit) to a configuration file.
//
// The model:
//
//  1. A command line means what it means to kube-controller-manager 1.36: the same flags,
//     the hidden ones included, parsed into the same types by the same library. An invalid
//     value is the same error.
//  2. What each flag becomes is in the table of package conversion; the part that
//     upstream keeps in its configuration type goes through the same conversion as a
//     /configz does.
//  3. The file contains only what differs from the defaults, in the order of the types,
//     with a comment where a value is not carried over unchanged. config.Load accepts it;
//     otherwise there is no file but an error that names every flag at fault.
//  4. A command line that works upstream has a file. A value that is out of range here becomes
//     the nearest one allowed, a controller without workers is disabled, what is empty becomes what
//     upstream reads it as, and what the file must not have is left out if nothing reads it.
//  5. Nothing is dropped silently: each flag without an effect on the file has a Note, and so
//     has each flag that an earlier release removed. Unknown flags are errors that suggest the
//     nearest flag.
//  6. The only file that is read is that of --leader-migration-config, if it is readable.
package fromflags
