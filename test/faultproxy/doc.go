// Package faultproxy is a proxy in front of the API server of a test control plane that
// understands requests and watches, and does to them what goes wrong in real clusters.
package faultproxy
