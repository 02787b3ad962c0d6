#!/bin/sh
# Starts one Kafka broker (KRaft, its own controller) on loopback: broker.sh FOLDER PORT
# The first start creates and formats the folder. The controller listens on PORT + 1.
# It is for trying things out on one machine: no replication, no TLS, no authentication.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
libs=${SPINDLE_KAFKA_LIBS:-$here/target/libs}
folder=${1:-spindle-kafka}
port=${2:-9092}
controller=$((port + 1))

if [ ! -d "$libs" ]; then
    echo "no jars in $libs: run \`make kafka-jars\`" >&2
    exit 1
fi
mkdir -p "$folder"
folder=$(cd "$folder" && pwd)

cat >"$folder/server.properties" <<EOF
node.id=1
process.roles=broker,controller
controller.quorum.voters=1@127.0.0.1:$controller
controller.listener.names=CONTROLLER
listeners=PLAINTEXT://127.0.0.1:$port,CONTROLLER://127.0.0.1:$controller
advertised.listeners=PLAINTEXT://127.0.0.1:$port
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
log.dirs=$folder/data
# Spindle creates its topics itself, with the settings it needs.
auto.create.topics.enable=false
# There is one broker, so there is one replica.
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
# The first member of a group does not wait for others.
group.initial.rebalance.delay.ms=0
EOF

run() {
    java -Xmx512m -Dlog4j2.configurationFile="$here/log4j2.properties" -cp "$libs/*" "$@"
}

if [ ! -f "$folder/data/meta.properties" ]; then
    id=$(run kafka.tools.StorageTool random-uuid)
    run kafka.tools.StorageTool format --cluster-id "$id" --config "$folder/server.properties" >/dev/null
fi

echo "Kafka on 127.0.0.1:$port, data in $folder. End it with Ctrl-C."
# shellcheck disable=SC2086 # Options of Java, separated by spaces.
exec java -Xmx512m ${SPINDLE_KAFKA_JAVA:-} -Dlog4j2.configurationFile="$here/log4j2.properties" -cp "$libs/*" \
    kafka.Kafka "$folder/server.properties"
