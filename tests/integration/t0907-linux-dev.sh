#!/bin/bash
# Compilers and interpreters of the image dev: static programs of C and Go, node, numpy and pandas.
# The image is large, so only `make test-image-dev` builds it; without it the tests are skipped.
. "$(dirname "$0")/lib.sh"
. "$LIB_ROOT/tests/integration/linux.sh"
[ -e "$DOZE_DATA/images/tags/dev:latest" ] || LINUX_SKIP='the image dev is not built: make test-image-dev'
[ "${DOZE_LINUX_ON:-}" != native ] || LINUX_SKIP='the programs of the image dev may not be on this machine'

# dev COMMAND...: in the image dev, in a directory of its own
dev() {
    [ -z "$LINUX_SKIP" ] || skip "$LINUX_SKIP"
    run 0 doze run --image dev -w /tmp -e HOME=/tmp -- "$@"
}

test_that 'a program that the linker has written by a mapping can be executed at once' '
    dev python3 -c "
import mmap, os
program = open(\"/usr/bin/true\", \"rb\").read()
f = open(\"a\", \"w+b\")
f.truncate(len(program)); os.chmod(\"a\", 0o755)
m = mmap.mmap(f.fileno(), 0); m[:] = program; m.close(); f.close()
print(os.spawnv(os.P_WAIT, \"./a\", [\"a\"]))
" && has out 0
'
test_that 'gcc: a static and a dynamic program, make' '
    dev bash -c "
printf \"%s\n\" \"#include <stdio.h>\" \"int main(int n, char **a) { return printf(\\\"%s\\\\n\\\", a[1]) < 0; }\" >a.c
cc -O2 -static -o static a.c && ./static one && c99 -o dynamic a.c && ./dynamic two
printf \"b: a.c\n\tgcc -o b a.c\n\" >Makefile && make -s && ./b three" && printf "%s\n" one two three | cmp - out
'
test_that 'go: a static program with threads' '
    dev bash -c "
printf \"%s\n\" \"package main\" \"import (\\\"fmt\\\"; \\\"sync\\\")\" \"func main() {\" \"var g sync.WaitGroup\" \"n := make([]int, 50)\" \"for i := range n { g.Add(1); go func(i int) { defer g.Done(); n[i] = i * i }(i) }\" \"g.Wait()\" \"fmt.Println(n[49])\" \"}\" >a.go
CGO_ENABLED=0 go build -o a a.go && ./a" && has out 2401
'
test_that 'node: files, promises, a child' '
    dev node -e "
const fs = require(\"fs\"), { execFileSync } = require(\"child_process\");
fs.writeFileSync(\"f\", \"text\");
Promise.all([1, 2, 3].map(async x => x * x)).then(v => console.log(v.join(), fs.readFileSync(\"f\", \"utf8\"), execFileSync(\"echo\", [\"child\"]).toString().trim()));
" && has out "1,4,9 text child"
'
test_that 'node: four workers' '
    dev node -e "
const { Worker } = require(\"worker_threads\");
let sum = 0, left = 4;
for (let i = 0; i < 4; i++)
    new Worker(\"const t = require(\\\"worker_threads\\\"); t.parentPort.postMessage(t.workerData ** 2)\", { eval: true, workerData: i })
        .on(\"message\", n => { sum += n; if (!--left) console.log(sum); });
" && has out 14
'
test_that 'make -j4: sixteen objects, a library and a program' '
    dev bash -c "
for i in {1..16}; do echo \"int f\$i(void) { return \$i; }\" >f\$i.c; done
{ for i in {1..16}; do echo \"int f\$i(void);\"; done; echo \"#include <stdio.h>\"; echo \"int main(void) { printf(\\\"%d\\\\n\\\", f1()\"; for i in {2..16}; do echo \"+ f\$i()\"; done; echo \"); }\"; } >main.c
printf \"all: main.o libf.a\\n\\tcc -o all main.o -L. -lf\\nlibf.a: \$(echo f{1..16}.o)\\n\\tar rcs libf.a f*.o\\n\" >Makefile
make -s -j4 && ./all" && has out 136
'
test_that 'python3: numpy and pandas, with 64 bits' '
    dev python3 -c "
import numpy, pandas
print(numpy.arange(100000).sum(), numpy.linalg.det(numpy.eye(3)), pandas.DataFrame({\"a\": [1, 2]}).a.mean())
" && has out "4999950000 1.0 1.5"
'

test_done
