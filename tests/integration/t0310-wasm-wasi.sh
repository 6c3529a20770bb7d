#!/bin/bash
# doze wasm run: programs that import WASI run in a cell.
. "$(dirname "$0")/lib.sh"

guest_wasm g.wasm

test_that 'a WASI program: its streams and its status' '
    run 3 doze wasm run g.wasm && has out hi && has err err &&
    printf "a\nb\n" >in && run 0 doze wasm run g.wasm -- c <in && cmp in out &&
    run 132 doze wasm run g.wasm -- t
'

# A program that imports proc_exit, as () -> () when WRONG is 00, and env.NAME
importing() { # WRONG NAME
    local n=${#2}
    printf '\0asm\1\0\0\0\1\10\2\140\0\0\140\1\177\0'
    printf "\\2\\$(printf %o $((43 + n)))\\2"
    printf '\26wasi_snapshot_preview1\11proc_exit\0'
    printf "\\$1\\3env\\$(printf %o "$n")%s" "$2" && printf '\0\0'
    printf '\3\2\1\0\7\12\1\6_start\0\2\12\4\1\2\0\13'
}

test_that 'what a program imports and nobody has, or has otherwise, is named' '
    importing 1 foo >missing.wasm && run 126 doze wasm run missing.wasm && lines err 1 &&
    has err "not a program that doze can run: unknown import (1 missing): env.foo" &&
    importing 0 foo >wrong.wasm && run 126 doze wasm run wrong.wasm && lines err 1 &&
    has err "wasi_snapshot_preview1.proc_exit: the module wants () -> (), found (i32) -> ()"
'

test_that 'wrong directories and variables: one line' '
    run 2 doze wasm run g.wasm --dir here && lines err 1 &&
    run 2 doze wasm run g.wasm --env novalue && lines err 1 &&
    run 1 doze wasm run g.wasm --dir missing:/d && lines err 1 && has err missing
'

test_done
