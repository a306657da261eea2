// Command driver is a CSI driver whose volumes are files: each says how large its volume is, and
// to which nodes it is attached. Nothing can be stored in them.
//
//  1. It serves the identity and the controller service on a socket. There is no node service:
//     the nodes that it is for are simulated and mount nothing.
//  2. A volume is the file ID.json of a folder, which tests and people read. The driver remembers
//     nothing else, so it can be killed and started again at any time.
//  3. Every call is idempotent, as the CSI specification demands. Calls are served one after
//     another, and each is logged with its error.
package main

import (
	"context"
	"fmt"
	"log"
	"net"
	"os"
	"os/signal"
	"syscall"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// name is that of the driver in StorageClasses and in CSINodes.
const name = "csi.kcmd.dev"

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: csi-driver /path/of/the/socket /folder/of/the/volumes")
		os.Exit(2)
	}
	if err := serve(os.Args[1], folder(os.Args[2])); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// serve answers calls until a signal arrives.
func serve(socket string, volumes folder) error {
	if err := os.MkdirAll(string(volumes), 0o700); err != nil {
		return fmt.Errorf("creating the folder of the volumes: %w", err)
	}
	// A killed driver leaves its socket.
	if err := os.Remove(socket); err != nil && !os.IsNotExist(err) {
		return fmt.Errorf("removing the old socket: %w", err)
	}
	listener, err := net.Listen("unix", socket)
	if err != nil {
		return fmt.Errorf("listening: %w", err)
	}
	server := grpc.NewServer(grpc.UnaryInterceptor(logged))
	csi.RegisterIdentityServer(server, identity{})
	csi.RegisterControllerServer(server, &controller{volumes: volumes})
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, os.Interrupt, syscall.SIGTERM)
	go func() {
		<-ended
		server.Stop()
	}()
	return server.Serve(listener)
}

func logged(ctx context.Context, request any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
	response, err := handle(ctx, request)
	log.Printf("%s {%v}: {%v} %v", info.FullMethod, request, response, err)
	return response, err
}

// identity says what the driver is able to do.
type identity struct {
	csi.UnsafeIdentityServer // every call is below: one that a later version adds has to be written too
}

func (identity) GetPluginInfo(context.Context, *csi.GetPluginInfoRequest) (*csi.GetPluginInfoResponse, error) {
	return &csi.GetPluginInfoResponse{Name: name, VendorVersion: "1"}, nil
}

func (identity) GetPluginCapabilities(context.Context, *csi.GetPluginCapabilitiesRequest) (*csi.GetPluginCapabilitiesResponse, error) {
	service := func(t csi.PluginCapability_Service_Type) *csi.PluginCapability {
		return &csi.PluginCapability{Type: &csi.PluginCapability_Service_{Service: &csi.PluginCapability_Service{Type: t}}}
	}
	expansion := &csi.PluginCapability_VolumeExpansion{Type: csi.PluginCapability_VolumeExpansion_ONLINE}
	return &csi.GetPluginCapabilitiesResponse{Capabilities: []*csi.PluginCapability{
		service(csi.PluginCapability_Service_CONTROLLER_SERVICE),
		{Type: &csi.PluginCapability_VolumeExpansion_{VolumeExpansion: expansion}},
	}}, nil
}

func (identity) Probe(context.Context, *csi.ProbeRequest) (*csi.ProbeResponse, error) {
	return &csi.ProbeResponse{Ready: wrapperspb.Bool(true)}, nil
}
