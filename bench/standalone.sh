#!/bin/sh
# `make bench`: release servers of its own on free ports, in a folder that goes away again, and three measurements: full
# speed, half of what that stored, and the same kind of rows inserted raw into an engine of its own.
# Arguments replace the first measurement's: `make bench BENCH_FLAGS="--event-bytes 4000"`, then the other two are left out.
set -eu
spindle=target/release/spindle
bench=target/release/spindle-bench
folder=$(mktemp -d)
SPINDLE_API_KEY=sp_key_$(od -An -N24 -tx1 /dev/urandom | tr -d ' \n')
SPINDLE_ADMIN_TOKEN=sp_tok_$(od -An -N24 -tx1 /dev/urandom | tr -d ' \n')
export SPINDLE_API_KEY SPINDLE_ADMIN_TOKEN
# A server in a folder of its own: what one measurement left to merge must not slow the next.
start() {
    "$spindle" serve --listen 127.0.0.1:0 --data-dir "$folder/$1" >"$folder/out" 2>"$folder/log" &
    server=$!
    tries=0
    until grep -q ' ready ' "$folder/log"; do
        tries=$((tries + 1))
        if [ "$tries" -gt 300 ] || ! kill -0 "$server" 2>/dev/null; then
            cat "$folder/log" >&2
            exit 1
        fi
        sleep 0.1
    done
    grep ' ready ' "$folder/log"
    url=$(cat "$folder/$1/address")
}
stop() {
    kill "$server" 2>/dev/null || true
    wait "$server" 2>/dev/null || true
}
trap 'stop; rm -rf "$folder"' EXIT

start full
if [ $# -gt 0 ]; then
    "$bench" load --url "$url" "$@"
    exit
fi

echo "== full speed"
"$bench" load --url "$url" --duration 10s --sample-every 0s --verify >"$folder/full.txt"
cat "$folder/full.txt"
stored=$(awk '$1 == "stored" { print $2 }' "$folder/full.txt")

stop
echo "== half load"
start half
"$bench" load --url "$url" --duration 15s --rate $((stored / 2)) --verify

stop
echo "== the same kind of rows, raw: blocks of 66,000 events and half as many runs from two writers"
"$bench" insert --block-rows 66000 --writers 2 --temp-dir "$folder" >"$folder/raw.txt"
cat "$folder/raw.txt"
raw=$(sed -n 's/.*: \([0-9]*\) events\/s.*/\1/p' "$folder/raw.txt" | tail -n 1)
awk -v stored="$stored" -v raw="$raw" 'BEGIN { printf "stored / raw = %.2f\n", stored / raw }'
