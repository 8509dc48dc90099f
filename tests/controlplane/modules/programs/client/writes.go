package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	events "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	apply "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/kubernetes/scheme"
	recorders "k8s.io/client-go/tools/events"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/client-go/util/retry"
)

func useProtobuf(ctx context.Context, c *cluster) error {
	api := c.protobuf.CoreV1().ConfigMaps(c.namespace)
	created, err := api.Create(ctx, configMap("binary"), meta.CreateOptions{})
	if err != nil {
		return err
	}
	created.Data["k"] = "w"
	if _, err := api.Update(ctx, created, meta.UpdateOptions{}); err != nil {
		return err
	}
	patch := []byte(`{"metadata":{"labels":{"patched":"yes"}}}`)
	if _, err := api.Patch(ctx, "binary", types.StrategicMergePatchType, patch, meta.PatchOptions{}); err != nil {
		return err
	}
	read, err := api.Get(ctx, "binary", meta.GetOptions{})
	if err != nil {
		return err
	}
	if read.Data["k"] != "w" || read.Labels["patched"] != "yes" {
		return fmt.Errorf("it has %v and %v", read.Data, read.Labels)
	}
	return api.DeleteCollection(ctx, meta.DeleteOptions{}, meta.ListOptions{LabelSelector: "patched=yes"})
}

func applyFields(ctx context.Context, c *cluster) error {
	api := c.typed.CoreV1().ConfigMaps(c.namespace)
	wanted := func(value string) *apply.ConfigMapApplyConfiguration {
		return apply.ConfigMap("applied", c.namespace).WithData(map[string]string{"k": value})
	}
	if _, err := api.Apply(ctx, wanted("one"), meta.ApplyOptions{FieldManager: "first"}); err != nil {
		return err
	}
	_, err := api.Apply(ctx, wanted("two"), meta.ApplyOptions{FieldManager: "second"})
	if !errors.IsConflict(err) || len(errorCauses(err)) != 1 {
		return fmt.Errorf("no conflict with one cause: %w", err)
	}
	if _, err := api.Apply(ctx, wanted("two"), meta.ApplyOptions{FieldManager: "second", Force: true}); err != nil {
		return err
	}
	live, err := api.Get(ctx, "applied", meta.GetOptions{})
	if err != nil {
		return err
	}
	extracted, err := apply.ExtractConfigMap(live, "second")
	if err != nil {
		return err
	}
	if live.Data["k"] != "two" || extracted.Data["k"] != "two" {
		return fmt.Errorf("live %v, extracted %v", live.Data, extracted.Data)
	}
	return nil
}

func errorCauses(err error) []meta.StatusCause {
	if status, ok := err.(errors.APIStatus); ok && status.Status().Details != nil {
		return status.Status().Details.Causes
	}
	return nil
}

func retryConflicts(ctx context.Context, c *cluster) error {
	api := c.typed.CoreV1().ConfigMaps(c.namespace)
	stale, err := api.Create(ctx, configMap("contended"), meta.CreateOptions{})
	if err != nil {
		return err
	}
	patch := []byte(`[{"op":"replace","path":"/data/k","value":"other"}]`)
	if _, err := api.Patch(ctx, "contended", types.JSONPatchType, patch, meta.PatchOptions{}); err != nil {
		return err
	}
	tries := 0
	err = retry.RetryOnConflict(retry.DefaultRetry, func() error {
		tries++
		stale.Data["mine"] = "yes"
		_, err := api.Update(ctx, stale, meta.UpdateOptions{})
		if errors.IsConflict(err) {
			fresh, read := api.Get(ctx, "contended", meta.GetOptions{})
			if read != nil {
				return read
			}
			stale = fresh
		}
		return err
	})
	if err == nil && tries != 2 {
		return fmt.Errorf("it took %d tries", tries)
	}
	return err
}

func podSpec(command string) core.PodSpec {
	grace := int64(0)
	return core.PodSpec{
		TerminationGracePeriodSeconds: &grace,
		Containers: []core.Container{{
			Name: "main", Image: "busybox:1", Command: []string{"sh", "-c", command},
		}},
	}
}

