{{- define "stormwright.fullname" -}}
{{- if contains .Chart.Name .Release.Name -}}
{{- .Release.Name | trunc 52 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name .Chart.Name | trunc 52 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "stormwright.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end -}}

{{- define "stormwright.labels" -}}
{{ include "stormwright.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service | quote }}
{{- end -}}

{{- define "stormwright.serviceAccount" -}}
{{- .Values.serviceAccount.name | default (ternary (include "stormwright.fullname" .) "default" .Values.serviceAccount.create) -}}
{{- end -}}

{{- define "stormwright.scheme" -}}
{{- ternary "http" "https" (empty .Values.access.tlsSecret) -}}
{{- end -}}

{{- /* Name of a pod in DNS, from the name of the pod. */ -}}
{{- define "stormwright.podHost" -}}
{{- printf "%s.%s-pods.%s.svc" .pod (include "stormwright.fullname" .root) .root.Release.Namespace -}}
{{- end -}}

{{- /* Addresses of all services, as in stormwright.service.url. */ -}}
{{- define "stormwright.urls" -}}
{{- $scheme := include "stormwright.scheme" . -}}
{{- $name := include "stormwright.fullname" . -}}
{{- if not .Values.pair.enabled -}}
{{- printf "%s://%s.%s.svc:%v" $scheme $name .Release.Namespace .Values.service.port -}}
{{- else -}}
{{- $urls := list -}}
{{- range $n := list 0 1 -}}
{{- $pod := printf "%s-%d" $name $n -}}
{{- $own := printf "%s://%s:7070" $scheme (include "stormwright.podHost" (dict "root" $ "pod" $pod)) -}}
{{- $urls = append $urls ($.Values.pair.knownAs | replace "$(POD_NAME)" $pod | default $own) -}}
{{- end -}}
{{- join "," $urls -}}
{{- end -}}
{{- end -}}

{{- /* What values.schema.json cannot say: one sentence each. */ -}}
{{- define "stormwright.check" -}}
{{- if not (or .Values.access.tokensSecret .Values.access.withoutAuthentication) -}}
{{- fail "access.tokensSecret: name a Secret with tokens.json, or set access.withoutAuthentication; see values.yaml" -}}
{{- end -}}
{{- if and .Values.access.withoutAuthentication (not .Values.allowedFrom) -}}
{{- fail "access.withoutAuthentication: also list in allowedFrom which pods may connect" -}}
{{- end -}}
{{- if and .Values.access.clientCertificates (not .Values.access.tlsSecret) -}}
{{- fail "access.clientCertificates: name a Secret with tls.crt, tls.key and ca.crt in access.tlsSecret" -}}
{{- end -}}
{{- if and .Values.stormYamlSecret .Values.stormConf -}}
{{- fail "stormConf: has no effect with stormYamlSecret, which is the whole storm.yaml; remove one of them" -}}
{{- end -}}
{{- range $key, $value := .Values.stormConf -}}
{{- if hasSuffix "password" (lower $key) -}}
{{- fail (printf "stormConf: %s would be stored in a ConfigMap; put the whole storm.yaml into a Secret and name it in stormYamlSecret" $key) -}}
{{- end -}}
{{- end -}}
{{- if .Values.pair.enabled -}}
{{- if not (or .Values.pair.secret .Values.access.withoutAuthentication) -}}
{{- fail "pair.secret: name a Secret whose key `secret` is one long random word" -}}
{{- end -}}
{{- if and (eq .Values.pair.zookeeper "storm") (not .Values.stormYamlSecret) (not (index .Values.stormConf "storm.zookeeper.servers")) -}}
{{- fail "pair.zookeeper: set storm.zookeeper.servers in stormConf, or name the servers as zk1:2181,zk2:2181" -}}
{{- end -}}
{{- if and .Values.pair.knownAs (not (contains "$(POD_NAME)" .Values.pair.knownAs)) -}}
{{- fail "pair.knownAs: has to contain $(POD_NAME), as the two services have different addresses" -}}
{{- end -}}
{{- end -}}
{{- if and .Values.ingress.enabled (not .Values.ingress.host) -}}
{{- fail "ingress.host: name the host of the dashboard" -}}
{{- end -}}
{{- if and .Values.serviceMonitor.enabled (not (or .Values.serviceMonitor.tokenSecret .Values.access.withoutAuthentication)) -}}
{{- fail "serviceMonitor.tokenSecret: name a Secret whose key `token` is the token of a viewer" -}}
{{- end -}}
{{- end -}}
