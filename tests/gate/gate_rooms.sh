# SPDX-License-Identifier: MIT
. "$(dirname "$0")/lib.sh"
"$root/tools/check-rooms" "$root"

check="$root/tools/check-rooms"
tree=$work/tree
plant() { # plant FILE LINE
    rm -rf "$tree"
    mkdir -p "$tree/src/base" "$tree/src/os" "$tree/src/quant" "$tree/app/cli" "$tree/app/common" "$tree/app/server" "$tree/tests/unit" "$tree/include"
    printf 'base: api\nos: base\nquant: base\nsession: base os quant\n' >"$tree/src/ROOMS"
    printf '#include <stdint.h>\n' >"$tree/include/berth.h"
    printf '#include "berth.h"\n' >"$tree/src/base/str.h"
    printf '#include "base/str.h"\n#include <unistd.h>\n' >"$tree/src/os/file.h"
    printf '#include "base/str.h"\n' >"$tree/src/quant/quant.h"
    printf '#include "os/file.h"\n#include "quant/quant.h"\n' >"$tree/src/tool.h"
    printf '#include "berth.h"\n#include "tool.h"\n#include "base/str.h"\n#include <unistd.h>\n' >"$tree/app/cli/main.c"
    printf '#include "quant/quant.h"\n#include "os/file.h"\n' >"$tree/tests/unit/test_x.c"
    passes "$check" "$tree"
    printf '%s\n' "$2" >>"$tree/$1"
}
plant src/base/str.h '#include "os/file.h"'
catches 'src/base/str.h:2: base may not include os/file.h' "$check" "$tree"
plant src/quant/quant.h '#  include "os/file.h"'
catches 'quant may not include os/file.h' "$check" "$tree"
plant src/quant/quant.h '#include "str.h"'
catches 'quoted includes name their room' "$check" "$tree"
plant src/quant/quant.h '#include "base/gone.h"'
catches 'src/base/gone.h does not exist' "$check" "$tree"
plant src/quant/quant.h '#include "tool.h"'
catches 'quant may not include tool.h' "$check" "$tree"
plant src/quant/quant.h '#include <pthread.h>'
catches 'platform header' "$check" "$tree"
plant src/quant/quant.h '#include QUANT_TABLE'
catches 'include by macro' "$check" "$tree"
plant app/cli/main.c '#include "quant/quant.h"'
catches 'app/ may not include quant/quant.h' "$check" "$tree"
plant app/common/report.c '#include "store/store.h"'
catches 'app/ may not include store/store.h' "$check" "$tree"
plant app/cli/main.c '#include "store/store.h"'
passes "$check" "$tree"
plant app/cli/main.c '#include "server/http.h"'
catches 'app/ may not include server/http.h' "$check" "$tree"
plant include/berth.h '#include "base/str.h"'
catches 'berth.h stands alone' "$check" "$tree"
plant tests/unit/test_x.c '#include "../../src/base/str.c"'
catches 'includes the source file' "$check" "$tree"
plant src/ROOMS 'late: session later'
catches 'later, which is not an earlier room' "$check" "$tree"
plant src/ROOMS 'os: base'
catches 'os is listed twice' "$check" "$tree"
plant src/ROOMS ''
printf 'base: quant\nos: base\nquant: base\nsession: base os quant\n' >"$tree/src/ROOMS"
catches 'cycle through base' "$check" "$tree"
plant src/ROOMS ''
mkdir "$tree/src/attic"
printf '#include "base/str.h"\n' >"$tree/src/attic/old.c"
catches 'room attic has no line in src/ROOMS' "$check" "$tree"
catches 'no #include found' "$check" "$work"
finish
