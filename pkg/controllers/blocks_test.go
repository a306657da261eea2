package controllers

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/config/gates"
	"kcmd.dev/pkg/config/named"
	"kcmd.dev/pkg/config/v1beta1"
)

// The configuration has a block for every controller, and for nothing else.
func TestEveryControllerHasABlock(t *testing.T) {
	var blocks, rows []string
	for _, block := range new(v1beta1.Controllers).All() {
		blocks = append(blocks, block.Name)
	}
	for _, d := range All() {
		rows = append(rows, d.Name)
	}
	slices.Sort(blocks)
	slices.Sort(rows)
	if diff := cmp.Diff(blocks, rows); diff != "" {
		t.Errorf("the blocks of the configuration and the rows of the registry differ (-blocks +rows):\n%s", diff)
	}
}

// The templates of recycler pods are for persistentvolume-binder-controller: a change of one, or of its
// file, restarts nothing else. Pins PVX-35 and SEL-47.
func TestRecyclerTemplatesMatterToTheBinderOnly(t *testing.T) {
	cfg := v1beta1.NewDefault()
	cfg.Controllers.PersistentVolumeBinder.Recycler.NFS.PodTemplateFile = "/template"
	for _, d := range All() {
		read := d.Value(cfg) != d.Value(v1beta1.NewDefault()) || slices.Contains(d.Files(d.Value(cfg)), "/template")
		if want := d.Name == "persistentvolume-binder-controller"; read != want {
			t.Errorf("%s reads the template: %t", d.Name, read)
		}
	}
}

// The files of a controller are checked before an edit comes into force if it is enabled, and only then. Pins MGR-224.
func TestFilesOfEnabledControllersAreChecked(t *testing.T) {
	cfg := v1beta1.NewDefault()
	cfg.ControllerDefaults.Enabled = ptr.To(false)
	cfg.Serving.Port = ptr.To[int32](0)
	cfg.ServiceAccounts.PrivateKeyFile, cfg.ServiceAccounts.RootCAFile = "/signing.key", "/root.crt"
	cfg.Controllers.CSRSigning.AllSigners = v1beta1.SigningCA{CertFile: "/ca.crt", PrivateKeyFile: "/ca.key"}
	recycler := &cfg.Controllers.PersistentVolumeBinder.Recycler
	recycler.NFS.PodTemplateFile, recycler.HostPath.PodTemplateFile = "/nfs.yaml", "/hostpath.yaml"
	if got := named.Files(cfg); len(got) != 0 {
		t.Errorf("with all controllers disabled, %q are checked", got)
	}
	reads := map[string]bool{}
	for _, d := range All() {
		for _, block := range cfg.Controllers.All() {
			block.Settings.Enabled = ptr.To(block.Name == d.Name)
		}
		value := d.Value(cfg)
		read := slices.Concat(d.Files(value), d.FollowedFiles(value))
		for _, file := range read {
			reads[file] = true
		}
		checked := named.Files(cfg)
		slices.Sort(read)
		slices.Sort(checked)
		if diff := cmp.Diff(slices.Compact(read), slices.Compact(checked), cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s reads other files than are checked (-read +checked):\n%s", d.Name, diff)
		}
	}
	if len(reads) != 6 {
		t.Errorf("of six files, controllers read %v", reads)
	}
}

// A gate that a controller needs is one that the configuration knows to be read.
func TestGatesOfControllersAreRead(t *testing.T) {
	read := map[string]bool{}
	for _, gate := range gates.All() {
		read[gate.Name] = gate.Read
	}
	for _, d := range All() {
		if d.Gate != "" && !read[d.Gate] {
			t.Errorf("%s needs the gate %s, which nothing is known to read: run make generate", d.Name, d.Gate)
		}
	}
}
