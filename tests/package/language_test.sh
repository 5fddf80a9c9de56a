#!/usr/bin/env bash
# language_test.sh COMPILER INCLUDE_FOLDER [FLAGS...]: a program that is compiled for C++17 is told
# so, in one sentence, by whichever header it includes. So is a program that uses a name of old.
set -uo pipefail
compiler=$1 include=$2
shift 2
fail() { echo "FAILED: $*"; exit 1; }
cd "$include" || exit 1
for header in plait/*.hpp; do
  case $header in plait/language.hpp | plait/types.hpp | plait/version.hpp) continue ;; esac
  program="#include \"$header\"
int main() {}"
  said=$("$compiler" -std=c++17 -fsyntax-only -I . "$@" -x c++ - <<<"$program" 2>&1) &&
    fail "$header compiles as C++17"
  grep -q "Plait's headers need C++20: compile with -std=c++20" <<<"$said" ||
    fail "$header does not say what is missing: $said"
  errors=$(grep -c 'error:' <<<"$said")
  # the sentence, and that the compiler stops there
  [ "$errors" -le 2 ] || fail "$header: $errors errors: $said"
done
# A program of version 0.1 made communicators of MPI's by another name.
said=$("$compiler" -std=c++20 -fsyntax-only -I . -x c++ - 2>&1 <<'PROGRAM'
#include "plait/plait.hpp"
int main() { auto comm = plait::Communicator::from_mpi(0, plait::CommunicatorOptions{}); }
PROGRAM
) && fail "from_mpi compiles"
grep -q "include plait/mpi.hpp, link plait::mpi" <<<"$said" || fail "from_mpi: no hint: $said"
