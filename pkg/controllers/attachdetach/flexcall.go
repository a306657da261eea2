package attachdetach

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os/exec"
	"time"

	"kcmd.dev/pkg/controllers/kit/volumes"
)

// The answers of FlexVolume drivers that are no failures.
const (
	flexSuccess      = "Success"
	flexNotSupported = "Not supported"
)

// flexVolume is a volume of a FlexVolume driver.
type flexVolume struct {
	driver   string
	fsType   string
	readOnly bool
	options  map[string]string
}

// flexAnswer is what a driver prints.
type flexAnswer struct {
	Status       string `json:"status"`
	Message      string `json:"message"`
	Device       string `json:"device"`
	Attached     bool   `json:"attached"`
	Capabilities struct {
		Attach *bool `json:"attach"`
	} `json:"capabilities"`
}

var errNotSupported = errors.New("the driver does not support the command")

// outputWait is how long the output of a driver that has exited, or was killed, is still read while a process that it
// started keeps the output open.
const outputWait = time.Second

// call calls a driver, without a time limit. A command that it does not support is not tried again.
func (d *flexDriver) call(ctx context.Context, command string, args ...string) (flexAnswer, error) {
	d.mu.Lock()
	unsupported := d.unsupported[command]
	d.mu.Unlock()
	if unsupported {
		return flexAnswer{}, errNotSupported
	}
	cmd := exec.CommandContext(ctx, d.path, append([]string{command}, args...)...)
	cmd.WaitDelay = outputWait
	output, failed := cmd.CombinedOutput()
	if errors.Is(failed, exec.ErrWaitDelay) {
		failed = nil // the driver itself has succeeded
	}
	var answer flexAnswer
	if err := json.Unmarshal(output, &answer); err != nil {
		return flexAnswer{}, fmt.Errorf("reading the answer of FlexVolume driver %s to %s: %w",
			d.path, command, errors.Join(err, failed))
	}
	switch answer.Status {
	case flexSuccess:
		return answer, failed
	case flexNotSupported:
		d.mu.Lock()
		defer d.mu.Unlock()
		d.unsupported[command] = true
		return flexAnswer{}, errNotSupported
	}
	return flexAnswer{}, fmt.Errorf("%s command failed, status: %s, reason: %s", command, answer.Status, answer.Message)
}

// optionsOf returns the options that a driver is called with for a volume.
func optionsOf(spec volumes.Spec, volume *flexVolume) string {
	options := map[string]string{
		"kubernetes.io/fsType":         volume.fsType,
		"kubernetes.io/readwrite":      "rw",
		"kubernetes.io/pvOrVolumeName": spec.Name(),
	}
	if volume.readOnly {
		options["kubernetes.io/readwrite"] = "ro"
	}
	maps.Copy(options, volume.options)
	text, err := json.Marshal(options)
	if err != nil {
		panic(err) // a map of strings has a form in JSON
	}
	return string(text)
}

// identify reports whether the volumes of a driver are attached. It requests the name of the volume from the
// driver, which need not support that; the name is not used.
func (f *flexDrivers) identify(ctx context.Context, spec volumes.Spec, volume *flexVolume) (attaches bool, err error) {
	driver := f.find(ctx, volume.driver)
	if driver == nil || !driver.attaches {
		return false, nil
	}
	_, err = driver.call(ctx, "getvolumename", optionsOf(spec, volume))
	if err != nil && !errors.Is(err, errNotSupported) {
		return false, err
	}
	return true, nil
}

// attach returns the path of the device on the node.
func (f *flexDrivers) attach(ctx context.Context, spec volumes.Spec, node string) (device string, err error) {
	volume := sourceOf(spec).flex
	driver := f.find(ctx, volume.driver)
	if driver == nil || !driver.attaches {
		return "", errNotAttachable
	}
	answer, err := driver.call(ctx, "attach", optionsOf(spec, volume), node)
	if errors.Is(err, errNotSupported) {
		return "", nil
	}
	return answer.Device, err
}

func (f *flexDrivers) detach(ctx context.Context, name, volume, node string) error {
	driver := f.find(ctx, name)
	if driver == nil {
		return fmt.Errorf("FlexVolume driver %s is not installed", name)
	}
	if _, err := driver.call(ctx, "detach", volume, node); !errors.Is(err, errNotSupported) {
		return err
	}
	return nil
}

// isAttached asks a driver whether a volume is attached to a node.
func (f *flexDrivers) isAttached(ctx context.Context, spec volumes.Spec, node string) (bool, error) {
	volume := sourceOf(spec).flex
	driver := f.find(ctx, volume.driver)
	if driver == nil {
		return false, fmt.Errorf("FlexVolume driver %s is not installed", volume.driver)
	}
	answer, err := driver.call(ctx, "isattached", optionsOf(spec, volume), node)
	if errors.Is(err, errNotSupported) {
		return true, nil
	}
	return answer.Attached, err
}
