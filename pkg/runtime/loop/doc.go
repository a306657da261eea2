// Package loop has what a goroutine needs that alone carries out changes, one after another.
//
// The rules:
//
//  1. State that belongs to such a goroutine is touched by no other, and so needs no lock.
//  2. What takes a while, such as a request, is done beside it by [Tasks], which hands back a
//     function for the loop to call.
//  3. Everything the loop does itself is bounded in time. A [Watchdog] notices if it is stuck
//     nevertheless.
package loop
