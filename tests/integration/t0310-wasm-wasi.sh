#!/bin/bash
# doze wasm run: programs that import WASI run in a cell.
. "$(dirname "$0")/lib.sh"

guest_wasm g.wasm

test_that 'a WASI program: its streams and its status' '
    run 3 doze wasm run g.wasm && has out hi && has err err &&
    printf "a\nb\n" >in && run 0 doze wasm run g.wasm -- c <in && cmp in out &&
    run 132 doze wasm run g.wasm -- t
'

test_that 'wrong directories and variables: one line' '
    run 2 doze wasm run g.wasm --dir here && lines err 1 &&
    run 2 doze wasm run g.wasm --env novalue && lines err 1 &&
    run 1 doze wasm run g.wasm --dir missing:/d && lines err 1 && has err missing
'

test_done
