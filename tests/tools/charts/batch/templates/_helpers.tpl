{{- define "batch.hook" -}}
apiVersion: batch/v1
kind: Job
metadata:
  name: {{ .root.Release.Name }}-{{ .hook }}
  annotations:
    "helm.sh/hook": {{ .hook }}
    "helm.sh/hook-weight": "{{ .weight }}"
    "helm.sh/hook-delete-policy": {{ .policy }}
spec:
  backoffLimit: 0
  template:
    spec:
      restartPolicy: Never
      containers:
        - name: hook
          image: busybox:1
          command: [sh, -c, "echo {{ .hook }} of {{ .root.Release.Name }} revision {{ .root.Release.Revision }}"]
{{- end }}
