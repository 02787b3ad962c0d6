#!/bin/sh
# `make bench-distributed`: the log over Kafka beside the embedded one, raw inserts, and a processor that catches up.
# Release binaries, a broker and engines of its own on free ports, in a folder that goes away again (some 20 GB for ten
# million events). The argument is how many events are queued for the last measurement.
set -eu
spindle=target/release/spindle
bench=target/release/spindle-bench
queue=${1:-10000000}
folder=$(mktemp -d)
SPINDLE_API_KEY=sp_key_$(od -An -N24 -tx1 /dev/urandom | tr -d ' \n')
SPINDLE_ADMIN_TOKEN=sp_tok_$(od -An -N24 -tx1 /dev/urandom | tr -d ' \n')
export SPINDLE_API_KEY SPINDLE_ADMIN_TOKEN
processes=
# Two ports next to each other: the broker's and its controller's.
kafka_port=$(python3 -c 'import random; print(random.randrange(20000, 30000, 2))')

wait_for() { # what, log file, process
    tries=0
    until grep -q "$1" "$2" 2>/dev/null; do
        tries=$((tries + 1))
        if [ "$tries" -gt 900 ] || ! kill -0 "$3" 2>/dev/null; then
            cat "$2" >&2
            exit 1
        fi
        sleep 0.1
    done
}
# A process of a role in a folder of its own; sets $pid and $url.
start() { # role, name, flags
    role=$1 name=$2
    shift 2
    "$spindle" "$role" --listen 127.0.0.1:0 --data-dir "$folder/$name" "$@" >"$folder/$name.out" 2>"$folder/$name.log" &
    pid=$!
    processes="$processes $pid"
    wait_for ' ready ' "$folder/$name.log" "$pid"
    url=$(sed -n 's/.* listening .*http\.address=\([^ ]*\).*/http:\/\/\1/p' "$folder/$name.log" | tail -n 1)
}
stop() {
    for one in "$@"; do
        kill "$one" 2>/dev/null || true
        wait "$one" 2>/dev/null || true
    done
}
trap 'stop $processes; rm -rf "$folder"' EXIT
number() { awk -v name="$1" '$1 == name { print $2; exit }' "$2"; }
metric() { curl -s "$1/metrics" | awk -v name="$2" 'index($1, name) == 1 { sum += $2 } END { printf "%d\n", sum }'; }

deploy/kafka/broker.sh "$folder/kafka" "$kafka_port" >"$folder/kafka.log" 2>&1 &
broker=$!
processes="$processes $broker"

for log in embedded kafka; do
    echo "== full speed, everything in one process, the log: $log"
    brokers=
    [ "$log" = embedded ] || brokers=127.0.0.1:$kafka_port
    export SPINDLE_KAFKA__BROKERS="$brokers" SPINDLE_KAFKA__TOPIC_PREFIX=full
    start serve "full-$log"
    "$bench" load --url "$url" --duration 10s --sample-every 0s --verify >"$folder/$log.txt"
    cat "$folder/$log.txt"
    stop "$pid"
done
awk -v kafka="$(number accepted "$folder/kafka.txt")" -v embedded="$(number accepted "$folder/embedded.txt")" \
    'BEGIN { printf "accepted: Kafka / embedded = %.2f\n", kafka / embedded }'

echo "== the same kind of rows, raw: blocks of 66,000 events and half as many runs from two writers"
"$bench" insert --block-rows 66000 --writers 2 --temp-dir "$folder" >"$folder/raw.txt"
cat "$folder/raw.txt"
raw=$(sed -n 's/.*: \([0-9]*\) events\/s.*/\1/p' "$folder/raw.txt" | tail -n 1)

echo "== $queue events queued, then one processor"
unset SPINDLE_KAFKA__BROKERS
# The engine of an idle server is the ClickHouse server of the tiers.
start serve clickhouse
engine=$(pgrep -P "$pid" | head -n 1)
port=$(tr '\0' '\n' <"/proc/$engine/environ" | sed -n 's/^SPINDLE_ENGINE_CHILD_PORT=//p')
SPINDLE_CLICKHOUSE__URL=http://127.0.0.1:$port
SPINDLE_CLICKHOUSE__PASSWORD=$(cat "$folder/clickhouse/engine/password")
SPINDLE_CLICKHOUSE__USER=spindle SPINDLE_CLICKHOUSE__DATABASE=tiers
SPINDLE_KAFKA__BROKERS=127.0.0.1:$kafka_port SPINDLE_KAFKA__TOPIC_PREFIX=queue
export SPINDLE_CLICKHOUSE__URL SPINDLE_CLICKHOUSE__PASSWORD SPINDLE_CLICKHOUSE__USER SPINDLE_CLICKHOUSE__DATABASE
export SPINDLE_KAFKA__BROKERS SPINDLE_KAFKA__TOPIC_PREFIX
"$spindle" migrate >"$folder/migrate.log"
start ingest ingest
ingest=$pid ingest_url=$url
until [ "$(metric "$ingest_url" spindle_ingest_accepted_events_total)" -ge "$queue" ]; do
    "$bench" load --url "$ingest_url" --duration 10s --sample-every 0s >"$folder/queue.txt"
    grep accepted "$folder/queue.txt"
done
queued=$(metric "$ingest_url" spindle_ingest_accepted_events_total)
stop "$ingest"
start processor processor
began=$(date +%s.%N)
while [ "$(metric "$url" spindle_processor_stored_events_total)" -lt "$queued" ]; do
    kill -0 "$pid"
    sleep 0.5
done
ended=$(date +%s.%N)
awk -v queued="$queued" -v raw="$raw" -v began="$began" -v ended="$ended" \
    -v peak="$(awk '/VmHWM/ { print $2 }' "/proc/$pid/status")" 'BEGIN {
        stored = queued / (ended - began)
        printf "caught up: %d events in %.0f s, %d events/s, stored / raw = %.2f, peak resident %d MB\n",
            queued, ended - began, stored, stored / raw, peak / 1024 }'
