{{- define "kms.name" -}}
{{ .Release.Name | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- /* Labels that select the pods. A Deployment's selector cannot change. */}}
{{- define "kms.selector" -}}
app.kubernetes.io/name: {{ include "kms.name" . }}
{{- end }}

{{- define "kms.labels" -}}
{{ include "kms.selector" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{- /* Secret files that only the service's own user may read: their folder in the container, by name. */}}
{{- define "kms.kekFile" -}}
{{ get (dict "file" "kek" "pkcs11" "pin" "transit" "token") .Values.kek.backend }}
{{- end }}

{{- /* Versions of the Secrets, so that an upgrade starts other pods after a change. Outside of a cluster there are none. */}}
{{- define "kms.secretVersions" -}}
{{- range list .Values.kek.secret .Values.database.passwordSecret .Values.tls.secret }}
{{- with lookup "v1" "Secret" $.Release.Namespace . }}
{{ .metadata.uid }} {{ .metadata.resourceVersion }}
{{- end }}
{{- end }}
{{- end }}

{{- /* Port of a URL, or the given one. */}}
{{- define "kms.port" -}}
{{ (urlParse .url).host | splitList ":" | last | regexFind "^[0-9]+$" | default .default }}
{{- end }}
