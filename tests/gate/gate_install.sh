# SPDX-License-Identifier: MIT
# Installs this build, moves the tree away, and builds a host program against it in four ways: pkg-config and
# find_package, shared and static. The host defines functions of the same names as all of our internals. Then builds and
# runs the examples, and the program that README shows.
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

# Our berth.pc alone: the .pc files of what we link may be absent where a program is built.
export PKG_CONFIG_LIBDIR="$lib/pkgconfig"
unset PKG_CONFIG_PATH
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
    env -u PKG_CONFIG_LIBDIR cmake -S "$consumer" -B "$work/package" -G Ninja -DCMAKE_PREFIX_PATH="$stage" -DCMAKE_C_COMPILER="$cc" \
        -DCMAKE_C_FLAGS=-fno-builtin -DTAKEN="$work/taken.c" >/dev/null &&
        cmake --build "$work/package" >/dev/null &&
        "$work/package/shared" &&
        "$work/package/static"
}
# The shared library needs nothing of ours' needs, the archive all of it.
pc_way() ( # pc_way DIRECTORY
    PKG_CONFIG_LIBDIR=$1
    shared=$(pkg-config --cflags --libs berth) && static=$(pkg-config --static --libs berth) || exit 1
    case $shared in
    *pcre* | *utf8proc* | *UTF8PROC* | *pthread*)
        echo "the flags of the shared library name what it links itself: $shared"
        exit 1
        ;;
    esac
    for flag in -lberth -lpcre2-8 -lutf8proc -lm; do
        case " $static " in
        *" $flag "*) ;;
        *)
            echo "the flags of the archive lack $flag: $static"
            exit 1
            ;;
        esac
    done
)
passes pc_way "$lib/pkgconfig"
sed 's/^Libs.private:.*/Requires.private: libpcre2-8 libutf8proc/' "$lib/pkgconfig/berth.pc" >"$work/berth.pc"
catches libpcre2-8 pc_way "$work"
sed 's/^Libs:/Libs: -lpcre2-8/' "$lib/pkgconfig/berth.pc" >"$work/berth.pc"
catches "what it links itself" pc_way "$work"
sed '/^Libs.private:/d' "$lib/pkgconfig/berth.pc" >"$work/berth.pc"
catches "lack -lpcre2-8" pc_way "$work"
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

# The examples as installed, on the bundled model. What they say is what the program says.
model=$root/models/pocket-moe-q8_0.gguf
warnings="-std=c11 -pedantic -Wall -Wextra -Wconversion -Wshadow -Werror"
# shellcheck disable=SC2046,SC2086 # lists of flags
build_example() { # build_example SOURCE PROGRAM
    "$cc" $warnings "$1" -o "$2" $(pkg-config --cflags --libs berth)
}
# example STATUS NAME ARGUMENT...: output in $work/said, errors too
example() {
    want=$1
    name=$2
    shift 2
    status=0
    LD_LIBRARY_PATH=$lib "$work/$name" "$@" >"$work/said" 2>&1 || status=$?
    [ "$status" = "$want" ] || {
        echo "install: $name $* ended with status $status, want $want"
        cat "$work/said"
        exit 1
    }
}
says() { # says TEXT
    grep -qF -- "$1" "$work/said" || {
        echo "install: an example does not say '$1':"
        cat "$work/said"
        exit 1
    }
}
for name in generate plan; do
    source=$(find "$stage/share/doc" -name "$name.c")
    [ -n "$source" ] || {
        echo "install: the example $name.c is missing"
        exit 1
    }
    passes build_example "$source" "$work/$name"
    example 1 "$name" "$work/no-such.gguf" 32 Hello
    says "$name: $work/no-such.gguf: "
    example 2 "$name"
    says "usage: "
done
example 1 generate "$model" 4 Hello
says "needs at least"
example 0 generate "$model" 32 "The kernel is" 24
if [ -x "$build/berth" ]; then
    "$build/berth" run "$model" --budget 32MiB -p "The kernel is" -n 24 --temp 0 --ledger off --no-store -q >"$work/program" 2>/dev/null
    printf '%s\n' "$(cat "$work/program")" >"$work/want"
    cmp -s "$work/want" "$work/said" || {
        echo "install: generate and berth run write different texts:"
        diff "$work/want" "$work/said" || true
        exit 1
    }
fi
example 3 plan "$model" 4
says "does not fit: it needs at least"
example 0 plan "$model" 32 10 1
says "streams: "
grep -qE '^speed +[1-9][0-9.]* tokens a second \([0-9.]+ to [0-9.]+\), limited by ' "$work/said" || {
    echo "install: plan predicts no speed:"
    cat "$work/said"
    exit 1
}
example 0 plan "$model" 32
says "speed            unknown"
if [ -x "$build/berth" ]; then
    ctx=$("$build/berth" fit "$model" --budget 32MiB --json | tr ',{}' '\n\n\n' | sed -n 's/^ *"ctx_max": *\([0-9]*\).*/\1/p' | head -n 1)
    says "largest context  $ctx tokens"
fi

# README's program, as it stands there.
{
    printf '#include <berth.h>\n#include <stdio.h>\nint main(void)\n{\n'
    sed -n '/^```c$/,/^```$/p' "$root/README.md" | grep -vE '^```|^#include'
    printf 'return 0;\n}\n'
} >"$work/readme.c"
passes build_example "$work/readme.c" "$work/readme"
(cd "$work" && example 1 readme && says "model.gguf: ")
finish
