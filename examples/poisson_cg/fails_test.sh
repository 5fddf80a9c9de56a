#!/bin/sh
# fails_test.sh SENTENCE COMMAND...: the command must fail, and its output must match the basic
# regular expression SENTENCE.
sentence=$1
shift
if output=$("$@" 2>&1); then
  echo "it should have failed, but said: $output"
  exit 1
fi
echo "$output"
echo "$output" | grep -q -e "poisson_cg: .*$sentence"
