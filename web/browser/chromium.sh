#!/bin/sh
# Prints the path of a Chromium for the browser tests; with root on a Debian, installs Debian's where there is none.
set -eu
find_one() {
    for name in "${SPINDLE_CHROMIUM:-}" chromium chromium-browser google-chrome; do
        if [ -n "$name" ] && command -v "$name"; then exit 0; fi
    done
}
find_one
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    {
        # Old lists may do.
        apt-get update -q || echo "the lists of packages could not be renewed"
        DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends chromium
    } >&2
    find_one
fi
echo "The browser tests need a Chromium: install the package chromium, or name one in SPINDLE_CHROMIUM." >&2
exit 1
