{{/* The parts that all components have. Each template takes a dict: root, component, values. */}}

{{- define "muster.labels" -}}
app.kubernetes.io/name: muster-{{ .component }}
app.kubernetes.io/part-of: muster
{{- end }}

{{- define "muster.metadata" -}}
name: muster-{{ .component }}
namespace: {{ .namespace }}
labels:
  {{- include "muster.labels" . | nindent 2 }}
{{- end }}

{{- define "muster.subject" -}}
kind: ServiceAccount
name: muster-{{ .component }}
namespace: {{ .root.Release.Namespace }}
{{- end }}

{{- define "muster.deployment" -}}
{{- $root := .root.Values }}
apiVersion: apps/v1
kind: Deployment
metadata:
  {{- include "muster.metadata" . | nindent 2 }}
spec:
  replicas: {{ .values.replicas }}
  selector:
    matchLabels:
      app.kubernetes.io/name: muster-{{ .component }}
  template:
    metadata:
      labels:
        {{- include "muster.labels" . | nindent 8 }}
    spec:
      serviceAccountName: muster-{{ .component }}
      securityContext:
        runAsNonRoot: true
        seccompProfile:
          type: RuntimeDefault
      containers:
      - name: {{ .component }}
        image: {{ required "image is required: build one with deploy/Containerfile" $root.image | quote }}
        imagePullPolicy: {{ $root.imagePullPolicy }}
        args:
        - {{ .component }}
        {{- if ne .component "dashboard" }}
        - --leader-elect
        {{- end }}
        - --log-format=json
        - --metrics-host=
        - --metrics-port={{ $root.metrics.port }}
        {{- range .args }}
        - {{ . | quote }}
        {{- end }}
        {{- range .values.extraArgs }}
        - {{ . | quote }}
        {{- end }}
        env:
        - name: HOME
          value: /tmp
        ports:
        - name: metrics
          containerPort: {{ $root.metrics.port }}
        {{- if eq .component "dashboard" }}
        - name: http
          containerPort: {{ .values.port }}
        {{- end }}
        livenessProbe:
          httpGet:
            path: /healthz
            port: metrics
          initialDelaySeconds: 10
          failureThreshold: 6
        readinessProbe:
          httpGet:
            path: /readyz
            port: metrics
          periodSeconds: 5
        securityContext:
          allowPrivilegeEscalation: false
          capabilities:
            drop:
            - ALL
          readOnlyRootFilesystem: true
        volumeMounts:
        - name: tmp
          mountPath: /tmp
        {{- if .settings }}
        - name: settings
          mountPath: /etc/muster
          readOnly: true
        {{- end }}
        {{- if eq .component "dashboard" }}
        - name: authority
          mountPath: /var/run/secrets/kubernetes.io/serviceaccount
          readOnly: true
        {{- end }}
        {{- if or .values.resources.requests .values.resources.limits }}
        resources:
          {{- with .values.resources.requests }}
          requests:
            {{- toYaml . | nindent 12 }}
          {{- end }}
          {{- with .values.resources.limits }}
          limits:
            {{- toYaml . | nindent 12 }}
          {{- end }}
        {{- end }}
      volumes:
      - name: tmp
        emptyDir:
          sizeLimit: 64Mi
      {{- if .settings }}
      - name: settings
        configMap:
          name: muster-{{ .component }}
      {{- end }}
      {{- if eq .component "dashboard" }}
      - name: authority
        configMap:
          name: kube-root-ca.crt
      {{- end }}
      topologySpreadConstraints:
      - maxSkew: 1
        topologyKey: kubernetes.io/hostname
        whenUnsatisfiable: ScheduleAnyway
        labelSelector:
          matchLabels:
            app.kubernetes.io/name: muster-{{ .component }}
      {{- with $root.imagePullSecrets }}
      imagePullSecrets:
      {{- range . }}
      - name: {{ . }}
      {{- end }}
      {{- end }}
      {{- with $root.nodeSelector }}
      nodeSelector:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with $root.tolerations }}
      tolerations:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with $root.priorityClassName }}
      priorityClassName: {{ . }}
      {{- end }}
{{- end }}

{{- define "muster.around" -}}
{{- $root := .root.Values }}
{{- $pages := eq .component "dashboard" }}
{{- if or $pages $root.metrics.service }}
---
apiVersion: v1
kind: Service
metadata:
  {{- include "muster.metadata" . | nindent 2 }}
  {{- if $root.metrics.service }}
  annotations:
    prometheus.io/port: {{ $root.metrics.port | quote }}
    prometheus.io/scrape: "true"
  {{- end }}
spec:
  selector:
    app.kubernetes.io/name: muster-{{ .component }}
  {{- if $pages }}
  sessionAffinity: ClientIP
  sessionAffinityConfig:
    clientIP:
      timeoutSeconds: 43200
  {{- end }}
  ports:
  {{- if $pages }}
  - name: http
    port: {{ .values.port }}
    targetPort: http
  {{- end }}
  {{- if $root.metrics.service }}
  - name: metrics
    port: {{ $root.metrics.port }}
    targetPort: metrics
  {{- end }}
{{- end }}
{{- if $root.podDisruptionBudget }}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  {{- include "muster.metadata" . | nindent 2 }}
spec:
  maxUnavailable: 1
  selector:
    matchLabels:
      app.kubernetes.io/name: muster-{{ .component }}
{{- end }}
{{- if $root.networkPolicy }}
---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata:
  {{- include "muster.metadata" . | nindent 2 }}
spec:
  podSelector:
    matchLabels:
      app.kubernetes.io/name: muster-{{ .component }}
  policyTypes:
  - Ingress
  ingress:
  - ports:
    - protocol: TCP
      port: metrics
    {{- if $pages }}
    - protocol: TCP
      port: http
    {{- end }}
{{- end }}
{{- end }}

{{- define "muster.cluster-role" -}}
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: muster-{{ .component }}
  labels:
    {{- include "muster.labels" . | nindent 4 }}
rules:
{{ .rules }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata:
  name: muster-{{ .component }}
  labels:
    {{- include "muster.labels" . | nindent 4 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: ClusterRole
  name: muster-{{ .component }}
subjects:
- {{ include "muster.subject" . | nindent 2 | trim }}
{{- end }}

{{- define "muster.role" -}}
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata:
  {{- include "muster.metadata" . | nindent 2 }}
rules:
{{ .rules }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata:
  {{- include "muster.metadata" . | nindent 2 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: Role
  name: muster-{{ .component }}
subjects:
- {{ include "muster.subject" . | nindent 2 | trim }}
{{- end }}

{{- define "muster.account" -}}
apiVersion: v1
kind: ServiceAccount
metadata:
  {{- include "muster.metadata" . | nindent 2 }}
{{- if eq .component "dashboard" }}
automountServiceAccountToken: false
{{- end }}
{{- end }}
