//go:build !linux

package pvbinder

// shareWithContainers lets containers use a directory where SELinux is on, which is on Linux only.
func shareWithContainers(string) error { return nil }
