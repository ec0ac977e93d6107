# SPDX-License-Identifier: MIT
# models: every store's layout, rows that follow the files, names on the command line, the choice; a store that cannot
# be used.
. "$(dirname "$0")/lib.sh"

# A GGUF, and a directory of safetensors, small enough to copy.
go convert "$golden/qwen3-moe" "$work/tiny.gguf" --type q8_0
want_code 0
tiny=$work/tiny.gguf

go models --json
want_code 0
want_json
want_value models.# 0
go models
want_err 'no models found'

# Hugging Face: the snapshot that refs/main names, links to blobs; GGUF files in a repository.
hub=$HOME/.cache/huggingface/hub
snap=$hub/models--acme--Small-MoE/snapshots/abc123
mkdir -p "$snap" "$hub/models--acme--Small-MoE/blobs" "$hub/models--acme--Small-MoE/refs" \
    "$hub/models--acme--Small-MoE/snapshots/older"
printf 'abc123\n' >"$hub/models--acme--Small-MoE/refs/main"
cp "$golden/olmoe/model.safetensors" "$hub/models--acme--Small-MoE/blobs/b1"
cp "$golden/olmoe/config.json" "$hub/models--acme--Small-MoE/blobs/b2"
for folder in "$snap" "$hub/models--acme--Small-MoE/snapshots/older"; do
    ln -s "../../blobs/b1" "$folder/model.safetensors"
    ln -s "../../blobs/b2" "$folder/config.json"
done
mkdir -p "$hub/models--acme--Gguf/snapshots/d4"
cp "$tiny" "$hub/models--acme--Gguf/snapshots/d4/small-q8.gguf"
# LM Studio, llama.cpp.
mkdir -p "$HOME/.lmstudio/models/pub/Thing-GGUF" "$HOME/.cache/llama.cpp"
cp "$tiny" "$HOME/.lmstudio/models/pub/Thing-GGUF/thing-Q8.gguf"
cp "$tiny" "$HOME/.lmstudio/models/pub/Thing-GGUF/mmproj-thing.gguf"
cp "$tiny" "$HOME/.cache/llama.cpp/acme_other.gguf"
# Ollama: a manifest names the blob.
digest=$(printf '%064d' 7)
mkdir -p "$HOME/.ollama/models/blobs" "$HOME/.ollama/models/manifests/registry.example/library/tinymoe"
cp "$tiny" "$HOME/.ollama/models/blobs/sha256-$digest"
printf '{"schemaVersion":2,"config":{"digest":"sha256:%064d"},"layers":[{"mediaType":"application/vnd.ollama.image.template","digest":"sha256:%064d"},{"mediaType":"application/vnd.ollama.image.model","digest":"sha256:%s","size":5}]}' \
    1 2 "$digest" >"$HOME/.ollama/models/manifests/registry.example/library/tinymoe/latest"
# A folder of the user's, with a split model, a file that is no model, and a later part.
mkdir -p "$work/mine/deep"
cp "$tiny" "$work/mine/deep/own-model.gguf"
printf 'not a model' >"$work/mine/bad.gguf"
go models --add "$work/mine" --json
want_code 0
want_json
want_value models.# 7
origin_of() { # NAME: its origin
    at=0
    while name=$(value "models.$at.name" 2>/dev/null); do
        [ "$name" = "$1" ] && value "models.$at.origin" && return
        at=$((at + 1))
    done
}
expect_origin() { # NAME ORIGIN
    checks=$((checks + 1))
    got=$(origin_of "$1")
    [ "$got" = "$2" ] || fail "model $1 has origin '$got', want '$2'"
}
expect_origin acme/Small-MoE huggingface
expect_origin acme/Gguf:small-q8 huggingface
expect_origin pub/Thing-GGUF/thing-Q8 lmstudio
expect_origin acme_other llama.cpp
expect_origin tinymoe:latest ollama
expect_origin deep/own-model folder
expect_origin bad folder
want_value read 7

# Unchanged files are not read again; changed ones are; vanished ones go.
go models --json
want_value read 0
want_value found 7
go models --scan --json
want_value read 7
touch -d '2001-02-03' "$work/mine/deep/own-model.gguf"
go models --json
want_value read 1
rm "$HOME/.cache/llama.cpp/acme_other.gguf"
go models --json
want_value gone 1
want_value models.# 6
go models
want_code 0
want_out 'acme/Small-MoE'
want_out 'not supported'
want_out 'fits'
go models --paths own
want_out "$work/mine/deep/own-model.gguf"

