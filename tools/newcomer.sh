#!/usr/bin/env bash
# tools/newcomer.sh [--as root|user] [SUITE...]: the README's first two commands, `./run demo` and
# `./run test`, where nothing was installed before: in a clone of HEAD, in a root of each SUITE
# (bookworm, trixie, noble; default: this machine's) that mmdebstrap makes with git and nothing
# else. Once as root, and once as a user without sudo, who must get the command that installs
# everything, and nothing half done; root runs that command, and the user begins again. Each builds
# everything. A suite that the machine's own sources do not have is left out.
#
# tools/newcomer.sh --short BUILD: what of it fits into three minutes. In one root: the user's
# command, what each verb installs, and then, as root, the tests with the label `programs` of that
# build folder, which is of this machine. They can't change it, and none may be skipped.
#
# As root, with mmdebstrap. All mounts are in a namespace of their own, which ends with this script.
set -euo pipefail
source=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
say() { printf '\n#### newcomer: %s (%d s)\n' "$*" $SECONDS; }
fail() { printf 'newcomer: FAILED: %s\n' "$*" >&2; exit 1; }
usage() { sed -n '2,/^set /{s/^# \{0,1\}//p}' "${BASH_SOURCE[0]}" >&2; exit 2; }

# --- a root ---------------------------------------------------------------------------------------

work=$(mktemp -d)
root=$work/root
child=
finish() {
  if [ -n "$child" ]; then
    kill -KILL "$child" 2>/dev/null || true
    wait "$child" 2>/dev/null || true
  fi
  rm -rf --one-file-system "$work"
}
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

# apart COMMAND...: with its own mounts and processes, which end with it, and it with this script.
# In the background, because a shell that waits for a command in the foreground handles no signals.
apart() {
  local status=0
  setpriv --pdeathsig KILL unshare --mount --propagation private --pid --fork --kill-child \
    --mount-proc "$@" </dev/null &
  child=$!
  wait $child || status=$?
  child=
  return $status
}

own_suite() { (. /etc/os-release && echo "$VERSION_CODENAME"); }

make_root() {  # make_root SUITE: by the sources and the network settings of this machine
  local file own sources=()
  own=$(own_suite)
  rm -rf --one-file-system "$root" "$work/apt"
  mkdir "$work/apt"
  for file in /etc/apt/sources.list /etc/apt/sources.list.d/*.{list,sources}; do
    if grep -qsE "^(Suites:|deb ).*\b$own\b" "$file"; then
      sed -E "s/\b$own\b/$1/g" "$file" >"$work/apt/${file##*/}"
      sources+=("$work/apt/${file##*/}")
    fi
  done
  apt-config dump | grep -E '^Acquire::(https?|Check-|Retries)' >"$work/apt/settings" || true
  apart mmdebstrap --variant=minbase --include=git --aptopt="$work/apt/settings" \
    --dpkgopt=force-unsafe-io "$1" "$root" "${sources[@]}" >"$work/log" 2>&1 || {
    tail -n 5 "$work/log"
    return 1
  }
  cp -L /etc/resolv.conf /etc/hosts "$root/etc/"
  git -C "$source" bundle create --quiet "$root/tmp/plait.bundle" HEAD
  echo 'newcomer:x:1000:1000::/home/newcomer:/bin/bash' >>"$root/etc/passwd"
  echo 'newcomer:x:1000:' >>"$root/etc/group"
  mkdir "$root/home/newcomer"
  chown 1000:1000 "$root/home/newcomer"
  as root 'git clone -q /tmp/plait.bundle ~/plait'
  as newcomer 'git clone -q /tmp/plait.bundle ~/plait'
}

