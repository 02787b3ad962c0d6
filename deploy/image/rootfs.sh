#!/bin/sh
# Gathers what a program needs to run alone: `rootfs.sh ROOT PROGRAM [LIBRARY...]`.
# The program goes to usr/bin, libraries it loads by itself to usr/lib/spindle, the shared libraries of all of them to
# where the loader looks, and with them the certificates of public authorities and the names of two users.
set -eu

root=$1
program=$2
shift 2

mkdir -p "$root/usr/bin" "$root/usr/lib/spindle" "$root/etc/ssl/certs" "$root/var/lib/spindle" "$root/tmp"
chmod 1777 "$root/tmp"
chmod 0700 "$root/var/lib/spindle"
install -m 0755 "$program" "$root/usr/bin/"
for library in "$@"; do
    install -m 0755 "$library" "$root/usr/lib/spindle/"
done

# Every path that the loader names, the loader itself included. A library that it does not find ends this.
needed=$(ldd "$program" "$@")
if printf '%s\n' "$needed" | grep 'not found'; then
    exit 1
fi
# `name => path (address)`, for the loader `path (address)`; the lines that end in a colon name what was asked about.
for library in $(printf '%s\n' "$needed" | grep -v ':$' | grep -o '/[^ ]*' | sort -u); do
    mkdir -p "$root$(dirname "$library")"
    cp -L "$library" "$root$library"
done

cp -L /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/"
printf 'root:x:0:0::/:/nonexistent\nspindle:x:65532:65532::/var/lib/spindle:/nonexistent\n' >"$root/etc/passwd"
printf 'root:x:0:\nspindle:x:65532:\n' >"$root/etc/group"
# Names are looked up in /etc/hosts first, then by DNS; both are in the C library.
printf 'hosts: files dns\n' >"$root/etc/nsswitch.conf"
