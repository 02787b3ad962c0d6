#!/bin/sh
# Pins the images of others in deploy/ to the digests that their tags have now: `pin.sh [DEPLOY]`.
# Needs skopeo and a network that reaches the registries. A reference that has a digest already gets the one of today.
set -eu

deploy=${1:-$(dirname "$0")/..}
digest='sha256:[0-9a-f]{64}'

# `name:tag` of every base image of the Dockerfile and of every service; ours is built here and has no digest before.
references=$(sed -nE \
    -e 's/^ARG [A-Z]+_IMAGE=([^@[:space:]]+).*/\1/p' \
    -e 's/^ +image: ([^@[:space:]]+).*/\1/p' \
    "$deploy/Dockerfile" "$deploy/compose.yaml" | grep -v '^spindle:' | sort -u)

for reference in $references; do
    # Of the list of platforms where there is one, so that every machine finds its own image under it.
    found=$(skopeo inspect --no-tags --format '{{.Digest}}' "docker://$reference")
    if ! printf '%s\n' "$found" | grep -Eqx "$digest"; then
        printf 'no digest of %s: %s\n' "$reference" "$found" >&2
        exit 1
    fi
    sed -i -E "s#(_IMAGE=|image: )$reference(@$digest)?\$#\1$reference@$found#" \
        "$deploy/Dockerfile" "$deploy/compose.yaml"
    printf '%s@%s\n' "$reference" "$found"
done
