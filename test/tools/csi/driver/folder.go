package main

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// volume is what the file of a volume says.
type volume struct {
	CapacityBytes int64 `json:"capacityBytes"`
	// Nodes are those that the volume is attached to.
	Nodes []string `json:"nodes,omitempty"`
}

// folder holds a file for each volume.
type folder string

// file returns the path of a volume's file. The id of a volume is the name that it was created
// with, which may be anything that is no path.
func (f folder) file(id string) (string, error) {
	if id == "" || strings.HasPrefix(id, ".") || filepath.Base(id) != id {
		return "", status.Errorf(codes.InvalidArgument, "%q cannot be the name of a volume", id)
	}
	return filepath.Join(string(f), id+".json"), nil
}

// read returns nil if there is no such volume.
func (f folder) read(id string) (*volume, error) {
	file, err := f.file(id)
	if err != nil {
		return nil, err
	}
	data, err := os.ReadFile(file)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	v := &volume{}
	if err == nil {
		err = json.Unmarshal(data, v)
	}
	if err != nil {
		return nil, status.Errorf(codes.Internal, "reading volume %s: %v", id, err)
	}
	return v, nil
}

// write writes a file at once: whoever reads it meanwhile sees the old or the new volume.
func (f folder) write(id string, v *volume) error {
	file, err := f.file(id)
	if err != nil {
		return err
	}
	data, err := json.Marshal(v)
	if err != nil {
		return status.Errorf(codes.Internal, "writing volume %s: %v", id, err)
	}
	temporary := filepath.Join(string(f), "."+id+".new")
	if err := os.WriteFile(temporary, append(data, '\n'), 0o600); err != nil {
		return status.Errorf(codes.Internal, "writing volume %s: %v", id, err)
	}
	if err := os.Rename(temporary, file); err != nil {
		return status.Errorf(codes.Internal, "writing volume %s: %v", id, err)
	}
	return nil
}

func (f folder) remove(id string) error {
	file, err := f.file(id)
	if err != nil {
		return err
	}
	if err := os.Remove(file); err != nil && !errors.Is(err, os.ErrNotExist) {
		return status.Errorf(codes.Internal, "removing volume %s: %v", id, err)
	}
	return nil
}
