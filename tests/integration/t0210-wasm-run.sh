#!/bin/bash
# doze wasm run: modules that import nothing.
. "$(dirname "$0")/lib.sh"

# section ID HEX...: a section, its size filled in
section() {
    local id=$1 hex size
    shift
    hex=$(printf '%s' "$@" | tr -d ' ')
    size=$((${#hex} / 2))
    printf '%s%02x%02x%s' "$id" $((size % 128 + 128)) $((size / 128)) "$hex"
}

# module SECTION...: its bytes
module() {
    printf '%s' 0061736d01000000 "$@" | sed 's/../\\x&/g' | xargs -0 printf '%b'
}

void=$(section 01 01 600000)
one=$(section 03 01 00)
export void one # used in the tests below

# add, div: (i32, i32) -> (i32); half: f64; third: f32; neg: i64;
# pair: () -> (i32, i64); bits: v128; deep: calls itself for ever
module "$(section 01 07 6002 7f7f 017f 6001 7c 017c 6001 7d 017d 6001 7e 017e 6000 02 7f7e \
    6001 7b 017b 6000 00)" \
    "$(section 03 08 00 00 01 02 03 04 05 06)" \
    "$(section 07 08 03 616464 00 00 03 646976 00 01 04 68616c66 00 02 05 7468697264 00 03 \
        03 6e6567 00 04 04 70616972 00 05 04 62697473 00 06 04 64656570 00 07)" \
    "$(section 0a 08 07 00 2000 2001 6a 0b 07 00 2000 2001 6d 0b \
        0e 00 2000 44 0000000000000040 a3 0b 0a 00 2000 43 00004040 95 0b \
        07 00 4200 2000 7d 0b 06 00 417f 427e 0b 04 00 2000 0b 04 00 1007 0b)" >calls.wasm

test_that 'numbers of every type go in and come out' '
    run 0 doze wasm run calls.wasm --invoke add 2 0x28 && empty err && [ "$(cat out)" = 42 ] &&
    run 0 doze wasm run calls.wasm --invoke add 4294967295 1 && [ "$(cat out)" = 0 ] &&
    run 0 doze wasm run calls.wasm --invoke add -- -7 -35 && [ "$(cat out)" = -42 ] &&
    run 0 doze wasm run -i neg calls.wasm 9223372036854775808 &&
    [ "$(cat out)" = -9223372036854775808 ] &&
    run 0 doze wasm run calls.wasm -i half 0.1 && [ "$(cat out)" = 0.05 ] &&
    run 0 doze wasm run calls.wasm -i half inf && [ "$(cat out)" = inf ] &&
    run 0 doze wasm run calls.wasm -i half nan && [ "$(cat out)" = nan ] &&
    run 0 doze wasm run calls.wasm -i third 1 && [ "$(cat out)" = 0.33333334 ] &&
    run 0 doze wasm run calls.wasm -i bits 0x0123456789abcdef0011223344556677 &&
    [ "$(cat out)" = 0x0123456789abcdef0011223344556677 ] &&
    run 0 doze wasm run calls.wasm -i pair && [ "$(tr "\n" " " <out)" = "-1 -2 " ] &&
    run 0 doze wasm run - -i add 1 2 <calls.wasm && [ "$(cat out)" = 3 ]
'

test_that '--json gives types and values' '
    run 0 doze wasm run --json calls.wasm -i pair &&
    [ "$(cat out)" = "{\"results\":[{\"type\":\"i32\",\"value\":\"-1\"},{\"type\":\"i64\",\"value\":\"-2\"}]}" ]
'

test_that 'a trap: what and where, nothing on standard output, above 128' '
    run 132 doze wasm run calls.wasm -i div 1 0 && empty out &&
    has err "doze: trap: integer divide by zero" && grep -Eq "^doze: in div, byte 0x[0-9a-f]+$" err &&
    run 133 doze wasm run calls.wasm -i div -- -2147483648 -1 && has err "trap: integer overflow" &&
    status=0 && { doze wasm run calls.wasm -i deep >out 2>err || status=$?; } && [ $status -gt 128 ] &&
    has err "trap: call stack exhausted" && has err "called from deep" && has err " more"
'

test_that 'wrong calls: one line' '
    run 2 doze wasm run calls.wasm && lines err 1 && has err "name a function with --invoke" &&
    run 1 doze wasm run calls.wasm -i nothing && lines err 1 && has err "no function \"nothing\"" &&
    run 2 doze wasm run calls.wasm -i add 1 && has err "1 arguments for a function of type (i32, i32) -> (i32)" &&
    run 1 doze wasm run calls.wasm -i add 1 4294967296 && lines err 1 && has err "argument 2 (i32): " &&
    run 1 doze wasm run calls.wasm -i third 1e39 && lines err 1 &&
    run 1 doze wasm run calls.wasm -i bits 12 && has err "is not a v128"
'

test_that 'without --invoke: the start function, then _start' '
    module $void $one $(section 08 00) $(section 0a 01 03 00 00 0b) >start.wasm &&
    run 129 doze wasm run start.wasm && has err "trap: unreachable" &&
    module $void $one $(section 07 01 06 5f7374617274 00 00) $(section 0a 01 03 00 00 0b) >s.wasm &&
    run 129 doze wasm run s.wasm && has err "in _start, byte"
'

test_that 'a module that imports: the missing names, all of them' '
    module $void $(section 02 01 03 656e76 01 66 00 00) $(section 07 01 01 67 00 00) >import.wasm &&
    run 1 doze wasm run import.wasm -i g && lines err 1 && has err "env.f" &&
    module $void $(section 02 05 03 656e76 01 66 00 00 03 656e76 01 67 00 00 03 656e76 01 68 00 00 \
        03 656e76 01 69 00 00 01 78 01 79 02 00 01) $(section 07 01 01 67 00 00) >imports.wasm &&
    run 1 doze wasm run imports.wasm -i g && lines err 6 && has err "missing: env.f" &&
    has err "missing: env.i" && has err "missing: x.y" && has err "the module requires 5"
'

test_done
