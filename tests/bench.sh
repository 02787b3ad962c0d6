#!/bin/sh
# `make bench`: a release server of its own on a free port and a folder that goes away again, and the load generator
# against it. Arguments are passed on to `spindle bench`.
set -eu
spindle=target/release/spindle
folder=$(mktemp -d)
SPINDLE_API_KEY=sp_key_$(od -An -N24 -tx1 /dev/urandom | tr -d ' \n')
SPINDLE_ADMIN_TOKEN=sp_tok_$(od -An -N24 -tx1 /dev/urandom | tr -d ' \n')
export SPINDLE_API_KEY SPINDLE_ADMIN_TOKEN
"$spindle" serve --listen 127.0.0.1:0 --data-dir "$folder/data" >"$folder/out" 2>"$folder/log" &
server=$!
trap 'kill "$server" 2>/dev/null; wait "$server" 2>/dev/null; rm -rf "$folder"' EXIT
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
"$spindle" bench --url "$(cat "$folder/data/address")" "$@"
