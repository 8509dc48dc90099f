package main

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/pager"
	watchtools "k8s.io/client-go/tools/watch"

	"k8s.io/apimachinery/pkg/runtime"
)

const resync = time.Second

// counter counts the notifications of one informer.
type counter struct{ added, updated, resynced, deleted atomic.Int32 }

func (c *counter) OnAdd(any, bool) { c.added.Add(1) }
func (c *counter) OnDelete(any)    { c.deleted.Add(1) }
func (c *counter) OnUpdate(before, after any) {
	one, first := before.(meta.Object)
	other, second := after.(meta.Object)
	if first && second && one.GetResourceVersion() == other.GetResourceVersion() {
		c.resynced.Add(1)
		return
	}
	c.updated.Add(1)
}

func configMap(name string) *core.ConfigMap {
	return &core.ConfigMap{
		ObjectMeta: meta.ObjectMeta{Name: name, Labels: map[string]string{"from": "go"}},
		Data:       map[string]string{"k": "v"},
	}
}

func shareInformers(ctx context.Context, c *cluster) error {
	factory := informers.NewSharedInformerFactoryWithOptions(
		c.typed, resync, informers.WithNamespace(c.namespace))
	count := &counter{}
	maps := factory.Core().V1().ConfigMaps()
	if _, err := maps.Informer().AddEventHandler(count); err != nil {
		return err
	}
	factory.Core().V1().Pods().Informer()
	factory.Core().V1().Services().Informer()
	factory.Core().V1().Secrets().Informer()
	factory.Apps().V1().Deployments().Informer()
	factory.Apps().V1().StatefulSets().Informer()
	factory.Batch().V1().Jobs().Informer()
	factory.Batch().V1().CronJobs().Informer()
	factory.Coordination().V1().Leases().Informer()
	factory.Discovery().V1().EndpointSlices().Informer()
	factory.Policy().V1().PodDisruptionBudgets().Informer()
	stop := make(chan struct{})
	defer func() { close(stop); factory.Shutdown() }()
	factory.Start(stop)
	for kind, synced := range factory.WaitForCacheSync(ctx.Done()) {
		if !synced {
			return fmt.Errorf("%v did not sync", kind)
		}
	}
	before := count.added.Load()
	api := c.typed.CoreV1().ConfigMaps(c.namespace)
	for _, name := range []string{"shared-a", "shared-b", "shared-c"} {
		if _, err := api.Create(ctx, configMap(name), meta.CreateOptions{}); err != nil {
			return err
		}
	}
	changed := configMap("shared-a")
	changed.Data["k"] = "w"
	if _, err := api.Update(ctx, changed, meta.UpdateOptions{}); err != nil {
		return err
	}
	if err := api.Delete(ctx, "shared-c", meta.DeleteOptions{}); err != nil {
		return err
	}
	err := await(ctx, "additions, an update, a deletion and a resync", func() bool {
		return count.added.Load() >= before+3 && count.updated.Load() >= 1 &&
			count.deleted.Load() == 1 && count.resynced.Load() >= 1
	})
	if err != nil {
		return fmt.Errorf("%w: %d, %d, %d, %d", err, count.added.Load(), count.updated.Load(),
			count.deleted.Load(), count.resynced.Load())
	}
	listed, err := maps.Lister().ConfigMaps(c.namespace).List(labels.SelectorFromSet(labels.Set{"from": "go"}))
	if err != nil || len(listed) != 2 {
		return fmt.Errorf("the lister has %d objects: %w", len(listed), err)
	}
	return nil
}

func informOfMetadata(ctx context.Context, c *cluster) error {
	factory := metadatainformer.NewFilteredSharedInformerFactory(c.metadata, 0, c.namespace, nil)
	resource := schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	informer := factory.ForResource(resource).Informer()
	stop := make(chan struct{})
	defer close(stop)
	factory.Start(stop)
	if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
		return errors.New("the informer did not sync")
	}
	created := configMap("metadata")
	if _, err := c.typed.CoreV1().ConfigMaps(c.namespace).Create(ctx, created, meta.CreateOptions{}); err != nil {
		return err
	}
	return await(ctx, "the metadata of a new object", func() bool {
		found, exists, err := informer.GetStore().GetByKey(c.namespace + "/metadata")
		if err != nil || !exists {
			return false
		}
		partial, ok := found.(*meta.PartialObjectMetadata)
		return ok && partial.Labels["from"] == "go" && partial.UID != ""
	})
}

