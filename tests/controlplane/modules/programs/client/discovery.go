package main

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/restmapper"
)

// discover reads discovery through the cache that kubectl and controllers use.
func discover(_ context.Context, c *cluster) error {
	cached := memory.NewMemCacheClient(c.typed.Discovery())
	groups, resources, err := cached.ServerGroupsAndResources()
	if err != nil {
		return err
	}
	if len(groups) < 10 || len(resources) < len(groups) {
		return fmt.Errorf("%d groups, %d lists of resources", len(groups), len(resources))
	}
	if _, err := discovery.ServerPreferredNamespacedResources(cached); err != nil {
		return err
	}
	if _, err := cached.OpenAPIV3().Paths(); err != nil {
		return err
	}
	mapper := restmapper.NewDeferredDiscoveryRESTMapper(cached)
	for _, wanted := range []struct{ group, kind, resource, version string }{
		{"", "Pod", "pods", "v1"},
		{"apps", "Deployment", "deployments", "v1"},
		{"batch", "Job", "jobs", "v1"},
		{"kubeflow.org", "TFJob", "tfjobs", "v1"},
	} {
		found, err := mapper.RESTMapping(schema.GroupKind{Group: wanted.group, Kind: wanted.kind})
		if err != nil {
			return err
		}
		if found.Resource.Resource != wanted.resource || found.Resource.Version != wanted.version {
			return fmt.Errorf("%s is %v", wanted.kind, found.Resource)
		}
	}
	short := restmapper.NewShortcutExpander(mapper, cached, nil)
	if got, err := short.ResourceFor(schema.GroupVersionResource{Resource: "deploy"}); err != nil || got.Resource != "deployments" {
		return fmt.Errorf("deploy is %v: %w", got, err)
	}
	mapper.Reset()
	_, err = mapper.KindFor(schema.GroupVersionResource{Resource: "configmaps"})
	return err
}
