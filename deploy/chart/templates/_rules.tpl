{{/* The rights that the code declares. Made by `make docs`. */}}

{{- define "muster.rules.operator.served" }}
- apiGroups:
  - kubeflow.org
  resources:
  - tfjobs
  - mpijobs
  - pytorchjobs
  - jaxjobs
  verbs:
  - get
  - list
  - watch
  - delete
- apiGroups:
  - kubeflow.org
  resources:
  - tfjobs/status
  - mpijobs/status
  - pytorchjobs/status
  - jaxjobs/status
  verbs:
  - patch
- apiGroups:
  - ''
  resources:
  - pods
  - services
  verbs:
  - get
  - list
  - watch
  - create
  - patch
  - delete
- apiGroups:
  - ''
  resources:
  - events
  verbs:
  - create
  - patch
- apiGroups:
  - ''
  resources:
  - resourcequotas
  verbs:
  - list
  - watch
- apiGroups:
  - scheduling.k8s.io
  - scheduling.volcano.sh
  - scheduling.x-k8s.io
  - scheduling.incubator.k8s.io
  resources:
  - podgroups
  verbs:
  - get
  - list
  - watch
  - create
  - patch
  - delete
- apiGroups:
  - policy
  resources:
  - poddisruptionbudgets
  verbs:
  - get
  - list
  - watch
  - create
  - patch
  - delete
- apiGroups:
  - ''
  resources:
  - configmaps
  - secrets
  - serviceaccounts
  verbs:
  - get
  - list
  - watch
  - create
  - patch
- apiGroups:
  - rbac.authorization.k8s.io
  resources:
  - roles
  - rolebindings
  verbs:
  - get
  - list
  - watch
  - create
  - patch
- apiGroups:
  - ''
  resources:
  - pods/exec
  verbs:
  - create
  - get
- apiGroups:
  - kubeflow.org
  resources:
  - tfjobs/finalizers
  - mpijobs/finalizers
  - pytorchjobs/finalizers
  - jaxjobs/finalizers
  verbs:
  - update
- apiGroups:
  - ''
  resources:
  - configmaps
  - secrets
  - serviceaccounts
  verbs:
  - delete
- apiGroups:
  - rbac.authorization.k8s.io
  resources:
  - roles
  - rolebindings
  verbs:
  - delete
{{- end }}

{{- define "muster.rules.operator.cluster" }}
- apiGroups:
  - scheduling.k8s.io
  resources:
  - priorityclasses
  verbs:
  - list
  - watch
{{- end }}

{{- define "muster.rules.operator.leases" }}
- apiGroups:
  - coordination.k8s.io
  resources:
  - leases
  verbs:
  - create
- apiGroups:
  - coordination.k8s.io
  resources:
  - leases
  resourceNames:
  - muster-operator
  verbs:
  - get
  - update
{{- end }}

{{- define "muster.rules.scheduler.served" }}
- apiGroups:
  - ''
  resources:
  - pods
  verbs:
  - get
  - list
  - watch
  - delete
- apiGroups:
  - ''
  resources:
  - pods/binding
  verbs:
  - create
- apiGroups:
  - ''
  resources:
  - pods/status
  verbs:
  - patch
- apiGroups:
  - ''
  resources:
  - persistentvolumeclaims
  verbs:
  - list
  - watch
  - patch
- apiGroups:
  - policy
  resources:
  - poddisruptionbudgets
  verbs:
  - list
  - watch
- apiGroups:
  - scheduling.k8s.io
  - scheduling.volcano.sh
  - scheduling.incubator.k8s.io
  - scheduling.sigs.dev
  - scheduling.x-k8s.io
  resources:
  - podgroups
  verbs:
  - list
  - watch
- apiGroups:
  - scheduling.k8s.io
  - scheduling.volcano.sh
  - scheduling.incubator.k8s.io
  - scheduling.sigs.dev
  - scheduling.x-k8s.io
  resources:
  - podgroups/status
  verbs:
  - patch
- apiGroups:
  - ''
  resources:
  - events
  verbs:
  - create
  - patch
{{- end }}

{{- define "muster.rules.scheduler.cluster" }}
- apiGroups:
  - ''
  resources:
  - nodes
  - namespaces
  verbs:
  - list
  - watch
- apiGroups:
  - ''
  resources:
  - persistentvolumes
  verbs:
  - list
  - watch
  - patch
- apiGroups:
  - storage.k8s.io
  resources:
  - storageclasses
  - csinodes
  verbs:
  - list
  - watch
