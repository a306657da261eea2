// Package statuspage draws the status page of the daemon from plain data.
//
// It uses no template package: templates look methods up by name through reflection, and for
// a program that does so the linker keeps every exported method of every type, of which
// client-go has tens of thousands. Without one, and with the build tag grpcnotrace, the
// program is smaller by a quarter.
//
// The rules of the page:
//
//  1. A [View] is ready to be printed. Its caller decides what a status means; this package
//     decides only where and how it appears.
//  2. Everything of a View is escaped, in text and in attributes. Only the style, which is
//     part of the program, is written unescaped.
//  3. The page is one document, plots included: no scripts, no requests besides itself. [Policy] forbids the
//     browser everything that the page does not need, should escaping fail.
package statuspage
