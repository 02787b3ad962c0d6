{{- /* Names and what every pod has. Tiers are called by their command. */ -}}
{{- define "spindle.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 50 | trimSuffix "-" -}}
{{- end -}}

{{- define "spindle.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 50 | trimSuffix "-" -}}
{{- else if contains (include "spindle.name" .) .Release.Name -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name (include "spindle.name" .) | trunc 50 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- /* Labels by which things of one tier find each other: of (dict "root" $ "tier" name). They never change. */ -}}
{{- define "spindle.selector" -}}
app.kubernetes.io/name: {{ include "spindle.name" .root }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .tier }}
{{- end -}}

{{- define "spindle.labels" -}}
{{ include "spindle.selector" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
app.kubernetes.io/part-of: spindle
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version | replace "+" "_" }}
{{- end -}}

{{- /* What has to fit together, said before anything is made. */ -}}
{{- define "spindle.check" -}}
{{- if not .Values.kafka.brokers }}{{ fail "kafka.brokers is needed: host:port of some brokers" }}{{ end }}
{{- if not .Values.clickhouse.url }}{{ fail "clickhouse.url is needed, such as http://clickhouse:8123" }}{{ end }}
{{- if and .Values.kafka.properties .Values.kafka.existingSecret }}
{{- fail "kafka.properties and kafka.existingSecret are two places for the same: put all of them into the Secret" }}
{{- end }}
{{- if gt (int .Values.kafka.minInsyncReplicas) (int .Values.kafka.replication) }}
{{- fail "kafka.minInsyncReplicas is more than kafka.replication: no record would ever be accepted" }}
{{- end }}
{{- $scaling := .Values.processor.autoscaling }}
{{- $most := ternary $scaling.maxReplicas .Values.processor.replicas $scaling.enabled | int }}
{{- if gt (mul $most .Values.processor.workers) (int .Values.kafka.partitions) }}
{{- fail (printf "%d processors of %d workers are more than kafka.partitions (%d): some would have nothing to do" $most (int .Values.processor.workers) (int .Values.kafka.partitions)) }}
{{- end }}
{{- end -}}
