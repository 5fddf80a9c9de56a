#!/bin/sh
# installed_size.sh FILE.deb: corrects the package's Installed-Size. CPack counts a file once more
# for each link to it. Debian's own tools count KB: each file rounded up, and 1 for anything else.
set -e
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
size=$(dpkg-deb --fsys-tarfile "$1" | tar -tv |
  awk '{ kb += /^-/ ? int(($3 + 1023) / 1024) : 1 } END { print kb }')
dpkg-deb --control "$1" "$work/control"
sed -i "s/^Installed-Size: .*/Installed-Size: $size/" "$work/control/control"
tar -C "$work/control" --owner=root:0 --group=root:0 -czf "$work/control.tar.gz" .
ar r "$1" "$work/control.tar.gz"
