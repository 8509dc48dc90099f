// A client as most controllers and operators in Go are: informers, typed and dynamic clients, leader
// election, discovery. Each check prints one line, `ok NAME` or `failed NAME: REASON`.
//
//	api-client KUBECONFIG NAMESPACE
//
// The namespace exists, and the definition of tfjobs.kubeflow.org is installed.
package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

const patience = 20 * time.Second

// cluster has the clients of one API server.
type cluster struct {
	config    *rest.Config
	typed     kubernetes.Interface
	protobuf  kubernetes.Interface
	dynamic   dynamic.Interface
	metadata  metadata.Interface
	namespace string
}

type check struct {
	name string
	run  func(context.Context, *cluster) error
}

var checks = []check{
	{"discovery finds every group and the mapper finds kinds", discover},
	{"shared informers of several kinds see changes and resync", shareInformers},
	{"a metadata informer sees objects without their data", informOfMetadata},
	{"a dynamic informer sees custom objects", informOfCustomObjects},
	{"a watch ends after its time and goes on where it ended", resumeWatch},
	{"lists are read in pages", readPages},
	{"a protobuf client writes and reads", useProtobuf},
	{"an apply conflicts, takes and shares fields", applyFields},
	{"a conflicting update is retried", retryConflicts},
	{"a deployment is scaled and its pods get ready", scale},
	{"a pod's log is read and a command runs in it", logAndExec},
	{"events are recorded and counted", recordEvents},
	{"one of two candidates leads, then the other", electLeaders},
}

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: api-client KUBECONFIG NAMESPACE")
		os.Exit(2)
	}
	c, err := connect(os.Args[1], os.Args[2])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	failed := false
	for _, check := range checks {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		err := check.run(ctx, c)
		cancel()
		if err != nil {
			failed = true
			fmt.Printf("failed %s: %v\n", check.name, err)
			continue
		}
		fmt.Printf("ok %s\n", check.name)
	}
	if failed {
		os.Exit(1)
	}
}

func connect(kubeconfig, namespace string) (*cluster, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, err
	}
	config.QPS, config.Burst = 200, 200
	c := &cluster{config: config, namespace: namespace}
	if c.typed, err = kubernetes.NewForConfig(config); err != nil {
		return nil, err
	}
	binary := rest.CopyConfig(config)
	binary.ContentType = "application/vnd.kubernetes.protobuf"
	binary.AcceptContentTypes = "application/vnd.kubernetes.protobuf,application/json"
	if c.protobuf, err = kubernetes.NewForConfig(binary); err != nil {
		return nil, err
	}
	if c.dynamic, err = dynamic.NewForConfig(config); err != nil {
		return nil, err
	}
	c.metadata, err = metadata.NewForConfig(config)
	return c, err
}

// await polls until the condition holds or the context ends.
func await(ctx context.Context, what string, holds func() bool) error {
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for !holds() {
		select {
		case <-ctx.Done():
			return fmt.Errorf("waited in vain for %s", what)
		case <-ticker.C:
		}
	}
	return nil
}
