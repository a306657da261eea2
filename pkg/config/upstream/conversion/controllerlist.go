package conversion

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/config/registry"
	"kcmd.dev/pkg/config/v1beta1"
)

const (
	// every is the entry that stands for all controllers that are on by default.
	every           = "*"
	controllersPath = "Generic.Controllers"
	tokenController = "serviceaccount-token-controller"
	collector       = "garbage-collector-controller"
	collectorPath   = "GarbageCollectorController.EnableGarbageCollector"
)

// neverUpstream are the controllers that upstream knows by name and does not have.
var neverUpstream = []string{"service-lb-controller", "node-route-controller", "cloud-node-lifecycle-controller"}

// unknownUpstream is the controller that upstream does not know at all: it has only
// ever been part of cloud controller managers.
const unknownUpstream = "cloud-node-controller"

// controllersToHub turns the list into the fields enabled. Of the entries for one
// controller the first decides; * decides for those that have none and are on by
// default (docs/specs/manager.md section 6).
func (c *converter) controllersToHub() {
	list := c.in.Generic.Controllers
	all := slices.Contains(list, every)
	c.out.ControllerDefaults.Enabled = ptr.To(all)
	c.origin("controllerDefaults.enabled", controllersPath)
	decided := map[string]string{}
	for i, entry := range list {
		path := fmt.Sprintf("%s[%d]", controllersPath, i)
		typed, off := strings.CutPrefix(entry, "-")
		name, _ := registry.Canonical(typed)
		first, again := decided[name]
		switch {
		case entry == every:
			continue
		case !c.known(name):
			c.errs.addf(path, "%q is not in the list of known controllers", typed)
			continue
		case again && first != entry:
			c.noteImportant(path,
				fmt.Sprintf("%s has no effect after %s: the first entry for a controller decides", entry, first))
		}
		if again {
			continue
		}
		decided[name] = entry
		c.enable(name, !off, path)
	}
	c.collectorToHub()
	if _, named := decided[tokenController]; !all && !named && c.in.SAController.ServiceAccountKeyFile != "" {
		c.set(tokenController, true, "SAController.ServiceAccountKeyFile")
	}
}

// known reports whether upstream's list may have the name.
func (c *converter) known(name string) bool {
	return name != unknownUpstream && c.settings(name) != nil
}

func (c *converter) settings(name string) *v1beta1.ControllerSettings {
	for _, controller := range c.out.Controllers.All() {
		if controller.Name == name {
			return controller.Settings
		}
	}
	return nil
}

// enable applies an entry of the list.
func (c *converter) enable(name string, on bool, path string) {
	switch {
	case name == tokenController && !on:
		c.noteImportant(path, "upstream runs "+name+" whenever there is a private key file, "+
			"whatever the list says, and so does kcmd: "+
			"set controllers."+name+".enabled to false to disable it")
	case on && slices.Contains(neverUpstream, name):
		c.noteImportant(path, name+" never runs in upstream 1.36, and is not enabled here: "+
			"set controllers."+name+".enabled to true to run it")
	default:
		c.set(name, on, path)
	}
}

func (c *converter) set(name string, on bool, path string) {
	c.settings(name).Enabled = &on
	c.origin("controllers."+name+".enabled", path)
}

func (c *converter) collectorToHub() {
	if on := c.in.GarbageCollectorController.EnableGarbageCollector; on != nil && !*on {
		c.set(collector, false, collectorPath)
	}
}

// controllersFromHub writes the list. It cannot express anything about the token controller,
// for which upstream ignores the list, nor that a controller runs that upstream lacks.
func (c *exporter) controllersFromHub() {
	list := []string{}
	if *c.in.ControllerDefaults.Enabled {
		list = append(list, every)
	}
	for _, controller := range c.in.Controllers.All() {
		on := controller.Settings.Enabled
		switch {
		case on == nil, controller.Name == unknownUpstream, controller.Name == tokenController:
		case controller.Name == collector && !*on:
			c.out.GarbageCollectorController.EnableGarbageCollector = ptr.To(false)
		case *on && slices.Contains(neverUpstream, controller.Name):
		case *on:
			list = append(list, controller.Name)
		default:
			list = append(list, "-"+controller.Name)
		}
	}
	c.out.Generic.Controllers = list
}
