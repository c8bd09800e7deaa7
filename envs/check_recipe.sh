#!/usr/bin/env bash
# The lines of envs/Dockerfile, run as they stand there in a clean Debian, where no container engine
# is: debootstrap and chroot, as root.  It is made in a temporary folder and deleted again.
#
#   envs/check_recipe.sh [NAME=VALUE ...] [COMMAND ...]
#
# NAME=VALUE is what --build-arg would be; a folder of wheels, PIP_FIND_LINKS=FOLDER, is copied.
# COMMAND replaces the recipe's own.  What is committed is checked.
set -euo pipefail
cd "$(dirname "$0")/.."
recipe=envs/Dockerfile

# Instructions, one a line, without comments; `instruction NAME` are the arguments of all of a name.
lines=$(sed -e '/^ *#/d' "$recipe" | sed -e ':a' -e '/\\$/N; s/\\\n *//; ta')
instruction() { sed -n "s/^$1 //p" <<< "$lines"; }
release=$(instruction FROM | sed -n 's/^python:3\.[0-9.]*-slim-//p')

settings=()
while read -r setting; do settings+=("$setting"); done < <(instruction ARG)
while [[ ${1-} == *=* ]]; do settings+=("$1"); shift; done

root=$(mktemp -d)
leave() {
    for place in proc dev; do umount "$root/$place" 2> /dev/null || true; done
    # Not through a mount that is still there.
    rm -rf --one-file-system "$root"
}
trap leave EXIT
debootstrap --variant=minbase --include=ca-certificates,python3-venv "$release" "$root" > "$root.log"
rm "$root.log"
mount -t proc proc "$root/proc"
mount --bind /dev "$root/dev"
cp /etc/resolv.conf "$root/etc/resolv.conf"
cp /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/"
cp -r --parents /etc/apt/sources.list* "$root" 2> /dev/null || true
work=$root$(instruction WORKDIR)
mkdir -p "$work"
git archive HEAD | tar -x -C "$work"
for setting in "${settings[@]}"; do
    if [[ $setting == PIP_FIND_LINKS=* ]]; then cp -r --parents "${setting#*=}" "$root"; fi
done

# The image has pip for all users; Debian has it in a virtual environment.
inside() {
    chroot "$root" env -i HOME=/root PATH=/opt/venv/bin:/usr/sbin:/usr/bin:/sbin:/bin \
        "${settings[@]}" sh -euc "cd '$(instruction WORKDIR)'; $1"
}
inside "python3 -m venv /opt/venv"
while read -r line; do
    echo "+ $line"
    inside "$line" < /dev/null
done < <(instruction RUN)

command=${*:-$(instruction CMD | tr -d '[],"')}
echo "+ $command"
inside "$command"
