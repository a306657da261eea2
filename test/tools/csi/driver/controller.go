package main

import (
	"context"
	"slices"
	"strings"
	"sync"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// defaultCapacity is that of a volume for which no size is asked.
const defaultCapacity = 1 << 30

// controller creates, attaches and expands volumes.
type controller struct {
	// It answers the calls of capabilities that are not announced with the code that CSI specifies for them.
	csi.UnimplementedControllerServer

	mu      sync.Mutex // one call at a time
	volumes folder
}

func (c *controller) ControllerGetCapabilities(context.Context, *csi.ControllerGetCapabilitiesRequest) (*csi.ControllerGetCapabilitiesResponse, error) {
	response := &csi.ControllerGetCapabilitiesResponse{}
	for _, t := range []csi.ControllerServiceCapability_RPC_Type{
		csi.ControllerServiceCapability_RPC_CREATE_DELETE_VOLUME,
		csi.ControllerServiceCapability_RPC_PUBLISH_UNPUBLISH_VOLUME,
		csi.ControllerServiceCapability_RPC_EXPAND_VOLUME,
	} {
		rpc := &csi.ControllerServiceCapability_RPC{Type: t}
		response.Capabilities = append(response.Capabilities,
			&csi.ControllerServiceCapability{Type: &csi.ControllerServiceCapability_Rpc{Rpc: rpc}})
	}
	return response, nil
}

func (c *controller) CreateVolume(_ context.Context, r *csi.CreateVolumeRequest) (*csi.CreateVolumeResponse, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	v, err := c.volumes.read(r.GetName())
	if err != nil {
		return nil, err
	}
	required, limit := r.GetCapacityRange().GetRequiredBytes(), r.GetCapacityRange().GetLimitBytes()
	if v == nil {
		v = &volume{CapacityBytes: required}
		if required == 0 {
			v.CapacityBytes = defaultCapacity
		}
		if limit != 0 && v.CapacityBytes > limit {
			return nil, status.Errorf(codes.OutOfRange, "at most %d bytes are wanted", limit)
		}
		err = c.volumes.write(r.GetName(), v)
	} else if v.CapacityBytes < required || limit != 0 && v.CapacityBytes > limit {
		err = status.Errorf(codes.AlreadyExists, "volume %s has %d bytes", r.GetName(), v.CapacityBytes)
	}
	if err != nil {
		return nil, err
	}
	return &csi.CreateVolumeResponse{Volume: &csi.Volume{
		VolumeId: r.GetName(), CapacityBytes: v.CapacityBytes, VolumeContext: r.GetParameters(),
	}}, nil
}

func (c *controller) DeleteVolume(_ context.Context, r *csi.DeleteVolumeRequest) (*csi.DeleteVolumeResponse, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	v, err := c.volumes.read(r.GetVolumeId())
	if err != nil {
		return nil, err
	}
	if v != nil && len(v.Nodes) > 0 {
		return nil, status.Errorf(codes.FailedPrecondition, "volume %s is attached to %s", r.GetVolumeId(), strings.Join(v.Nodes, ", "))
	}
	return &csi.DeleteVolumeResponse{}, c.volumes.remove(r.GetVolumeId())
}

func (c *controller) ControllerPublishVolume(_ context.Context, r *csi.ControllerPublishVolumeRequest) (*csi.ControllerPublishVolumeResponse, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	v, err := c.existing(r.GetVolumeId())
	if err != nil {
		return nil, err
	}
	if r.GetNodeId() == "" {
		return nil, status.Error(codes.InvalidArgument, "the node is missing")
	}
	if slices.Contains(v.Nodes, r.GetNodeId()) {
		return &csi.ControllerPublishVolumeResponse{}, nil
	}
	if len(v.Nodes) > 0 && !onSeveralNodes(r.GetVolumeCapability()) {
		return nil, status.Errorf(codes.FailedPrecondition, "volume %s is attached to %s", r.GetVolumeId(), strings.Join(v.Nodes, ", "))
	}
	v.Nodes = append(v.Nodes, r.GetNodeId())
	return &csi.ControllerPublishVolumeResponse{}, c.volumes.write(r.GetVolumeId(), v)
}

// onSeveralNodes reports whether a volume may be attached to several nodes at a time.
func onSeveralNodes(capability *csi.VolumeCapability) bool {
	switch capability.GetAccessMode().GetMode() {
	case csi.VolumeCapability_AccessMode_MULTI_NODE_READER_ONLY,
		csi.VolumeCapability_AccessMode_MULTI_NODE_SINGLE_WRITER,
		csi.VolumeCapability_AccessMode_MULTI_NODE_MULTI_WRITER:
		return true
	}
	return false
}

func (c *controller) ControllerUnpublishVolume(_ context.Context, r *csi.ControllerUnpublishVolumeRequest) (*csi.ControllerUnpublishVolumeResponse, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	v, err := c.volumes.read(r.GetVolumeId())
	if err != nil || v == nil {
		return &csi.ControllerUnpublishVolumeResponse{}, err
	}
	// Without a node, the volume is to be detached from all.
	v.Nodes = slices.DeleteFunc(v.Nodes, func(node string) bool { return r.GetNodeId() == "" || r.GetNodeId() == node })
	return &csi.ControllerUnpublishVolumeResponse{}, c.volumes.write(r.GetVolumeId(), v)
}

// ControllerExpandVolume asks for the part of a node, too: the one that enlarges the file system.
func (c *controller) ControllerExpandVolume(_ context.Context, r *csi.ControllerExpandVolumeRequest) (*csi.ControllerExpandVolumeResponse, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	v, err := c.existing(r.GetVolumeId())
	if err != nil {
		return nil, err
	}
	if limit := r.GetCapacityRange().GetLimitBytes(); limit != 0 && v.CapacityBytes > limit {
		return nil, status.Errorf(codes.OutOfRange, "volume %s has %d bytes", r.GetVolumeId(), v.CapacityBytes)
	}
	v.CapacityBytes = max(v.CapacityBytes, r.GetCapacityRange().GetRequiredBytes())
	if err := c.volumes.write(r.GetVolumeId(), v); err != nil {
		return nil, err
	}
	return &csi.ControllerExpandVolumeResponse{CapacityBytes: v.CapacityBytes, NodeExpansionRequired: true}, nil
}

func (c *controller) ValidateVolumeCapabilities(_ context.Context, r *csi.ValidateVolumeCapabilitiesRequest) (*csi.ValidateVolumeCapabilitiesResponse, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, err := c.existing(r.GetVolumeId()); err != nil {
		return nil, err
	}
	return &csi.ValidateVolumeCapabilitiesResponse{Confirmed: &csi.ValidateVolumeCapabilitiesResponse_Confirmed{
		VolumeContext: r.GetVolumeContext(), VolumeCapabilities: r.GetVolumeCapabilities(), Parameters: r.GetParameters(),
	}}, nil
}

func (c *controller) existing(id string) (*volume, error) {
	v, err := c.volumes.read(id)
	if err == nil && v == nil {
		err = status.Errorf(codes.NotFound, "there is no volume %s", id)
	}
	return v, err
}
