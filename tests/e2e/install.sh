#!/bin/sh
# install.sh - what `make install` leaves behind works from there, and nothing else is exported.
#
# usage: install.sh BUILD SCRATCH CC     Stands against: a program that only runs in its build tree,
# a pkg-config file that names wrong places, a library that shows its insides.
set -eu
build=$1 prefix=$2/installed cc=$3
here=$(cd "$(dirname "$0")/../.." && pwd)
rm -rf "$prefix"
cmake --install "$build" --prefix "$prefix" >/dev/null

for file in bin/redlite include/redlite.h share/redlite/redlite-demo-IQ2_XXS.gguf \
    share/man/man1/redlite.1; do
    [ -f "$prefix/$file" ] || { echo "$file is missing"; exit 1; }
done
library=$(dirname "$(find "$prefix" -name libredlite.so.0)")
[ -f "$library/libredlite.a" ]

# The second name of the same program, its model found below its own prefix.
cd /
"$prefix/bin/redlite-engine" info --json | grep -q "\"file\":\"$prefix/share/redlite/"

exported=$(nm -D --defined-only "$library/libredlite.so.0" | awk '{ print $3 }' | grep -v '^rl_' || true)
[ -z "$exported" ] || { echo "exported: $exported"; exit 1; }
for name in $(nm -D --defined-only "$library/libredlite.so.0" | awk '{ print $3 }'); do
    grep -q "\\b$name(" "$here/include/redlite.h" || { echo "$name is not in redlite.h"; exit 1; }
done
# And the other way round: every function that the header promises is there.
for name in $(sed -n 's/^RL_API.*\b\(rl_[a-z0-9_]*\)(.*/\1/p' "$here/include/redlite.h"); do
    nm -D --defined-only "$library/libredlite.so.0" | grep -q " $name\$" ||
        { echo "$name is promised by redlite.h and missing"; exit 1; }
done

export PKG_CONFIG_PATH="$library/pkgconfig"
flags=$(pkg-config --define-prefix --cflags --libs redlite)
# shellcheck disable=SC2086
"$cc" -std=c11 -Wall -Wextra -Werror "$here/examples/continue.c" $flags -o "$prefix/continue"
LD_LIBRARY_PATH=$library "$prefix/continue" "$prefix/share/redlite/redlite-demo-IQ2_XXS.gguf" \
    "Once upon a time" | grep -q "^Once upon a time "
echo "installed and used from $prefix"
