#!/bin/bash
# Builds the image localhost/debian:bookworm-slim from Debian's packages, for hosts that cannot reach a registry.
# Like Debian's own slim image: without documentation, manuals and translations. Needs root and debootstrap.
set -euo pipefail

suite=bookworm
mirror=$(sed -n 's/^URIs: *//p; s/^deb \(\[[^]]*\] \)\?\([^ ]*\) bookworm main.*/\2/p' \
    /etc/apt/sources.list /etc/apt/sources.list.d/debian* 2>/dev/null | head -n 1) || true
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# No mirror found: debootstrap uses its default.
# shellcheck disable=SC2086
debootstrap --variant=minbase --include=ca-certificates "$suite" "$folder/root" ${mirror:-} >"$folder/log" 2>&1 ||
    { tail -n 20 "$folder/log" >&2; exit 1; }
share=$folder/root/usr/share
rm -rf "$share"/{doc,man,info,locale,lintian,groff} "$folder"/root/var/{cache,log}/* "$folder"/root/var/lib/apt/lists/*
cat >"$folder/root/etc/dpkg/dpkg.cfg.d/slim" <<'END'
path-exclude /usr/share/doc/*
path-include /usr/share/doc/*/copyright
path-exclude /usr/share/man/*
path-exclude /usr/share/locale/*
path-exclude /usr/share/info/*
END
tar --create --file "$folder/root.tar" --directory "$folder/root" --exclude=./dev .
podman import --quiet --change CMD=/bin/bash "$folder/root.tar" localhost/debian:bookworm-slim
