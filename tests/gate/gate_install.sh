# SPDX-License-Identifier: MIT
# Installs this build, moves the tree away, and builds a host program against it in four ways: pkg-config and
# find_package, shared and static. The host defines functions of the same names as all of our internals.
. "$(dirname "$0")/lib.sh"
consumer=$root/tests/gate/consumer
cmake --install "$build" --prefix "$work/first" >/dev/null
mv "$work/first" "$work/moved"
stage=$work/moved
lib=$(dirname "$(find "$stage" -name libberth.a)")
for file in include/berth.h share/man/man1/berth.1 share/man/man3/libberth.3; do
    [ -f "$stage/$file" ] || {
        echo "install: $file is missing"
        exit 1
    }
done
if [ -x "$build/berth" ]; then
    "$stage/bin/berth" --version >/dev/null || {
        echo "install: the installed program does not start"
        exit 1
    }
fi
objdump -p "$lib/libberth.so" | grep -q 'SONAME  *libberth\.so\.[0-9]' || {
    echo "install: libberth.so has no SONAME"
    exit 1
}
"$cc" -std=c11 -pedantic -Wall -Wextra -Werror -fsyntax-only -x c "$stage/include/berth.h"
if command -v c++ >/dev/null 2>&1; then
    # Every _INIT macro of the header.
    {
        printf '#include <berth.h>\nint main()\n{\n    size_t sum = 0;\n'
        sed -n 's/^#define BERTH_\([A-Z_]*\)_INIT .*/\1/p' "$stage/include/berth.h" | sort -u |
            while IFS= read -r name; do
                type=berth_$(printf '%s' "$name" | tr '[:upper:]' '[:lower:]')
                printf '    { %s one = BERTH_%s_INIT; sum += one.struct_size; }\n' "$type" "$name"
            done
        printf '    return sum == 0;\n}\n'
    } >"$work/a.cc"
    [ "$(grep -c _INIT "$work/a.cc")" -ge 15 ] || {
        echo "install: the _INIT macros were not found"
        exit 1
    }
    c++ -std=c++17 -pedantic -Wall -Wextra -Werror -fsyntax-only -I"$stage/include" "$work/a.cc"
fi

# Every local function of the archive, as the host's own.
nm "$lib/libberth.a" | awk '
    BEGIN { print "extern int host_calls;\nint host_calls = 0;" }
    $2 == "t" && $3 ~ /^[a-z_][a-z0-9_]*$/ && !($3 in seen) {
        seen[$3] = 1
        count++
        print "int " $3 "(void);\nint " $3 "(void)\n{\n    return ++host_calls;\n}"
    }
    END { if (count < 10) print "#error no internal function found in the archive" }' >"$work/taken.c"

export PKG_CONFIG_PATH="$lib/pkgconfig"
flags="-std=c11 -fno-builtin"
# shellcheck disable=SC2046,SC2086 # lists of flags
shared_way() {
    "$cc" $flags "$consumer/main.c" "$work/taken.c" -o "$work/shared" $(pkg-config --cflags --libs berth) &&
        LD_LIBRARY_PATH=$lib "$work/shared"
}
# shellcheck disable=SC2046,SC2086 # lists of flags
static_way() { # static_way ARCHIVE
    "$cc" $flags "$consumer/main.c" "$work/taken.c" -o "$work/static" $(pkg-config --cflags berth) "$1" \
        $(pkg-config --static --libs berth | sed 's/-lberth//') &&
        "$work/static"
}
package_way() {
    cmake -S "$consumer" -B "$work/package" -G Ninja -DCMAKE_PREFIX_PATH="$stage" -DCMAKE_C_COMPILER="$cc" \
        -DCMAKE_C_FLAGS=-fno-builtin -DTAKEN="$work/taken.c" >/dev/null &&
        cmake --build "$work/package" >/dev/null &&
        "$work/package/shared" &&
        "$work/package/static"
}
passes shared_way
cat "$work/said"
passes static_way "$lib/libberth.a"
if ldd "$work/static" | grep -q libberth; then
    echo "install: the static program needs libberth.so"
    exit 1
fi
passes package_way

# An archive of the plain objects: the host's functions and ours meet, which must not go unnoticed.
rm -f "$work/plain.a"
xargs ar rcs "$work/plain.a" <"$build/objects.txt"
if static_way "$work/plain.a" >"$work/said" 2>&1; then
    echo "self-test: an archive without local symbols passed"
    exit 1
fi
planted=$((planted + 1))
finish
