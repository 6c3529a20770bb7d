# shellcheck shell=bash
# lib.sh - what every integration test starts with:
#
#     . "$(dirname "$0")/lib.sh"
#     test_that 'help names the program' '
#         run 0 doze help &&
#         has out "usage: doze"
#     '
#     test_done
#
# Each test is a string of commands, run in a subshell with errexit, in a
# scratch directory that the whole file shares and that goes at the end. What it
# prints is shown when it fails. Output is TAP. `doze` is the program under test:
# $DOZE, or build/debug-gcc/doze.
set -u

LIB_ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
DOZE=${DOZE:-build/debug-gcc/doze}
case $DOZE in /*) ;; *) DOZE=$LIB_ROOT/$DOZE ;; esac
[ -x "$DOZE" ] || { echo "Bail out! $DOZE is not there: run make first"; exit 1; }
export DOZE LIB_ROOT

LIB_SCRATCH=$(mktemp -d "${TMPDIR:-/tmp}/doze-test.XXXXXX") || exit 1
trap 'rm -rf "$LIB_SCRATCH"' EXIT
mkdir "$LIB_SCRATCH/work" "$LIB_SCRATCH/home" "$LIB_SCRATCH/bin"
ln -s "$DOZE" "$LIB_SCRATCH/bin/doze"
cd "$LIB_SCRATCH/work" || exit 1

# Programs of other people that some tests run, installed by `make bench-peers`.
export DOZE_PEERS=${DOZE_PEERS:-$HOME/.cache/doze-peers}

# The same surroundings for everybody.
export HOME=$LIB_SCRATCH/home PATH=$LIB_SCRATCH/bin:$PATH LC_ALL=C.UTF-8 TERM=dumb
export DOZE_CONFIG=/dev/null # not this machine's
[ -z "${DZ_MET:-}" ] || export DOZE_LOG_LEVEL=debug
unset DOZE_DATA DOZE_URL DOZE_TOKEN XDG_CONFIG_HOME XDG_DATA_HOME NO_COLOR POSIXLY_CORRECT COLUMNS

LIB_COUNT=0
LIB_FAILED=0

# run STATUS COMMAND...: run it, output in the files out and err; fails, and
# shows both, when it ends with another status.
run() {
    local want=$1 got=0
    shift
    "$@" >out 2>err || got=$?
    [ "$got" -eq "$want" ] && return 0
    echo "exit $got, not $want: $*"
    head -n 40 out | cut -c1-300 | sed "s/^/  out: /"
    sed 's/^/  err: /' err
    return 1
}

# has FILE TEXT, lacks FILE TEXT: does a line contain this text?
has() {
    grep -qF -e "$2" "$1" && return 0
    echo "no \"$2\" in $1:"
    sed 's/^/  /' "$1"
    return 1
}
lacks() {
    grep -qF -e "$2" "$1" || return 0
    echo "\"$2\" in $1:"
    sed 's/^/  /' "$1"
    return 1
}

# empty FILE, lines FILE COUNT
empty() {
    [ ! -s "$1" ] && return 0
    echo "$1 is not empty:"
    sed 's/^/  /' "$1"
    return 1
}
lines() {
    [ "$(wc -l <"$1")" -eq "$2" ] && return 0
    echo "$1 has not $2 lines:"
    sed 's/^/  /' "$1"
    return 1
}

# with_base: `doze run` starts from the base that `make base` built.
with_base() {
    export DOZE_BASE=$LIB_ROOT/build/base/base.doze
    [ -f "$DOZE_BASE" ] || { echo "Bail out! $DOZE_BASE is not there: run make base first"; exit 1; }
}

# guest_wasm FILE: the program that tests/lib/guest_wasm.h describes.
guest_wasm() {
    grep -oE '0x[0-9a-f]{2}\>' "$LIB_ROOT/tests/lib/guest_wasm.h" | sed 's/0x/\\x/' | tr -d '\n' |
        xargs -0 printf '%b' >"$1"
}

# skip WHY: inside a test, leave it.
skip() {
    echo "$1"
    exit 77
}

test_that() { # WHAT COMMANDS
    local what=$1 status=0 verdict=ok note=''
    LIB_COUNT=$((LIB_COUNT + 1))
    # Not as a condition: bash would then ignore errexit inside.
    (
        set -e
        eval "$2"
    ) >"$LIB_SCRATCH/log" 2>&1 </dev/null
    status=$?
    if [ "$status" -eq 77 ]; then
        note=" # SKIP $(tail -1 "$LIB_SCRATCH/log")"
        case ",${DZ_TEST_MUST_RUN:-}," in *",$(basename "$0" .sh),"*) status=1 ;; esac
    fi
    if [ "$status" -ne 0 ] && [ "$status" -ne 77 ]; then
        LIB_FAILED=$((LIB_FAILED + 1))
        verdict='not ok'
        note=''
        sed -e 's/^/# /' -e '$a\' "$LIB_SCRATCH/log"
    fi
    echo "$verdict $LIB_COUNT - $what$note"
}

# With DZ_MET, the daemons' lines about requests go there, for tests/openapi/met.
test_done() {
    [ -z "${DZ_MET:-}" ] || find "$LIB_SCRATCH" -name '*.log' -exec grep -ah ' event=request ' {} + >>"$DZ_MET"
    echo "1..$LIB_COUNT"
    [ "$LIB_FAILED" -eq 0 ]
    exit
}