- apiGroups:
  - scheduling.k8s.io
  resources:
  - priorityclasses
  verbs:
  - list
  - watch
- apiGroups:
  - topology.volcano.sh
  resources:
  - hypernodes
  verbs:
  - list
  - watch
- apiGroups:
  - coordination.k8s.io
  resources:
  - leases
  verbs:
  - list
{{- end }}

{{- define "muster.rules.scheduler.leases" }}
- apiGroups:
  - coordination.k8s.io
  resources:
  - leases
  verbs:
  - create
- apiGroups:
  - coordination.k8s.io
  resources:
  - leases
  resourceNames:
  - muster-scheduler
  verbs:
  - get
  - update
- apiGroups:
  - coordination.k8s.io
  resources:
  - leases
  resourceNames:
  {{- range .Values.scheduler.names }}
  - muster-scheduler.{{ regexReplaceAll "[^a-z0-9-]" (lower .) "-" | trimAll "-" }}
  {{- end }}
  verbs:
  - patch
- apiGroups:
  - ''
  resources:
  - configmaps
  verbs:
  - create
- apiGroups:
  - ''
  resources:
  - configmaps
  resourceNames:
  - muster-line
  verbs:
  - patch
{{- end }}

{{- define "muster.rules.dashboard.served" }}
- apiGroups:
  - kubeflow.org
  resources:
  - tfjobs
  - mpijobs
  - pytorchjobs
  - jaxjobs
  verbs:
  - get
  - list
  - watch
- apiGroups:
  - ''
  resources:
  - pods
  verbs:
  - get
  - list
  - watch
- apiGroups:
  - ''
  resources:
  - pods/log
  verbs:
  - get
- apiGroups:
  - ''
  resources:
  - events
  verbs:
  - list
  - watch
- apiGroups:
  - metrics.k8s.io
  resources:
  - pods
  verbs:
  - list
{{- end }}

{{- define "muster.rules.dashboard.cluster" }}
- apiGroups:
  - ''
  resources:
  - nodes
  verbs:
  - list
  - watch
{{- end }}

{{- define "muster.rules.dashboard.leases" }}
- apiGroups:
  - ''
  resources:
  - configmaps
  resourceNames:
  - muster-line
  verbs:
  - get
  - list
  - watch
{{- end }}

{{- define "muster.rules.dashboard-edit.served" }}
- apiGroups:
  - kubeflow.org
  resources:
  - tfjobs
  - mpijobs
  - pytorchjobs
  - jaxjobs
  verbs:
  - create
  - patch
  - delete
- apiGroups:
  - ''
  resources:
  - namespaces
  verbs:
  - get
- apiGroups:
  - ''
  resources:
  - pods/proxy
  verbs:
  - get
- apiGroups:
  - ''
  resources:
  - configmaps
  verbs:
  - get
  - list
  - watch
  - create
  - patch
  - delete
- apiGroups:
  - batch
  resources:
  - jobs
  verbs:
  - create
  - delete
- apiGroups:
  - ''
  resources:
  - pods
  verbs:
  - create
  - delete
- apiGroups:
  - ''
  resources:
  - pods/exec
  verbs:
  - create
  - get
{{- end }}

{{- define "muster.rules.users.view.jobs" }}
- apiGroups:
  - kubeflow.org
  resources:
  - tfjobs
  - mpijobs
  - pytorchjobs
  - jaxjobs
  verbs:
  - get
  - list
  - watch
{{- end }}

{{- define "muster.rules.users.view.gangs" }}
- apiGroups:
  - scheduling.k8s.io
  - scheduling.volcano.sh
  - scheduling.incubator.k8s.io
  - scheduling.sigs.dev
  - scheduling.x-k8s.io
  resources:
  - podgroups
  verbs:
  - get
  - list
  - watch
{{- end }}

{{- define "muster.rules.users.edit.jobs" }}
- apiGroups:
  - kubeflow.org
  resources:
  - tfjobs
  - mpijobs
  - pytorchjobs
  - jaxjobs
  verbs:
  - create
  - update
  - patch
  - delete
  - deletecollection
{{- end }}

{{- define "muster.rules.users.edit.gangs" }}
- apiGroups:
  - scheduling.k8s.io
  - scheduling.volcano.sh
  - scheduling.incubator.k8s.io
  - scheduling.sigs.dev
  - scheduling.x-k8s.io
  resources:
  - podgroups
  verbs:
  - create
  - update
  - patch
  - delete
  - deletecollection
{{- end }}
