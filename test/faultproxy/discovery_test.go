package faultproxy

import (
	"slices"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
)

func TestHiddenGroupIsNotDiscovered(t *testing.T) {
	for name, legacy := range map[string]bool{"legacy": true, "aggregated": false} {
		t.Run(name, func(t *testing.T) {
			p := Start(t, plane)
			c := client(t, p)
			d, ok := c.Discovery().(*discovery.DiscoveryClient)
			if !ok {
				t.Fatalf("the client discovers with %T", c.Discovery())
			}
			d.UseLegacyDiscovery = legacy
			apps := schema.GroupVersion{Group: "apps", Version: "v1"}
			autoscaling := schema.GroupVersion{Group: "autoscaling", Version: "v2"}
			before := servedVersions(t, d)
			for _, gv := range []schema.GroupVersion{apps, autoscaling} {
				if !slices.Contains(before, gv.String()) {
					t.Fatalf("discovery tells %v", before)
				}
			}
			group, version := p.HideGroup(apps.Group), p.HideGroupVersion(autoscaling)
			want := slices.DeleteFunc(slices.Clone(before), func(gv string) bool { return gv == "apps/v1" || gv == "autoscaling/v2" })
			if got := servedVersions(t, d); !slices.Equal(got, want) {
				t.Errorf("discovery tells %v, want %v", got, want)
			}
			for _, gv := range []schema.GroupVersion{apps, autoscaling} {
				if _, err := d.ServerResourcesForGroupVersion(gv.String()); !apierrors.IsNotFound(err) {
					t.Errorf("the resources of %s: %v", gv, err)
				}
			}
			if _, err := d.ServerResourcesForGroupVersion("autoscaling/v1"); err != nil {
				t.Error(err)
			}
			if _, err := c.AppsV1().Deployments("").List(t.Context(), metav1.ListOptions{}); err != nil {
				t.Errorf("the group's resources: %v", err)
			}
			if group.Hits() == 0 || version.Hits() == 0 {
				t.Errorf("the faults concerned %d and %d requests", group.Hits(), version.Hits())
			}
			group.Lift()
			version.Lift()
			if got := servedVersions(t, d); !slices.Equal(got, before) {
				t.Errorf("afterwards discovery tells %v, want %v", got, before)
			}
		})
	}
}

// servedVersions returns the group versions discovery tells resources of.
func servedVersions(t *testing.T, d discovery.DiscoveryInterface) []string {
	t.Helper()
	groups, resources, err := d.ServerGroupsAndResources()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, r := range resources {
		got = append(got, r.GroupVersion)
	}
	var versions []string
	for _, g := range groups {
		for _, v := range g.Versions {
			versions = append(versions, v.GroupVersion)
		}
		if !slices.ContainsFunc(g.Versions, func(v metav1.GroupVersionForDiscovery) bool { return v == g.PreferredVersion }) {
			t.Errorf("group %s prefers a version it has not: %v", g.Name, g.PreferredVersion)
		}
	}
	slices.Sort(got)
	slices.Sort(versions)
	if !slices.Equal(got, versions) {
		t.Errorf("the groups have %v, resources are of %v", versions, got)
	}
	return got
}

func TestGroupIsHiddenWithItsLastVersion(t *testing.T) {
	p := Start(t, plane)
	d := client(t, p).Discovery()
	p.HideGroupVersion(schema.GroupVersion{Group: "apps", Version: "v1"})
	groups, err := d.ServerGroups()
	if err != nil {
		t.Fatal(err)
	}
	if slices.ContainsFunc(groups.Groups, func(g metav1.APIGroup) bool { return g.Name == "apps" }) {
		t.Error("discovery tells of a group without versions")
	}
	if err := d.RESTClient().Get().AbsPath("/apis/apps").Do(t.Context()).Error(); !apierrors.IsNotFound(err) {
		t.Errorf("the group itself: %v", err)
	}
	var group metav1.APIGroup
	p.HideGroupVersion(schema.GroupVersion{Group: "autoscaling", Version: "v2"})
	if err := d.RESTClient().Get().AbsPath("/apis/autoscaling").Do(t.Context()).Into(&group); err != nil {
		t.Fatal(err)
	}
	if len(group.Versions) != 1 || group.PreferredVersion.Version != "v1" {
		t.Errorf("the group is %+v", group)
	}
}
