#!/bin/sh
# Builds real shippers into .flinkwatch/shippers: Telegraf, Filebeat and the OpenTelemetry Collector from the Go module
# proxy and, if FLUENT_BIT_SOURCE is a checkout of its source, Fluent Bit. Needs Go, and cmake, flex, bison and
# libyaml-dev for Fluent Bit. What is there is not built again; each takes minutes.
set -eu
CDPATH= cd "$(dirname "$0")/../.."
out=$PWD/.flinkwatch/shippers
mkdir -p "$out"

# Downloads a module, prints the folder of its source, which is read-only.
source_of() {
    (cd "$out" && go mod download -json "$1" | python3 -c 'import json, sys; print(json.load(sys.stdin)["Dir"])')
}

if [ ! -e "$out/telegraf" ]; then
    tags=custom,inputs.prometheus,outputs.kafka,serializers.json,parsers.prometheus
    cd "$(source_of github.com/influxdata/telegraf@v1.37.2)"
    go build -ldflags "-s -w" -tags "$tags" -o "$out/telegraf" ./cmd/telegraf
fi
if [ ! -e "$out/filebeat" ]; then
    cd "$(source_of github.com/elastic/beats/v7@v7.17.29)"
    go build -ldflags "-s -w" -o "$out/filebeat" ./filebeat
fi
if [ ! -e "$out/otelcol" ]; then
    work=$(mktemp -d)
    trap 'rm -rf "$work"' EXIT
    contrib=github.com/open-telemetry/opentelemetry-collector-contrib
    cat >"$work/build.yaml" <<YAML
dist: {name: otelcol, output_path: $work/out, module: localhost/otelcol}
receivers:
  - gomod: $contrib/receiver/filelogreceiver v0.111.0
  - gomod: $contrib/receiver/prometheusreceiver v0.111.0
processors:
  - gomod: go.opentelemetry.io/collector/processor/batchprocessor v0.111.0
  - gomod: $contrib/processor/resourceprocessor v0.111.0
exporters:
  - gomod: $contrib/exporter/kafkaexporter v0.111.0
providers:
  - gomod: go.opentelemetry.io/collector/confmap/provider/envprovider v1.17.0
  - gomod: go.opentelemetry.io/collector/confmap/provider/fileprovider v1.17.0
YAML
    cd "$work"
    go run go.opentelemetry.io/collector/cmd/builder@v0.111.0 --config build.yaml
    mv "$work/out/otelcol" "$out/otelcol"
fi
if [ -n "${FLUENT_BIT_SOURCE:-}" ] && [ ! -e "$out/fluent-bit" ]; then
    mkdir -p "$out/fluent-bit-build"
    cd "$out/fluent-bit-build"
    cmake -DFLB_MINIMAL=On -DFLB_IN_TAIL=On -DFLB_OUT_KAFKA=On -DFLB_FILTER_KUBERNETES=On -DFLB_FILTER_RECORD_MODIFIER=On \
        -DFLB_CONFIG_YAML=On -DFLB_PARSER=On -DFLB_TLS=On -DFLB_LUAJIT=Off -DFLB_EXAMPLES=Off -DFLB_WASM=Off \
        -DFLB_BACKTRACE=Off -DFLB_JEMALLOC=Off -DFLB_KAFKA=On -DFLB_UNICODE_ENCODER=Off -DCMAKE_BUILD_TYPE=Release \
        "$FLUENT_BIT_SOURCE"
    make -j2
    mv bin/fluent-bit "$out/fluent-bit"
fi
