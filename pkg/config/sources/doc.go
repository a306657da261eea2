// Package sources finds configurations where people keep them: in files, in folders, on
// the standard input, and in the ConfigMaps of a manifest.
//
// The model:
//
//  1. What is found is an Input: the bytes that config.Load takes, and where each of
//     their characters is written in the file. Whether an Input is valid is for
//     config.Load to say, as in the process itself.
//  2. A file is a stream of YAML documents, or JSON. A document is a configuration if its
//     apiVersion or its kind says so, in any version. In a ConfigMap, or in a List of
//     them, each value of data and binaryData that is one counts.
//  3. Everything else in a folder or in a stream of several documents is skipped and
//     counted. A file that was named and holds nothing but one document is meant to be a
//     configuration: config.Load tells what is wrong with it.
//  4. A name that holds no configuration at all is a problem: whoever asked for a check
//     has to learn that nothing was checked.
//  5. Positions of problems are those of the file, for a value in a manifest too, however
//     it is quoted. Where a position cannot be told exactly, it is that of the key, and
//     the message gives the line in the value.
package sources
