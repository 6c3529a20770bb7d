#!/bin/bash
# The data directory that a command uses, and what it says when a state refuses a step.
. "$(dirname "$0")/lib.sh"
images=$LIB_ROOT/build/data/images
[ -d "$images" ] || { echo "Bail out! $images is not there: run make test-images first"; exit 1; }
mkdir -p place/relative && ln -s "$images" place/relative/images
export DOZE_DATA=$PWD/place/relative
stop_daemon() {
    local pid
    pid=$(tr -dc 0-9 <"$DOZE_DATA/daemon.lock") && kill "-$1" "$pid" && while kill -0 "$pid" 2>/dev/null; do sleep 0.02; done
}
trap 'stop_daemon KILL 2>/dev/null; rm -rf "$LIB_SCRATCH"' EXIT

# The daemon has / as its directory. To whom / is read-only, it ends at once; root would find
# /relative there.
test_that 'a relative DOZE_DATA means the directory of the caller, for the daemon too' '
    cd place && DOZE_DATA=relative run 0 timeout 20 doze ls && has err "started one on $DOZE_DATA (its log" &&
    [ -S "$DOZE_DATA/doze.sock" ] && [ ! -e /relative ] && rm -f out err && cd relative && DOZE_DATA=. run 0 doze ls -q && empty err
'
test_that 'a relative DOZE_DATA is made absolute wherever it is shown' '
    cd place && DOZE_DATA=relative doze doctor --json >doctor || : ; has doctor "\"data_dir\":\"$DOZE_DATA\"" &&
    DOZE_DATA=./relative run 0 doze config && has out "$DOZE_DATA"
'
test_that 'an active sandbox is not frozen: the message says what to do, and that works' '
    run 0 doze create base --name lab && run 1 doze freeze lab &&
    has err "cannot freeze an active sandbox; suspend it first (doze suspend NAME)" && lacks err archive &&
    run 0 doze suspend lab && run 0 doze freeze lab && run 1 doze suspend lab &&
    has err "cannot suspend a frozen sandbox; wake it first (doze wake NAME)" && run 0 doze wake lab && run 0 doze suspend lab
'
test_that 'an archived sandbox is revived first' '
    run 0 doze freeze lab && run 0 doze archive lab && run 1 doze freeze lab &&
    has err "cannot freeze an archived sandbox; revive it first (doze revive NAME)" && run 0 doze revive lab
'
test_that 'an ephemeral sandbox is not put to sleep: the message names the other ways' '
    run 0 doze create base --ephemeral --name short && run 1 doze suspend short && has err "cannot suspend an ephemeral sandbox" && has err "doze rm sbx_"
'
test_done
