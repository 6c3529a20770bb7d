#!/bin/bash
# doze wasm info: what a module needs and offers.
. "$(dirname "$0")/lib.sh"

# add: (i32, i32) -> (i32), memory of one page with "hi" at 16, import env.log
{
    printf '\0asm\1\0\0\0'
    printf '\1\13\2\140\2\177\177\1\177\140\1\177\0' # 2 types
    printf '\2\13\1\3env\3log\0\1'
    printf '\3\2\1\0'
    printf '\5\3\1\0\1'
    printf '\7\20\2\3add\0\1\6memory\2\0'
    printf '\12\11\1\7\0\40\0\40\1\152\13'
    printf '\13\10\1\0\101\20\13\2hi'
} >add.wasm

test_that 'info shows types, imports, exports, sections and sizes' '
    run 0 doze wasm info add.wasm && empty err &&
    has out "functions   2 (1 imported)" && has out "memory      64 KiB" &&
    grep -Eq "^ +0  \(i32, i32\) -> \(i32\)$" out &&
    grep -Eq "^env.log +func +\(i32\) -> \(\)$" out &&
    grep -Eq "^add +func +\(i32, i32\) -> \(i32\)$" out &&
    grep -Eq "^memory +memory +1 pages$" out &&
    grep -Eq "^code +9 *$" out && has out "features    none beyond WebAssembly 1.0" &&
    has out "$(sha256sum <add.wasm | cut -c1-64)"
'

test_that 'info reads standard input' '
    doze wasm info add.wasm >first && run 0 doze wasm info - <add.wasm && cmp first out
'

test_that 'info --json says the same' '
    run 0 doze wasm info --json add.wasm && empty err && lines out 1 &&
    python3 - <<EOF2
import json
d = json.load(open("out"))
assert d["functions"] == 2 and d["memories"] == 1 and d["features"] == [] and d["start"] is None
assert d["imports"] == [{"module": "env", "name": "log", "kind": "func", "index": 0,
                         "params": ["i32"], "results": []}]
assert d["exports"][0] == {"name": "add", "kind": "func", "index": 1,
                           "params": ["i32", "i32"], "results": ["i32"]}
assert d["exports"][1] == {"name": "memory", "kind": "memory", "index": 0, "min": 1, "max": None}
assert [s["section"] for s in d["sections"]] == ["type", "import", "function", "memory",
                                                 "export", "code", "data"]
assert d["image_bytes"] == 4096
EOF2
'

test_that 'what is no valid module: one line with the place, exit 1' '
    head -c 40 add.wasm >cut.wasm && run 1 doze wasm info cut.wasm && empty out && lines err 1 &&
    has err "doze: \"cut.wasm\": at byte 0x" &&
    sed "s/\x6a\x0b/\x7c\x0b/" add.wasm >wrong.wasm && run 1 doze wasm info wrong.wasm &&
    has err "in function 1: type mismatch: expected i64, found i32" &&
    echo text >text && run 1 doze wasm info text && has err "magic header not detected" &&
    run 1 doze wasm info nothing.wasm && lines err 1 && has err "No such file"
'

test_that 'names from a module cannot steer the terminal' '
    printf "\0asm\1\0\0\0\5\3\1\0\1\7\11\1\5a\033[2J\2\0" >esc.wasm &&
    run 0 doze wasm info esc.wasm && ! grep -q "$(printf "\033")" out && has out "a\\x1b[2J"
'

test_done