# as root|newcomer COMMAND: in the root, without a word of this machine's environment
as() {
  local home=/root user=0:0
  if [ "$1" != root ]; then home=/home/$1 user=1000:1000; fi
  # shellcheck disable=SC2016
  apart bash -ec 'root=$1 source=$2
    mount --bind "$root" "$root"  # pivot_root wants a mount there
    mount -t proc proc "$root/proc"
    mount --rbind /sys "$root/sys"
    mount -t tmpfs tmpfs "$root/dev/shm"
    mount -t devpts -o newinstance,ptmxmode=666 devpts "$root/dev/pts"
    if [ -n "$source" ]; then  # a copy: what is written is lost
      mount -t tmpfs tmpfs "$root/mnt"
      mkdir -p "$root/mnt/upper" "$root/mnt/work" "$root$source"
      mount -t overlay -o "lowerdir=$source,upperdir=$root/mnt/upper,workdir=$root/mnt/work" \
        overlay "$root$source"
    fi
    # A namespace that is made within begins at the root of this one, where chroot would not count.
    cd "$root"
    pivot_root . .
    umount --lazy .
    exec chroot --userspec="$3" --groups= / "${@:4}"' - "$root" "${mounted-}" $user \
    env -i HOME=$home TERM=dumb PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
    bash -ec "$2"
}

# --- the tries ------------------------------------------------------------------------------------

# The user's first try: it prints a command, which is then in `command`, and leaves nothing behind.
refused_user() {
  if as newcomer 'cd ~/plait && ./run demo' >"$work/said" 2>&1; then
    fail "./run demo installs something for a user"
  fi
  cat "$work/said"
  [ "$(as newcomer 'cd ~/plait && git status --porcelain --ignored && ls -A ~')" = plait ] ||
    fail "./run demo left something half done"
  command=$(sed -n "s/^  sudo sh -c '\(.*\)'$/\1/p" "$work/said")
  [ -n "$command" ] || fail "./run demo does not print a command"
}

try() {  # try root|newcomer: the README's commands
  local home=root
  if [ "$1" != root ]; then
    home=home/$1
    refused_user
    as root "export DEBIAN_FRONTEND=noninteractive; $command" >"$work/log" 2>&1 || {
      tail -n 20 "$work/log"
      fail "the command that ./run demo prints"
    }
  fi
  as "$1" 'cd ~/plait && ./run demo' || fail "./run demo as $1"
  say "$1: ./run test"
  as "$1" 'cd ~/plait && ./run test' || fail "./run test as $1"
  "$source/tools/check_skips.py" host "$root/$home/plait/build-host/tests.xml"
}

short() {  # short BUILD
  local build status=0
  build=$(cd "$1" && pwd)
  make_root "$(own_suite)" || fail "mmdebstrap"
  say "a user without sudo"
  refused_user
  say "what ./run demo installs"
  as root 'cd ~/plait && ./run setup demo && tools/sweep.py --help >/dev/null &&
    cmake --preset host -DPLAIT_TESTS=OFF -DPLAIT_EXAMPLES=OFF' >"$work/said" ||
    { cat "$work/said"; fail "./run setup demo"; }
  if grep "is built without" "$work/said"; then fail "./run setup demo lacks a package"; fi
  say "what ./run test installs"
  as root 'cd ~/plait && ./run setup test'
  as newcomer "dpkg-query -W ${command##*--no-install-recommends} >/dev/null" ||
    fail "the user's command has packages that no verb installs"
  say "the tests that want outside programs"
  mounted=$source as root "ctest --test-dir '$build' -L '^programs$' --no-tests=error \
    --output-on-failure -j $(nproc)" >"$work/said" 2>&1 || status=$?
  cat "$work/said"
  [ $status = 0 ] || fail "the tests above"
  if grep -E '\*\*\*(Skipped|Not Run)' "$work/said"; then fail "the tests above did not run"; fi
}

who=(root newcomer)
case ${1-} in
  --short) [ $# = 2 ] || usage ;;
  --as)
    case ${2-} in root) who=(root) ;; user) who=(newcomer) ;; *) usage ;; esac
    set -- "${@:3}"
    ;;
  -*) usage ;;
esac
[ "$(id -u)" = 0 ] || fail "only root can make a root"
command -v mmdebstrap >/dev/null || fail "there is no mmdebstrap (package mmdebstrap)"
if [ "${1-}" = --short ]; then
  short "$2"
  say "passed"
  exit
fi
[ $# -gt 0 ] || set -- "$(own_suite)"
for suite in "$@"; do
  for name in "${who[@]}"; do
    say "$suite, $name: a root"
    make_root "$suite" || {
      [ "$suite" != "$(own_suite)" ] || fail "mmdebstrap"
      say "$suite is left out: it can't be had here"
      break
    }
    say "$suite, $name: ./run demo"
    try "$name"
  done
done
say "passed"