var jobs = schema.GroupVersionResource{Group: "kubeflow.org", Version: "v1", Resource: "tfjobs"}

func job(name string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "kubeflow.org/v1", "kind": "TFJob",
		"metadata": map[string]any{"name": name},
		"spec":     map[string]any{"runPolicy": map[string]any{"suspend": true}},
	}}
}

func informOfCustomObjects(ctx context.Context, c *cluster) error {
	factory := dynamicinformer.NewFilteredDynamicSharedInformerFactory(c.dynamic, 0, c.namespace, nil)
	count := &counter{}
	informer := factory.ForResource(jobs).Informer()
	if _, err := informer.AddEventHandler(count); err != nil {
		return err
	}
	stop := make(chan struct{})
	defer close(stop)
	factory.Start(stop)
	if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
		return errors.New("the informer did not sync")
	}
	api := c.dynamic.Resource(jobs).Namespace(c.namespace)
	if _, err := api.Create(ctx, job("seen"), meta.CreateOptions{}); err != nil {
		return err
	}
	applied := job("seen")
	applied.SetLabels(map[string]string{"from": "go"})
	if _, err := api.Apply(ctx, "seen", applied, meta.ApplyOptions{FieldManager: "go", Force: true}); err != nil {
		return err
	}
	if err := api.Delete(ctx, "seen", meta.DeleteOptions{}); err != nil {
		return err
	}
	return await(ctx, "an addition, an update and a deletion", func() bool {
		return count.added.Load() == 1 && count.updated.Load() >= 1 && count.deleted.Load() == 1
	})
}

// resumeWatch follows a collection with a watch that the server ends after one second.
func resumeWatch(ctx context.Context, c *cluster) error {
	api := c.typed.CoreV1().ConfigMaps(c.namespace)
	listed, err := api.List(ctx, meta.ListOptions{})
	if err != nil {
		return err
	}
	second := int64(1)
	opened := 0
	watcher, err := watchtools.NewRetryWatcherWithContext(ctx, listed.ResourceVersion, &cache.ListWatch{
		WatchFuncWithContext: func(ctx context.Context, options meta.ListOptions) (watch.Interface, error) {
			options.TimeoutSeconds = &second
			opened++
			if opened == 2 { // between two watches
				if _, err := api.Create(ctx, configMap("between"), meta.CreateOptions{}); err != nil {
					return nil, err
				}
			}
			return api.Watch(ctx, options)
		},
	})
	if err != nil {
		return err
	}
	defer watcher.Stop()
	for {
		select {
		case event := <-watcher.ResultChan():
			if object, ok := event.Object.(*core.ConfigMap); ok && object.Name == "between" {
				if event.Type != watch.Added || opened < 2 {
					return fmt.Errorf("%s in watch %d", event.Type, opened)
				}
				return nil
			}
		case <-ctx.Done():
			return fmt.Errorf("no event in %d watches", opened)
		}
	}
}

func readPages(ctx context.Context, c *cluster) error {
	api := c.typed.CoreV1().ConfigMaps(c.namespace)
	whole, err := api.List(ctx, meta.ListOptions{})
	if err != nil {
		return err
	}
	pages := 0
	paged := pager.New(func(ctx context.Context, options meta.ListOptions) (runtime.Object, error) {
		pages++
		return api.List(ctx, options)
	})
	paged.PageSize = 2
	seen := 0
	err = paged.EachListItem(ctx, meta.ListOptions{}, func(runtime.Object) error { seen++; return nil })
	if err != nil {
		return err
	}
	if seen != len(whole.Items) || pages < 2 {
		return fmt.Errorf("%d of %d objects in %d pages", seen, len(whole.Items), pages)
	}
	return nil
}
