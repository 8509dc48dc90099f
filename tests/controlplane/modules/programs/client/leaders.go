package main

import (
	"context"
	"fmt"
	"time"

	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// electLeaders lets the first candidate lead and resign; then the second one leads.
func electLeaders(ctx context.Context, c *cluster) error {
	leading := make(chan string, 2)
	candidate := func(ctx context.Context, name string) <-chan struct{} {
		ended := make(chan struct{})
		lock := &resourcelock.LeaseLock{
			LeaseMeta:  meta.ObjectMeta{Name: "elected", Namespace: c.namespace},
			Client:     c.typed.CoordinationV1(),
			LockConfig: resourcelock.ResourceLockConfig{Identity: name},
		}
		go func() {
			defer close(ended)
			leaderelection.RunOrDie(ctx, leaderelection.LeaderElectionConfig{
				Lock: lock, ReleaseOnCancel: true,
				LeaseDuration: 3 * time.Second, RenewDeadline: 2 * time.Second, RetryPeriod: 200 * time.Millisecond,
				Callbacks: leaderelection.LeaderCallbacks{
					OnStartedLeading: func(context.Context) { leading <- name },
					OnStoppedLeading: func() {},
				},
			})
		}()
		return ended
	}
	firstContext, resign := context.WithCancel(ctx)
	defer resign()
	first := candidate(firstContext, "first")
	if err := expect(ctx, leading, "first"); err != nil {
		return err
	}
	secondContext, end := context.WithCancel(ctx)
	second := candidate(secondContext, "second")
	resign()
	<-first
	err := expect(ctx, leading, "second")
	end()
	<-second
	return err
}

func expect(ctx context.Context, leading <-chan string, wanted string) error {
	select {
	case name := <-leading:
		if name != wanted {
			return fmt.Errorf("%s leads, not %s", name, wanted)
		}
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%s never leads", wanted)
	}
}
