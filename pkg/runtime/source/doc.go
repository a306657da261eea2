// Package source watches files and reports when their content changes.
//
//  1. Only content counts. A Change is delivered when the hash of the content, or the error
//     that prevents reading it, differs from what was delivered last. Touching a file, or
//     replacing it with an equal one, is not a change.
//  2. A path is followed as the kernel follows it: every directory that contains a
//     component of the path, or of the target of a symbolic link on the way, is watched,
//     and the file itself. So all changes are noticed: a swap of `..data` by the kubelet, a
//     rename over the file, a write in place, a directory that is removed and created
//     again, and a link at any hop that gets another target.
//  3. Events only trigger a read. A file is read when it has not changed for Settle, but at
//     the latest after 10×Settle, so a file that is written without pause is read too.
//  4. The file is also read every Poll, unless an event has been seen that rule 3 waits for.
//     This covers network file systems and lost events. A change that is found in this way
//     counts as an event, and so does each further one until the file has settled. If
//     notifications are not available, for instance because the limit of inotify instances is
//     reached, paths are polled every second; the log reports this.
//  5. A read is consistent: the file is the same, and unmodified, before and after. A file
//     that stays half-written is content; the parser has to reject it.
//  6. A slow receiver gets the newest state of each path, not every step to it.
package source
