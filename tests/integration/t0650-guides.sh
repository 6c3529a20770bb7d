#!/bin/bash
# Guides are tests: every command block of README.md and docs/guide runs literally, in order, one
# directory and one daemon for each document. tests/lib/guide_blocks.py says what a block is and how a
# document marks one that cannot run here; tests/lib/guide_skips lists those and may only shrink.
# An answer that a document shows behind a block is compared with the output (guide_answer.py).
# Needs the images base and python (make test-images).
# shellcheck disable=SC2016 # $ inside of tests
. "$(dirname "$0")/lib.sh"
images=$LIB_ROOT/build/data/images
[ -d "$images" ] || { echo "Bail out! $images is not there: run make test-images first"; exit 1; }
daemon_pid() { [ -e "$1/.local/share/doze/daemon.lock" ] && tr -dc 0-9 <"$1/.local/share/doze/daemon.lock"; }
clean_up() {
    local h p
    for h in "$LIB_SCRATCH"/homes/*; do
        p=$(daemon_pid "$h") && [ "$p" ] && kill -9 "$p" 2>/dev/null
    done
    for p in $(cat "$LIB_SCRATCH/pids" 2>/dev/null); do kill "$p" 2>/dev/null; done
    rm -rf "$LIB_SCRATCH"
}
trap clean_up EXIT

# The blocks of one document, in one shell. A status of 75 is no failure: the sandbox sleeps.
cat >"$LIB_SCRATCH/run-blocks" <<'R'
set -E -o pipefail
trap 'status=$?; [ $status -eq 75 ] || { echo "exit $status: $BASH_COMMAND"; bad=1; }' ERR
mkfifo "$1/terminal" && exec 4<>"$1/terminal" # nobody writes, and it never ends
exec 3<"$1/list"
while IFS=$'\t' read -r -u 3 what n line why; do
    [ "$what" = run ] || continue
    bad=0
    input=/dev/null
    [ ! -s "$1/$n.terminal" ] || input=$1/terminal
    { eval "$(cat "$1/$n.before")"; eval "$(cat "$1/$n.sh")"; } >"$1/$n.out" 2>&1 <"$input"
    while IFS= read -r text; do
        grep -qF -e "$text" "$1/$n.out" || { echo "not shown: $text" >>"$1/$n.out"; bad=1; }
    done <"$1/$n.shows"
    echo "$bad" >"$1/$n.done"
done
jobs -p >>"$2"
R

guide() { # DOCUMENT
    local document=$1 name dir home
    name=$(basename "$document" .md)
    dir=$LIB_SCRATCH/blocks/$name home=$LIB_SCRATCH/homes/$name
    mkdir -p "$dir" "$home/.local/share/doze" "$LIB_SCRATCH/in/$name" &&
        python3 "$LIB_ROOT/tests/lib/guide_blocks.py" "$LIB_ROOT/$document" "$dir" || return 1
    cut -f1 "$dir/list" | grep -q run || return 0
    cp -rl "$images" "$home/.local/share/doze/images" 2>/dev/null || cp -r --reflink=auto "$images" "$home/.local/share/doze/images"
    (cd "$LIB_SCRATCH/in/$name" && HOME=$home timeout -k 5 150 bash "$LIB_SCRATCH/run-blocks" "$dir" "$LIB_SCRATCH/pids")
}
run_of() { # DOCUMENT BLOCK
    local dir
    dir=$LIB_SCRATCH/blocks/$(basename "$1" .md)
    [ -e "$dir/$2.done" ] || { echo "not ended:"; cat "$dir/$2.sh" "$dir/$2.out"; return 1; }
    [ "$(cat "$dir/$2.done")" = 0 ] && { [ ! -s "$dir/$2.answer" ] || python3 "$LIB_ROOT/tests/lib/guide_answer.py" "$dir/$2.answer" "$dir/$2.out"; } ||
        { cat "$dir/$2.sh"; echo "--- printed"; tail -n 100 "$dir/$2.out" | cut -c1-1000; return 1; }
}

documents="README.md $(cd "$LIB_ROOT" && echo docs/guide/*.md)"
for document in ${GUIDES:-$documents}; do
    guide "$document"
    while IFS=$'\t' read -r what n line why; do
        if [ "$what" = skip ]; then
            echo "$document: $why" >>"$LIB_SCRATCH/skips"
            test_that "$document:$line" "skip '$why'"
        else
            test_that "$document:$line" "run_of '$document' '$n'"
        fi
    done <"$LIB_SCRATCH/blocks/$(basename "$document" .md)/list"
done
[ -n "${GUIDES:-}" ] || test_that 'no block is left out but those of tests/lib/guide_skips' '
    sort "$LIB_SCRATCH/skips" >is && sort "$LIB_ROOT/tests/lib/guide_skips" | diff - is
'
test_done