# Names: whole, a part, in any case; ambiguity; a file of that name wins.
go fit tinymoe:latest --json --budget 1GiB
want_code 0
want_value model.path "$HOME/.ollama/models/blobs/sha256-$digest"
go fit SMALL-MOE --json --budget 1GiB
want_code 0
want_value model.path "$snap"
go fit own-mod --json --budget 1GiB
want_value model.path "$work/mine/deep/own-model.gguf"
go run own-model --ids 1,2,3 -n 2 --quiet
want_code 0
go inspect tinymoe --json
want_code 0
go run acme --ids 1,2,3 -n 2
want_code 2
want_no_out
want_err "'acme' may be any of 2 models"
want_err 'acme/Small-MoE'
go run nonsense --ids 1,2,3 -n 2
want_code 1
want_err 'no known model is called so'
go fit "$work/nonsense.gguf"
want_code 1
(cd "$work" && cp tiny.gguf acme && "$berth" fit acme --json --budget 1GiB) >"$work/out" 2>"$work/err"
code=$?
want_code 0
want_value model.path acme

# What fit and run plan by name is the same, to the byte.
go fit own-model --json --budget 64MiB --ctx 32
plan=$(value plan.plan_bytes)
go run own-model --ids 1,2,3 -n 2 --budget 64MiB --ctx 32 --json
want_value plan.plan_bytes "$plan"

# The choice: the default if it fits, else the largest that leaves a share, else one that streams.
go models --pick --json --budget 1GiB
want_code 0
want_json
largest=$(value path)
go models --default tinymoe:latest --pick --budget 1GiB
want_code 0
want_out "sha256-$digest"
want_err 'the default, and it fits'
go models --default '' --pick --budget 1GiB
want_out "$largest"
want_err 'leaves other programs'
go models --pick --budget 1MiB
want_code 1
want_err 'no known model fits'
go run auto --ids 1,2,3 -n 2 --quiet
want_code 0
go models --remove "$work/mine" --json
want_value models.# 4
go models --add "$work/absent"
want_code 1

# A store that is damaged, foreign or newer is left as it is, and runs go on without it.
for kind in damaged foreign newer; do
    BERTH_HOME=$work/$kind
    export BERTH_HOME
    mkdir -p "$BERTH_HOME"
    case $kind in
    damaged) printf 'this is no database, it is something else altogether' >"$BERTH_HOME/berth.db" ;;
    foreign) cp "$root/tests/golden/store/foreign.db" "$BERTH_HOME/berth.db" ;;
    newer) cp "$root/tests/golden/store/newer.db" "$BERTH_HOME/berth.db" ;;
    esac
    chmod u+w "$BERTH_HOME/berth.db"
    before=$(cksum <"$BERTH_HOME/berth.db")
    go models
    want_code 1
    want_err "$BERTH_HOME/berth.db"
    want_err 'left as it is'
    go fit "$tiny" --budget 1GiB
    want_code 0
    go run "$root/models/pocket-moe-q8_0.gguf" --ids 1,2,3 -n 4
    want_code 0
    want_err 'this run was not kept'
    checks=$((checks + 1))
    [ "$before" = "$(cksum <"$BERTH_HOME/berth.db")" ] || fail "the $kind store was changed"
done

# A pipe in the place of the store, or of a file that a store's layout names: an error, not a wait.
kept=$BERTH_HOME
export BERTH_HOME=$work/piped
mkdir -p "$BERTH_HOME"
mkfifo "$BERTH_HOME/berth.db"
go models
want_code 1
want_err 'not a regular file'
go run "$root/models/pocket-moe-q8_0.gguf" --ids 1,2,3 -n 2
want_code 0
want_err 'this run was not kept'
export BERTH_HOME=$work/links
mkdir -p "$hub/models--acme--Pipe/refs"
mkfifo "$hub/models--acme--Pipe/refs/main"

# Links back to a folder above are one folder; names with control characters stay one line.
odd=$work/odd
mkdir -p "$odd/below/$(printf 'a\033[31m\nb')"
cp "$tiny" "$odd/below/$(printf 'a\033[31m\nb')/x.gguf"
ln -s . "$odd/self"
ln -s ../.. "$odd/below/up"
go models --add "$odd"
want_code 0
checks=$((checks + 1))
[ "$(grep -c 'b/x  ' "$work/out")" = 1 ] || fail "a link back lists a model twice"
checks=$((checks + 1))
! grep -q "$(printf '\033')" "$work/out" || fail "a control character reached the table"
BERTH_HOME=$kept
BERTH_HOME=$work/fresh
go models --remove "$work/never-added"
want_code 1
want_err 'no such folder was added'
finish