func scale(ctx context.Context, c *cluster) error {
	api := c.typed.AppsV1().Deployments(c.namespace)
	one := int32(1)
	marks := map[string]string{"app": "scaled"}
	_, err := api.Create(ctx, &apps.Deployment{
		ObjectMeta: meta.ObjectMeta{Name: "scaled"},
		Spec: apps.DeploymentSpec{
			Replicas: &one,
			Selector: &meta.LabelSelector{MatchLabels: marks},
			Template: core.PodTemplateSpec{
				ObjectMeta: meta.ObjectMeta{Labels: marks}, Spec: podSpec("exec sleep 600"),
			},
		},
	}, meta.CreateOptions{})
	if err != nil {
		return err
	}
	// The controller writes the status of the deployment meanwhile.
	if err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
		wanted, err := api.GetScale(ctx, "scaled", meta.GetOptions{})
		if err != nil {
			return err
		}
		wanted.Spec.Replicas = 2
		_, err = api.UpdateScale(ctx, "scaled", wanted, meta.UpdateOptions{})
		return err
	}); err != nil {
		return err
	}
	if err := await(ctx, "two ready replicas", func() bool {
		found, err := api.Get(ctx, "scaled", meta.GetOptions{})
		return err == nil && found.Status.ReadyReplicas == 2
	}); err != nil {
		return err
	}
	foreground := meta.DeletePropagationForeground
	if err := api.Delete(ctx, "scaled", meta.DeleteOptions{PropagationPolicy: &foreground}); err != nil {
		return err
	}
	return await(ctx, "the end of the deployment and its pods", func() bool {
		_, err := api.Get(ctx, "scaled", meta.GetOptions{})
		return errors.IsNotFound(err)
	})
}

func logAndExec(ctx context.Context, c *cluster) error {
	api := c.typed.CoreV1().Pods(c.namespace)
	pod := &core.Pod{ObjectMeta: meta.ObjectMeta{Name: "talker"}, Spec: podSpec("echo hello; exec sleep 600")}
	if _, err := api.Create(ctx, pod, meta.CreateOptions{}); err != nil {
		return err
	}
	read := func() string {
		stream, err := api.GetLogs("talker", &core.PodLogOptions{}).Stream(ctx)
		if err != nil {
			return ""
		}
		defer stream.Close()
		text, _ := io.ReadAll(stream)
		return string(text)
	}
	if err := await(ctx, "the log", func() bool { return read() == "hello\n" }); err != nil {
		return err
	}
	request := c.typed.CoreV1().RESTClient().Post().Resource("pods").Name("talker").
		Namespace(c.namespace).SubResource("exec").VersionedParams(&core.PodExecOptions{
		Command: []string{"sh", "-c", "cat; exit 3"}, Stdin: true, Stdout: true, Stderr: true,
	}, scheme.ParameterCodec)
	executor, err := remotecommand.NewWebSocketExecutor(c.config, "GET", request.URL().String())
	if err != nil {
		return err
	}
	var output, errors bytes.Buffer // two, because two goroutines write
	err = executor.StreamWithContext(ctx, remotecommand.StreamOptions{
		Stdin: strings.NewReader("typed"), Stdout: &output, Stderr: &errors,
	})
	if err == nil || !strings.Contains(err.Error(), "exit code 3") || output.String() != "typed" {
		return fmt.Errorf("output %q, end %w", output.String(), err)
	}
	return api.Delete(ctx, "talker", meta.DeleteOptions{})
}

func recordEvents(ctx context.Context, c *cluster) error {
	pod := &core.Pod{ObjectMeta: meta.ObjectMeta{Name: "subject", Namespace: c.namespace, UID: "u"}}
	broadcaster := recorders.NewBroadcaster(&recorders.EventSinkImpl{Interface: c.typed.EventsV1()})
	defer broadcaster.Shutdown()
	if err := broadcaster.StartRecordingToSinkWithContext(ctx); err != nil {
		return err
	}
	recorder := broadcaster.NewRecorder(scheme.Scheme, "api-client")
	for range 3 {
		recorder.Eventf(pod, nil, core.EventTypeNormal, "Seen", "Looking", "seen again")
	}
	api := c.typed.EventsV1().Events(c.namespace)
	return await(ctx, "an event that happened three times", func() bool {
		listed, err := api.List(ctx, meta.ListOptions{FieldSelector: "reason=Seen"})
		return err == nil && len(listed.Items) == 1 && counted(listed.Items[0])
	})
}

func counted(event events.Event) bool {
	recent := time.Since(event.EventTime.Time) < time.Minute
	return recent && (event.Series == nil || event.Series.Count >= 2)
}
