{{- /* Settings as variables: of (dict "root" $ "own" settings-of-the-tier). */ -}}
{{- define "spindle.settings" -}}
{{- $kafka := .root.Values.kafka -}}
{{- $clickhouse := .root.Values.clickhouse -}}
{{- $given := dict
  "kafka.brokers" $kafka.brokers
  "kafka.topic_prefix" $kafka.topicPrefix
  "kafka.partitions" $kafka.partitions
  "kafka.replication" $kafka.replication
  "kafka.min_insync_replicas" $kafka.minInsyncReplicas
  "kafka.retention" $kafka.retention
  "kafka.dead_letter_retention" $kafka.deadLetterRetention
  "kafka.max_record_bytes" $kafka.maxRecordBytes
  "kafka.compression" $kafka.compression
  "kafka.session_timeout" $kafka.sessionTimeout
  "clickhouse.url" $clickhouse.url
  "clickhouse.user" $clickhouse.user
  "clickhouse.database" $clickhouse.database
  "clickhouse.cluster" $clickhouse.cluster
  "clickhouse.compression" $clickhouse.compression
  "clickhouse.insert_timeout" $clickhouse.insertTimeout
-}}
{{- if $kafka.properties }}
{{- $_ := set $given "kafka.properties" (toJson $kafka.properties) }}
{{- end }}
{{- range $key, $value := merge (dict) .own .root.Values.settings $given }}
- name: SPINDLE_{{ $key | replace "." "__" | upper }}
  {{- /* Whole numbers come as floats from files of values. */}}
  value: {{ kindIs "float64" $value | ternary (printf "%v" (int64 $value)) (printf "%v" $value) | quote }}
{{- end }}
{{- with $kafka.existingSecret }}
- name: SPINDLE_KAFKA__PROPERTIES
  valueFrom: {secretKeyRef: {name: {{ . }}, key: {{ $kafka.existingSecretKey }}}}
{{- end }}
{{- with $clickhouse.existingSecret }}
- name: SPINDLE_CLICKHOUSE__PASSWORD
  valueFrom: {secretKeyRef: {name: {{ . }}, key: {{ $clickhouse.existingSecretKey }}}}
{{- end }}
{{- with .root.Values.monitoring.token }}
{{- if .existingSecret }}
- name: SPINDLE_METRICS__TOKEN
  valueFrom: {secretKeyRef: {name: {{ .existingSecret }}, key: {{ .existingSecretKey }}}}
{{- end }}
{{- end }}
{{- end -}}

{{- define "spindle.firstCredentials" -}}
{{- with .Values.credentials }}
{{- if .existingSecret }}
- name: SPINDLE_API_KEY
  valueFrom: {secretKeyRef: {name: {{ .existingSecret }}, key: {{ .apiKeyKey }}}}
- name: SPINDLE_ADMIN_TOKEN
  valueFrom: {secretKeyRef: {name: {{ .existingSecret }}, key: {{ .adminTokenKey }}}}
{{- end }}
{{- end }}
{{- end -}}

{{- define "spindle.image" -}}
{{- $tagged := printf "%s:%s" .Values.image.repository (default .Chart.AppVersion .Values.image.tag) -}}
{{- with .Values.image.digest }}{{ printf "%s@%s" $tagged . }}{{ else }}{{ $tagged }}{{ end -}}
{{- end -}}

{{- define "spindle.podSecurity" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
fsGroup: 65532
seccompProfile: {type: RuntimeDefault}
{{- end -}}

{{- define "spindle.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end -}}

{{- define "spindle.mounts" -}}
- {name: data, mountPath: /var/lib/spindle}
{{- if .Values.kafka.tlsSecret }}
- {name: kafka-tls, mountPath: /etc/spindle/kafka, readOnly: true}
{{- end }}
{{- end -}}

{{- define "spindle.kafkaTlsVolume" -}}
{{- with .Values.kafka.tlsSecret }}
- name: kafka-tls
  secret: {secretName: {{ . }}, defaultMode: 0440}
{{- end }}
{{- end -}}

{{- /* What is the same in the pods of all tiers: of (dict "root" $ "tier" name "of" values-of-the-tier). */ -}}
{{- define "spindle.pod" -}}
{{- $root := .root -}}
{{- with $root.Values.serviceAccountName }}
serviceAccountName: {{ . }}
{{- end }}
automountServiceAccountToken: false
enableServiceLinks: false
{{- with $root.Values.image.pullSecrets }}
imagePullSecrets: {{ toJson . }}
{{- end }}
securityContext: {{- include "spindle.podSecurity" $root | nindent 2 }}
terminationGracePeriodSeconds: {{ .of.terminationGracePeriodSeconds }}
{{- with .of.nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .of.tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .of.affinity }}
affinity: {{- toYaml . | nindent 2 }}
{{- end }}
# One node or zone lost should not take a whole tier; where there is only one, they share it.
topologySpreadConstraints:
  {{- range list "topology.kubernetes.io/zone" "kubernetes.io/hostname" }}
  - maxSkew: 1
    topologyKey: {{ . }}
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels: {{- include "spindle.selector" $ | nindent 8 }}
  {{- end }}
{{- end -}}

{{- define "spindle.container" -}}
name: spindle
image: {{ include "spindle.image" .root }}
imagePullPolicy: {{ .root.Values.image.pullPolicy }}
args: [{{ .tier }}]
ports:
  - {name: http, containerPort: 7070}
securityContext: {{- include "spindle.containerSecurity" .root | nindent 2 }}
resources: {{- toYaml .of.resources | nindent 2 }}
volumeMounts: {{- include "spindle.mounts" .root | nindent 2 }}
# Only a process that answers nothing at all is started again: one that waits for Kafka or ClickHouse is not ill.
livenessProbe:
  httpGet: {path: /health/live, port: http}
  periodSeconds: 10
  timeoutSeconds: 5
  failureThreshold: 6
{{- end -}}

{{- define "spindle.podMetadata" -}}
labels: {{- include "spindle.labels" . | nindent 2 }}
  {{- with .root.Values.podLabels }}{{ toYaml . | nindent 2 }}{{ end }}
{{- with .root.Values.podAnnotations }}
annotations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}
