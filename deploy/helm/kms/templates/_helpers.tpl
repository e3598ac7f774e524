{{- define "kms.name" -}}
{{ .Release.Name | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- define "kms.labels" -}}
app.kubernetes.io/name: {{ include "kms.name" . }}
{{- end }}

{{- /* Secret files that only the service's own user may read: their folder in the container, by name. */}}
{{- define "kms.kekFile" -}}
{{ get (dict "file" "kek" "pkcs11" "pin" "transit" "token") .Values.kek.backend }}
{{- end }}
