#!/usr/bin/env bash
# exports_test.sh SOURCE LIBRARY WHOLE KERNEL_HEADER...: the names that LIBRARY offers, compared
# with the public headers, with those for kernels (paths in SOURCE), and with WHOLE, the same
# library with all its names.
set -euo pipefail
cd "$1"
library=$2 whole=$3
shift 3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { printf 'FAILED: %s\n' "$*"; exit 1; }
names() { nm -D --defined-only "$1" | awk "$2 { print \$3 }" | c++filt | sort -u; }

names "$library" 1 >"$work/offered"
names "$whole" '$2 == "T"' >"$work/functions"
printf '%s names\n' "$(wc -l <"$work/offered")"

# The functions of C: those that the headers declare, and what own kernels register by.
{ grep -ohE '\bplait_[a-z0-9_]+\(' include/plait/plait.h include/plait/plait_mpi.h | tr -d '('; \
  echo plait_register; } | sort -u >"$work/declared"
grep -E '^plait_' "$work/offered" >"$work/c"
diff "$work/declared" "$work/c" ||
  fail "the names of C above are only declared (<) or only offered (>)"

# The rest has a name of ours, none of a template that a header instantiates, and none that keeps a
# plug-in from being closed.
ours='plait_|plait::([A-Z][A-Za-z]*(<|::|$)|(detail|log)::[a-z_]+(\(|$)|[a-z_]+(\[abi:cxx11\])?\()'
if sed -E 's/^(typeinfo|typeinfo name|vtable) for //' "$work/offered" | grep -vE "^($ours)"; then
  fail "the names above"
fi
if nm -D --defined-only "$library" | grep ' u '; then fail "unique names, above"; fi

# A running program can load the library: its thread_local variables fit into the loader's reserve.
memory=$(readelf -lW "$library" | awk '$1 == "TLS" { print $6 }')
[ $((memory)) -le 512 ] || ! readelf -d "$library" | grep -q STATIC_TLS ||
  fail "$((memory)) bytes of static thread-local memory"

# The library offers all that public headers and those for kernels declare: functions, and all of a
# class that begins in one of them.
sed 's|//.*||' include/plait/*.hpp "$@" >"$work/headers"
while read -r function; do
  name=${function#plait::}
  name=${name%%[(<[]*}
  case $name in
    *::*::*) continue ;;  # of a target, of the interface for C, or inside of a class
    *::*) grep -qE "^class ${name%%::*}( |$)[^;]*$" "$work/headers" || continue ;;
    *) grep -qE "^[A-Za-z].*[ >]$name\((.*[;,])?$" "$work/headers" || continue ;;
  esac
  printf '%s\n' "$function"
done < <(grep '^plait::' "$work/functions") >"$work/expected"
printf '%s functions that headers declare\n' "$(wc -l <"$work/expected")"
[ "$(wc -l <"$work/expected")" -gt 100 ] || fail "too few: do the headers look otherwise now?"
comm -23 "$work/expected" "$work/offered" >"$work/lacking"
[ ! -s "$work/lacking" ] || {
  cat "$work/lacking"
  fail "cmake/exports.map lacks the names above, which headers declare"
}

# And nothing more, but for what plait-bench, plait-info and libnccl.so.2 take of the same version,
# and two names that are not looked for above.
tools='backend_of|environment[a-z_]*|format_bytes|in_quotes|measured_rules|parse_bytes|policies'
tools+='|printable|split|wrong_name|Selector::[A-Za-z_]+'
tools+='|log::(level|raise|write)|Origin::[A-Za-z_]+|detail::draw_process_number|selector_of'
others='KernelTable<.*>::instance|detail::local_pointer'
names "$library" '$2 == "T"' | grep '^plait::' | comm -13 "$work/expected" - |
  grep -vE "^plait::($tools|$others)[[(]" >"$work/more" || true
[ ! -s "$work/more" ] || {
  cat "$work/more"
  fail "no header that is installed declares the names above"
}
echo passed
