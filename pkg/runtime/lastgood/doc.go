// Package lastgood keeps the text of the configuration that was last in force, for a process
// that cannot start with its file.
//
// The rules:
//
//  1. What is kept is the text of the file, byte for byte, and after it one comment line, which
//     says of which file it is, when it came into force and in which version of the program, and
//     has a checksum of everything before. So it can be read and checked like any configuration,
//     and positions in it are those in the file.
//  2. The files that a configuration names are not kept: keys and credentials stay where they
//     are.
//  3. It is replaced in one step: another file is written, and on the disk, before it gets the
//     name. If the process is killed between any two steps, or the machine stops, what is read
//     afterwards is what was kept before or what is kept now.
//  4. What is read is returned only if it is complete, unchanged, of a known format, and of the
//     file that the process was started with. A directory that another process uses by mistake
//     must not make this one control its cluster.
//  5. Whether the text is a valid configuration for this version of the program is decided by
//     whoever reads it. Nothing of that decision is kept.
package lastgood
