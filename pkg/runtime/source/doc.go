// Package source watches files and tells when their content changed.
//
//  1. What counts is content. A Change is delivered when the hash of the content, or
//     the error that prevents reading it, differs from what was delivered last. Touching
//     a file, or replacing it by an equal one, is not a change.
//  2. A path is followed like the kernel follows it: every directory that holds a
//     component of the path, or of the target of a symbolic link on the way, is watched,
//     and the file itself. So a swap of `..data` as the kubelet does it, a rename over
//     the file, a write in place, a folder that vanishes and returns, and a link that is
//     pointed elsewhere at any hop are all seen.
//  3. Events only say "look again". A file is read once it was quiet for Settle, but at
//     the latest after 10×Settle, so a file that is written without pause is read too.
//  4. Every Poll the file is read without being asked. This covers network file systems
//     and lost events. Where notifications cannot be had, for instance because the limit
//     of inotify instances is reached, paths are polled every second; the log says so.
//  5. A read is consistent: the file is the same, and unmodified, before and after. A
//     half-written file that stays like that is content; judging it is the parser's job.
//  6. A receiver that is slow sees the newest state of each path, not every step to it.
package source
