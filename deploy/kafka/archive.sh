#!/bin/sh
# Archives the classes that a broker loads, beside its jars: archive.sh LIBS
# The brokers of tests use it where it is, and then start with two thirds of the CPU. Java ignores an archive that another
# version of Java made, or one of other jars; a truncated one would crash it, so the file appears complete.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
libs=$(cd "$1" && pwd)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
port=$((20000 + $$ % 10000))

SPINDLE_KAFKA_LIBS=$libs SPINDLE_KAFKA_JAVA="-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:ArchiveClassesAtExit=$folder/broker.jsa -Xlog:disable" \
    "$here/broker.sh" "$folder/broker" "$port" >/dev/null 2>&1 &
broker=$!
trap 'kill "$broker" 2>/dev/null || true; rm -rf "$folder"' EXIT
tries=0
connect="import socket; socket.create_connection(('127.0.0.1', $port)).close()"
until "${PYTHON:-python3}" -c "$connect" 2>/dev/null; do
    # Ends the script where the broker does not start within a minute or two.
    kill -0 "$broker"
    tries=$((tries + 1))
    [ "$tries" -lt 120 ]
    sleep 0.5
done
# An orderly end, at which the archive is written.
kill "$broker"
wait "$broker" || true
cp "$folder/broker.jsa" "$libs/broker.jsa.part"
mv "$libs/broker.jsa.part" "$libs/broker.jsa"
