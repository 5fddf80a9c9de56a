#!/usr/bin/env bash
# exports_test.sh SOURCE LIBRARY MPI_LIBRARY WHOLE KERNEL_HEADER...: the names that LIBRARY offers,
# compared with the public headers, with those for kernels (paths in SOURCE), with what MPI_LIBRARY
# takes, and with WHOLE, the same library with all its names. And the names that MPI_LIBRARY offers,
# compared with its two headers.
set -euo pipefail
cd "$1"
library=$2 mpi_library=$3 whole=$4
shift 4
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { printf 'FAILED: %s\n' "$*"; exit 1; }
names() { nm -D --defined-only "$1" | awk "$2 { print \$3 }" | c++filt | sort -u; }

names "$library" 1 >"$work/all"
names "$mpi_library" 1 >"$work/offered_mpi"
names "$whole" '$2 == "T"' >"$work/functions"
printf '%s names\n' "$(wc -l <"$work/all")"

# Names for libplait-mpi alone have a section of cmake/exports.map. Each of its lines serves a name
# that this library takes. They don't count below.
nm -D --undefined-only "$mpi_library" | awk '{ print $2 }' | c++filt | sort -u >"$work/taken"
mapfile -t for_mpi < <(sed -n '/For libplait-mpi\.so/,/^    };/p' cmake/exports.map |
  sed -nE 's/^      "?([^";]+)"?;$/\1/p')
[ ${#for_mpi[@]} -gt 10 ] || fail "the section for libplait-mpi was not understood"
for pattern in "${for_mpi[@]}"; do
  served=0
  # shellcheck disable=SC2053
  while read -r name; do if [[ $name == $pattern ]]; then served=1; fi; done <"$work/taken"
  [ $served = 1 ] || fail "cmake/exports.map: libplait-mpi takes nothing of $pattern"
done
while read -r name; do
  for pattern in "${for_mpi[@]}"; do
    # shellcheck disable=SC2053
    if [[ $name == $pattern ]]; then continue 2; fi
  done
  printf '%s\n' "$name"
done <"$work/all" >"$work/offered"
printf '%s names for libplait-mpi alone\n' "$(comm -23 "$work/all" "$work/offered" | wc -l)"

# libplait-mpi offers what its two headers declare, and nothing else.
{
  grep -ohE '\bplait_[a-z0-9_]+\(' include/plait/plait_mpi.h
  grep -oE '\bmake_[a-z_]+\(MPI_Comm|\bmake_mpi_bootstrap\($' include/plait/mpi.hpp |
    sed 's/^/plait::/; s/MPI_Comm$//'
} | tr -d '(' | sort -u >"$work/declared"
sed 's/(.*//' "$work/offered_mpi" | sort -u >"$work/of_mpi"
diff "$work/declared" "$work/of_mpi" ||
  fail "the names of libplait-mpi above are only declared (<) or only offered (>)"
if nm -D --defined-only "$mpi_library" | grep ' u '; then fail "unique names, above"; fi

# The functions of C: those that the headers declare, and what own kernels register by.
{ grep -ohE '\bplait_[a-z0-9_]+\(' include/plait/plait.h | tr -d '('; \
  echo plait_register; } | sort -u >"$work/declared"
grep -E '^plait_' "$work/offered" >"$work/c"
diff "$work/declared" "$work/c" ||
  fail "the names of C above are only declared (<) or only offered (>)"

# The program may throw in another copy of the C++ library (-static-libstdc++), so this one can't
# know whether an exception is on its way.
for each in "$library" "$mpi_library"; do
  if nm -D --undefined-only "$each" | c++filt | grep 'uncaught_exception'; then
    fail "$each counts exceptions on their way, above"
  fi
done

# The rest has a name of ours, none of a template that a header instantiates, and none that keeps a
# plug-in from being closed.
ours='plait_|plait::([A-Z][A-Za-z]*(<|::|$)|(detail|log)::[a-z_]+(\(|$)|[a-z_]+(\[abi:cxx11\])?\()'
if sed -E 's/^(typeinfo|typeinfo name|vtable) for //' "$work/offered" | grep -vE "^($ours)"; then
  fail "the names above"
fi
if nm -D --defined-only "$library" | grep ' u '; then fail "unique names, above"; fi

# A running program can load the libraries, also after many others: none takes static thread-local
# memory, of which the loader has a small reserve.
for each in "$library" "$mpi_library"; do
  if readelf -d "$each" | grep STATIC_TLS; then fail "$each has static thread-local memory"; fi
done

# The library offers all that public headers and those for kernels declare: functions, and all of a
# class that begins in one of them.
for header in include/plait/*.hpp; do
  if [ "$header" != include/plait/mpi.hpp ]; then set -- "$header" "$@"; fi
done
sed 's|//.*||' "$@" >"$work/headers"
while read -r function; do
  name=${function#plait::}
  name=${name%%[(<[]*}
  case $name in
    *::*::*) continue ;;  # of a target, of the interface for C, or inside of a class
    *::*) grep -qE "^(class|struct) ${name%%::*}( |$)[^;]*$" "$work/headers" || continue ;;
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

# And nothing more, but for what the programs (plait-bench, plait-info, plait-tune) and libnccl.so.2
# take of the same version, and two names that are not looked for above.
tools='backend_of|environment[a-z_]*|format_bytes|in_quotes|measure_algorithms|parse_bytes|policies'
tools+='|printable|split|wrong_name|Selector::[A-Za-z_]+|MeasuredTimes::[A-Za-z_]+'
tools+='|describe_for_calibration|ring_order|tuned_path|why_no_cache|write_cached'
tools+='|log::(level|raise|write)|Origin::[A-Za-z_]+|detail::draw_process_number|selector_of'
tools+='|start_thread|(cancel|refuse)_group'
others='KernelTable<.*>::instance|detail::local_pointer'
names "$library" '$2 == "T"' | grep '^plait::' | comm -12 "$work/offered" - |
  comm -13 "$work/expected" - |
  grep -vE "^plait::($tools|$others)[[(]" >"$work/more" || true
[ ! -s "$work/more" ] || {
  cat "$work/more"
  fail "no header that is installed declares the names above"
}
echo passed
