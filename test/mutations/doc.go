// Package mutations puts known failures of kube-controller-manager back into this code, and shows that a test
// catches each.
//
//  1. A Case is a failure that users reported: its issues, what happened, the edits of our code that make it do
//     the same, and the test that has to fail then.
//  2. An edit names a snippet that occurs exactly once in its file. The edited file is written to a folder of its
//     own, and the go command reads it in place of the original (go build -overlay): the tree is never changed.
//  3. A case is proved if its test passes without the edits, and with them compiles and fails. A build that
//     fails proves nothing, nor does a process that ends without a word of the test.
//  4. Wherever tests run, every case is checked for drift, which takes a second: its snippets still occur, and its
//     test still exists. Some cheap ones are proved as well. `make mutations` proves all.
//
// docs/proof.md lists the cases.
package mutations
