#!/bin/sh
# Makes a Debian with Python out of Debian's own packages, where no registry of images is at hand:
#
#   sh deploy/images/without-registry.sh ROOTFS.tar.gz
#   docker import ROOTFS.tar.gz localhost/einsora/base:1
#   sh deploy/images/build.sh jupyter --build-arg BASE=localhost/einsora/base:1
#
# Wants root and debootstrap. Invariants: the file is there whole or not at all, and what was put
# together for it is gone.
set -eu

target=${1:?where to? a path that ends in .tar.gz}
folder=$(mktemp -d)
part=$target.$$.part
trap 'rm -rf "$folder" "$part"' EXIT
trap 'exit 1' INT TERM

packages=ca-certificates,libgomp1,libstdc++6,procps,python3
debootstrap --variant=minbase --include="$packages" bookworm "$folder" >&2
rm -rf "$folder"/var/cache/apt/archives/*.deb "$folder"/var/lib/apt/lists/*
printf 'user:x:1000:1000::/home/user:/bin/bash\n' >> "$folder/etc/passwd"
printf 'user:x:1000:\n' >> "$folder/etc/group"
mkdir -p "$folder/home/user"
chown 1000:1000 "$folder/home/user"
# mktemp's folder is closed to others, and becomes the root that all of them need.
chmod 755 "$folder"
tar -c -C "$folder" --numeric-owner --exclude=./usr/share/doc --exclude=./usr/share/man \
  --exclude=./usr/share/locale . | gzip -1 > "$part"
mv "$part" "$target"
