// Package inputs finds configurations where people keep them: in files, in folders, on
// the standard input, and in the ConfigMaps of a manifest.
//
// The model:
//
//  1. What is found is an Input: the bytes that config.Load takes, and where each of their
//     characters is written in the file. config.Load decides whether an Input is valid, as in
//     the process itself.
//  2. A file is a stream of YAML documents, or JSON. A document is a configuration by its
//     apiVersion or its kind, in any version. In a ConfigMap, or in a List of them, each
//     value of data and binaryData that is one counts.
//  3. Everything else in a folder or in a stream of several documents is skipped and counted.
//     A file that was named and holds nothing but one document is meant to be a
//     configuration: config.Load reports what is wrong with it.
//  4. A name under which there is no configuration is a problem: the user has to learn that
//     nothing was checked.
//  5. Positions of problems are those of the file, for a value in a manifest too, however it
//     is quoted. If a position cannot be determined exactly, it is that of the key, and the
//     message contains the line in the value.
package inputs
