#!/bin/sh
# Check that Node is 20 or newer, and that the programs named as arguments exist: the client in clients/js needs them.
set -eu
found=$(node --version 2>/dev/null || echo none)
major=${found#v}
major=${major%%.*}
case $major in
'' | *[!0-9]*) major=0 ;;
esac
if [ "$major" -lt 20 ]; then
    echo "clients/js needs Node 20 or newer, found $found: install it from https://nodejs.org, or put it first in PATH" >&2
    exit 2
fi
for program in "$@"; do
    command -v "$program" >/dev/null || { echo "clients/js needs $program, which is not in PATH" >&2; exit 2; }
done
