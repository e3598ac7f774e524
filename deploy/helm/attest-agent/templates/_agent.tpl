{{- define "attest-agent.selector" -}}
app.kubernetes.io/name: {{ .Release.Name }}
{{- end }}

{{- define "attest-agent.labels" -}}
app.kubernetes.io/name: {{ .Release.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{- /* Name of the settings and of the claim. A pod with a sidecar belongs to another chart, whose objects have the release's name. */}}
{{- define "attest-agent.name" -}}
{{ .Release.Name }}{{ if eq .Values.mode "sidecar" }}-agent{{ end }}
{{- end }}

{{- /* Content of the ConfigMap. Settings are read at the start, so an annotation with its hash starts other pods. */}}
{{- define "attest-agent.settings" -}}
attest.toml: |
  [kms]
  url = {{ .Values.kms.url | quote }}
  key = {{ .Values.kms.identity | quote }}
  tls_ca = "/etc/kms-ca/ca.pem"
agent.toml: |
  [socket]
  mode = "0666"
  {{- if eq .Values.mode "sidecar" }}
  unchecked_directory = "an emptyDir that every other container of the pod mounts read-only"
  {{- end }}
  {{- .Values.rules | trim | nindent 2 }}
{{- end }}

{{- /* The agent's container: of the DaemonSet's pods, or under initContainers of a pod of your own. */}}
{{- define "attest-agent.container" -}}
- name: agent
  image: {{ .Values.image | quote }}
  {{- if eq .Values.mode "sidecar" }}
  # A native sidecar: it starts before the other containers, which wait for its start-up probe, and ends after them.
  restartPolicy: Always
  {{- end }}
  command: [/opt/kms/bin/attest]
  args: [agent, --socket, {{ .Values.socketDirectory }}/agent.sock, --rules, /etc/attest/agent.toml, --config, /etc/attest/attest.toml]
  startupProbe:
    exec: {command: [/opt/kms/bin/attest, agent, --socket, {{ .Values.socketDirectory }}/agent.sock, --check, --quiet]}
    periodSeconds: 2
    timeoutSeconds: 5
    failureThreshold: 60
  livenessProbe:
    exec: {command: [/opt/kms/bin/attest, agent, --socket, {{ .Values.socketDirectory }}/agent.sock, --check, --quiet]}
    periodSeconds: 30
    timeoutSeconds: 10
  securityContext:
    # The kernel gives each new request of configfs to root: only root can fill it, and needs no capability for that.
    runAsNonRoot: false
    runAsUser: 0
    runAsGroup: 0
    allowPrivilegeEscalation: false
    readOnlyRootFilesystem: true
    capabilities: {drop: [ALL]}
    {{- with .Values.seLinuxOptions }}
    seLinuxOptions: {{- toYaml . | nindent 6 }}
    {{- end }}
  resources: {{- toYaml .Values.resources | nindent 4 }}
  volumeMounts:
    - {name: agent-socket, mountPath: {{ .Values.socketDirectory }}}
    - {name: agent-settings, mountPath: /etc/attest, readOnly: true}
    - {name: agent-ca, mountPath: /etc/kms-ca, readOnly: true}
    # Not below /sys, where the default AppArmor profile of containers denies writing.
    - {name: agent-reports, mountPath: /run/configfs/tsm/report}
    {{- if .Values.eventLog }}
    # Not below /sys/firmware, which container runtimes hide.
    - {name: agent-event-log, mountPath: /run/firmware, readOnly: true}
    {{- end }}
    {{- with .Values.volumeMounts }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
{{- end }}

{{- /* Volumes of a pod with the agent. The other containers mount agent-socket read-only. */}}
{{- define "attest-agent.volumes" -}}
{{- if eq .Values.mode "sidecar" -}}
- name: agent-socket
  emptyDir: {medium: Memory, sizeLimit: 1Mi}
{{- else -}}
- name: agent-socket  # of root; no other user can put another socket in its place
  hostPath: {path: {{ .Values.socketDirectory }}, type: DirectoryOrCreate}
{{- end }}
- name: agent-settings
  configMap: {name: {{ include "attest-agent.name" . }}, defaultMode: 292}  # 0444
- name: agent-ca
  configMap: {name: {{ .Values.kms.caConfigMap }}, defaultMode: 292}  # 0444
- name: agent-reports  # where a guest requests reports from its hardware, and no other part of configfs
{{- if eq .Values.mode "sidecar" }}
  persistentVolumeClaim: {claimName: {{ .Values.reportsClaim | default (printf "%s-reports" (include "attest-agent.name" .)) }}}
{{- else }}
  hostPath: {path: /sys/kernel/config/tsm/report, type: Directory}
{{- end }}
{{- if .Values.eventLog }}
- name: agent-event-log  # the event log of a TDX guest's boot
{{- if eq .Values.mode "sidecar" }}
  persistentVolumeClaim: {claimName: {{ .Values.eventLogClaim | default (printf "%s-event-log" (include "attest-agent.name" .)) }}, readOnly: true}
{{- else }}
  hostPath: {path: /sys/firmware/acpi/tables/data, type: Directory}
{{- end }}
{{- end }}
{{- with .Values.volumes }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- /* A folder of each node, as a claim in a namespace whose pods may have no hostPath. */}}
{{- define "attest-agent.claim" -}}
apiVersion: v1
kind: PersistentVolume
metadata:
  name: {{ .namespace }}-{{ .name }}
  labels: {{- include "attest-agent.labels" .root | nindent 4 }}
spec:
  capacity: {storage: 1Mi}
  accessModes: [{{ .mode }}]
  persistentVolumeReclaimPolicy: Retain
  storageClassName: ""
  claimRef: {namespace: {{ .namespace }}, name: {{ .name }}}
  hostPath: {path: {{ .path }}, type: Directory}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata:
  name: {{ .name }}
  namespace: {{ .namespace }}
  labels: {{- include "attest-agent.labels" .root | nindent 4 }}
spec:
  accessModes: [{{ .mode }}]
  storageClassName: ""
  volumeName: {{ .namespace }}-{{ .name }}
  resources: {requests: {storage: 1Mi}}
{{- end }}
