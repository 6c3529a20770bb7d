#!/bin/bash
# The program as such: versions, mistakes, streams, signals.
. "$(dirname "$0")/lib.sh"

test_that 'the helpers of these tests notice failures' '
    ! run 0 false &&
    ! run 1 true &&
    echo text >file &&
    ! has file other && ! lacks file text && ! empty file && ! lines file 2 &&
    has file text && lacks file other && lines file 1
'

test_that '--version prints name and number' '
    run 0 doze --version &&
    empty err && lines out 1 && grep -Eq "^doze [0-9]+\.[0-9]+\.[0-9]+$" out &&
    cp out first && run 0 doze -V && cmp out first
'

test_that 'no words at all: the list on standard error, exit 2' '
    run 2 doze && empty out && has err "usage: doze COMMAND"
'

test_that 'an unknown command: one line, the nearest, exit 2' '
    run 2 doze docter && empty out && lines err 1 &&
    has err "doze: unknown command \"docter\"; did you mean \"doctor\"?" &&
    run 2 doze qqqqqqqq && empty out && lines err 1 && has err "doze help lists the commands"
'

test_that 'an unknown option: one line, the nearest, exit 2' '
    run 2 doze doctor --jsno && empty out && lines err 1 && has err "did you mean --json?" &&
    run 2 doze doctor -Z && lines err 1 && has err "unknown option \"-Z\"" &&
    run 2 doze --frobnicate && empty out && lines err 1
'

test_that 'commands of two words: half a name, a mistyped half, the wrong half' '
    run 2 doze wasm && empty out && lines err 1 && has err "doze help wasm lists them" &&
    run 0 doze help wasm && has out "wasm info" && cp out first &&
    run 0 doze wasm --help && cmp out first &&
    run 2 doze wasm inof && lines err 1 && has err "did you mean \"wasm info\"?" &&
    run 2 doze wsam info && lines err 1 && has err "did you mean \"wasm\"?" &&
    run 2 doze info && lines err 1 && has err "did you mean \"wasm info\"?"
'

test_that 'wrong use of options and operands: one line, exit 2' '
    run 2 doze doctor --data && lines err 1 && has err "--data requires an argument (DIR)" &&
    run 2 doze doctor -d && lines err 1 && has err "--data requires an argument (DIR)" &&
    run 2 doze doctor --json=1 && lines err 1 && has err "--json takes no argument" &&
    run 2 doze doctor --help=1 && lines err 1 && has err "--help takes no argument" &&
    run 2 doze doctor extra && lines err 1 && has err "unexpected argument \"extra\""
'

test_that 'words of every kind do no harm' '
    run 2 doze "" && lines err 1 &&
    run 2 doze " " && lines err 1 &&
    run 2 doze - && lines err 1 &&
    run 2 doze -- && lines err 1 &&
    run 2 doze "$(printf "a\nb")" && lines err 1 &&
    run 2 doze "$(printf "\033[31mred\377")" && lines err 1 &&
    ! grep -q "$(printf "\033")" err &&
    run 2 doze "$(head -c 100000 /dev/zero | tr "\0" x)" && lines err 1 &&
    [ "$(wc -c <err)" -lt 300 ] &&
    run 2 doze help "$(head -c 100000 /dev/zero | tr "\0" x)" && lines err 1 &&
    run 2 doze doctor "--$(head -c 100000 /dev/zero | tr "\0" x)" && lines err 1 &&
    run 2 doze "%s%n" && has err "%s%n"
'

test_that 'a call without even a name does no harm' '
    run 2 bash -c "exec -a \"\" doze" && has err "usage:"
'

test_that 'a full disk is an error, exit 1' '
    [ -c /dev/full ] || skip "no /dev/full" ;
    status=0; doze help >/dev/full 2>err || status=$? ;
    [ "$status" -eq 1 ] && lines err 1 && has err "No space left on device" &&
    status=0; doze doctor --json >/dev/full 2>err || status=$? ;
    [ "$status" -eq 1 ] && lines err 1
'

test_that 'a closed standard output is an error, exit 1' '
    status=0; doze help >&- 2>err || status=$? ;
    [ "$status" -eq 1 ] && lines err 1 && has err "Bad file descriptor"
'

test_that 'all three streams closed: still the right status' '
    status=0; doze help <&- >&- 2>&- || status=$? ; [ "$status" -eq 1 ] &&
    status=0; doze nonsense <&- >&- 2>&- || status=$? ; [ "$status" -eq 2 ]
'

test_that 'a reader who leaves early is not complained about' '
    for i in 1 2 3 4 5; do
        { doze help --all || echo "$?" >status; } 2>err | true ;
        empty err && { [ ! -e status ] || [ "$(cat status)" -eq 141 ]; } || exit 1
    done &&
    { (trap "" PIPE; doze help --all; echo "$?" >status) 2>err | true; } && empty err
'

test_that 'not even when the caller blocks SIGPIPE' '
    mkfifo gone && exec 9<>gone 8>gone 9<&- && # a pipe whose reader has left
    status=0 && { env --block-signal=PIPE "$DOZE" help --all >&8 2>err || status=$?; } &&
    empty err && [ "$status" -eq 1 ]
'

test_that 'descriptors that the caller closed are not taken by files' '
    mkfifo closed && exec 9<>closed && head -c 65536 /dev/zero >&9 &&
    { "$DOZE" nonsense <&- >&- 2>&9 & } && pid=$! &&
    until grep -q pipe_write "/proc/$pid/wchan"; do kill -0 $pid || exit 1; done &&
    [ "$(readlink "/proc/$pid/fd/0")" = /dev/null ] &&
    [ "$(readlink "/proc/$pid/fd/1")" = /dev/null ] &&
    kill $pid
'

test_that 'a command that is interrupted dies by the signal' '
    mkfifo pipe && exec 9<>pipe &&
    head -c 65536 /dev/zero >&9 && # the pipe is full: what is written next must wait
    for sig in INT TERM; do
        env --default-signal=INT "$DOZE" help --all >&9 2>err &
        pid=$!
        until grep -q pipe_write "/proc/$pid/wchan"; do kill -0 $pid || exit 1; done
        kill -$sig $pid
        status=0
        wait $pid || status=$?
        [ "$status" -eq $((128 + $(kill -l $sig))) ] || { echo "status $status"; exit 1; }
        empty err || exit 1
    done
'

test_that 'another language or none changes nothing' '
    doze help >first &&
    LC_ALL=tr_TR.UTF-8 doze help >second && cmp first second &&
    LC_ALL=POSIX doze help >second && cmp first second &&
    LC_ALL=nonsense doze help >second && cmp first second &&
    env -i "$DOZE" help >second && cmp first second
'

test_that 'no library is loaded at each start that only a daemon needs' '
    readelf -d "$DOZE" >libraries &&
    grep -q "libc\.so" libraries &&
    ! grep -E "microhttpd|gnutls|curl|libssl" libraries
'

test_done
