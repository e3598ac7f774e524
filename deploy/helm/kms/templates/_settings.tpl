{{- /* The file kms.toml. */}}
{{- define "kms.settings" -}}
origin = {{ .Values.origin | quote }}
profile = "production"
{{- if eq .Values.kek.backend "file" }}
kek_file = "/run/kms/kek"
{{- end }}
rollback_guard = ["file:/var/lib/kms-guard/kms/position.json"]

host = "0.0.0.0"
port = 8750
workers = {{ .Values.workers }}
drain_seconds = {{ .Values.drainSeconds }}
tls_certificate_file = "/run/kms/tls.crt"
tls_key_file = "/run/kms/tls.key"
{{- if ne .Values.tls.minimum "1.3" }}
tls_minimum = {{ .Values.tls.minimum | quote }}
{{- end }}
plain_http = "refuse"

metrics_host = "0.0.0.0"
metrics_port = 9750
log_format = "json"

fetch = {{ .Values.fetch }}
cache_directory = "/var/cache/kms"
{{- with .Values.extraSettings }}
{{- . | trim | nindent 0 }}
{{- end }}
{{- if eq .Values.kek.backend "pkcs11" }}

[kek]
backend = "pkcs11"
module = {{ .Values.kek.pkcs11.module | quote }}
token = {{ .Values.kek.pkcs11.token | quote }}
key = {{ .Values.kek.pkcs11.key | quote }}
pin_file = "/run/kms/pin"
{{- else if eq .Values.kek.backend "transit" }}

[kek]
backend = "transit"
url = {{ .Values.kek.transit.url | quote }}
mount = {{ .Values.kek.transit.mount | quote }}
key = {{ .Values.kek.transit.key | quote }}
token_file = "/run/kms/token"
{{- with .Values.kek.transit.namespace }}
namespace = {{ . | quote }}
{{- end }}
{{- if .Values.kek.transit.ca }}
ca_file = "/run/secrets/kek/ca.crt"
{{- end }}
{{- end }}

[store]
url = {{ .Values.database.url | quote }}
password_file = "/run/kms/database-password"
connections = {{ .Values.database.connections }}
{{- end }}
