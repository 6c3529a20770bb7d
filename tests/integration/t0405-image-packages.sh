#!/bin/bash
# Recipes that take from Debian, npm, PyPI and crates, each by exact version and hash, to
# a program that runs. A registry that does not answer is said, and its test skipped.
# Starts from the images of `make test-images`, in build/data.
. "$(dirname "$0")/lib.sh"
images=${DOZE_TEST_IMAGES:-$LIB_ROOT/build/data}
export DOZE_DATA=$PWD/data DOZE_GUEST=$LIB_ROOT/build/guest-sys
export CARGO_NET_RETRY=1 PIP_RETRIES=1 npm_config_fetch_retries=1 npm_config_update_notifier=false

# cargo may be rustup's, which looks into the home of who runs this
rustup=$(getent passwd "$(id -u)" | cut -d: -f6)/.rustup
[ ! -d "$rustup" ] || export RUSTUP_HOME="${RUSTUP_HOME:-$rustup}"

# from NAME: that image is in the test's own store
from() {
    [ -e "$images/images/tags/$1:latest" ] || skip "the image $1 is not built: make test-images"
    [ ! -e "data/images/tags/$1:latest" ] || return 0
    DOZE_DATA=$images run 0 doze image export "$1" "$1.doze" && run 0 doze image import -q "$1.doze" -t "$1"
}
# asks WHAT COMMAND...: without doze; where that does not work, neither can doze
asks() {
    local what=$1
    shift
    command -v "$1" >/dev/null || skip "$1 is not installed"
    timeout 150 "$@" >probe.log 2>&1 || skip "no answer for $what: $(tail -n 1 probe.log)"
}
# script NAME LINE...: a build script
script() {
    local name=$1
    shift
    printf '%s\n' '#!/bin/sh' 'set -eu' "$@" >"$name" && chmod +x "$name"
}
# recipe NAME FROM LINE...
recipe() {
    local name=$1 from=$2
    shift 2
    printf '%s\n' '[image]' "name = $name" "from = $from" "$@" >"$name.ini"
}
says() { [ "$(cat out)" = "$1" ] || { echo "not: $1"; cat out; return 1; }; }
cached() { find data/images/cache -type f ! -name 'result-*' | LC_ALL=C sort | xargs sha256sum; }

test_that 'a Debian source package, compiled by doze-cc' '
    from base && asks "the source of sysvbanner" "$LIB_ROOT/guest/fetch-source" sysvbanner 1:1.0-18 &&
    script make-banner "test -f \"\$1/debian/changelog\"" \
        "exec \"\$2/doze-cc\" -std=gnu89 -Oz -w -o \"\$3\" \"\$1/sysvbanner.c\"" &&
    recipe banner base "[debian sysvbanner]" "version = 1:1.0-18" "license = LicenseRef-public-domain" \
        "build = make-banner" "path = /usr/bin/banner" "mode = 0755" &&
    run 0 doze image build -q banner.ini && run 0 doze run -I banner -- banner hi &&
    has out "#    #     #" && run 0 doze image inspect --json banner &&
    has out "\"kind\":\"debian\",\"name\":\"sysvbanner\",\"version\":\"1:1.0-18\"" &&
    recipe banner base "[debian sysvbanner]" "version = 1:0.1-2" "build = make-banner" "path = /b" &&
    run 1 doze image build banner.ini && has err "line 4, sysvbanner: " && has err fetch-source
'
test_that 'a wheel from PyPI: into the image, and compiled by a script' '
    from base && asks "inflection 0.5.1" python3 -m pip download -q --no-deps -d probe inflection==0.5.1 &&
    hash="sha256 = f38b2b640938a4f35ade69ac3d053042959b62a0f1076a5bbaa1b9526605a8a2" &&
    recipe wheel base "[pypi inflection]" "version = 0.5.1" "$hash" "license = MIT" \
        "copy = inflection/ /lib/inflection/" "copy = inflection-0.5.1.dist-info/LICENSE /usr/share/doc/inflection/" &&
    run 0 doze image build -q wheel.ini &&
    run 0 doze run -I wheel -- sh -c "ls /lib/inflection; head -n 1 /usr/share/doc/inflection/LICENSE; wc -l </lib/inflection/__init__.py" &&
    says "__init__.py
py.typed
Copyright (C) 2012-2020 Janne Vanhala
426" &&
    script wheel-version "v=\$(sed -n \"s/^Version: //p\" \"\$1\"/inflection-*.dist-info/METADATA)" \
        "printf \"#include <stdio.h>\\nint main(void) { puts(\\\"%s\\\"); }\\n\" \"\$v\" >\"\$3.c\"" \
        "exec \"\$2/doze-cc\" -o \"\$3\" \"\$3.c\"" &&
    recipe wheelc base "[pypi inflection]" "version = 0.5.1" "$hash" "build = wheel-version" "path = /bin/v" &&
    run 0 doze image build -q wheelc.ini && run 0 doze run -I wheelc -- v && says 0.5.1
'
test_that 'a package of npm: into the image, and compiled by a script' '
    from js && asks "ansi-regex 6.0.1" npm pack --silent ansi-regex@6.0.1 &&
    hash="sha256 = 3486b885693287a048462cc12cb88d699b608085fcd95ab84dc3a275f2ae14a8" &&
    recipe node js "[npm ansi-regex]" "version = 6.0.1" "$hash" "license = MIT" \
        "copy = package/ /usr/lib/node_modules/ansi-regex/" &&
    run 0 doze image build -q node.ini &&
    echo "import re from \"/usr/lib/node_modules/ansi-regex/index.js\"; console.log(\"\\x1b[31mred\\x1b[0m\".replace(re(), \"\"))" >a.mjs &&
    run 0 doze run -I node -c a.mjs:/tmp/a.mjs -- qjs /tmp/a.mjs && says red &&
    script node-name "n=\$(sed -n \"s/^\t\\\"name\\\": \\\"\(.*\)\\\",/\1/p\" \"\$1/package.json\")" \
        "printf \"#include <stdio.h>\\nint main(void) { puts(\\\"%s\\\"); }\\n\" \"\$n\" >\"\$3.c\"" \
        "exec \"\$2/doze-cc\" -o \"\$3\" \"\$3.c\"" &&
    recipe nodec js "[npm ansi-regex]" "version = 6.0.1" "$hash" "build = node-name" "path = /bin/n" &&
    mkdir no && printf "#!/bin/sh\nexit 9\n" | tee no/tar no/gzip >no/unzip && chmod +x no/* && # nobody unpacks outside of a cell
    run 0 env "PATH=$PWD/no:$PATH" doze image build -q nodec.ini && run 0 doze run -I nodec -- n && says ansi-regex
'
test_that 'a crate: compiled by a script, its licence beside it; the cache serves the next' '
    from base && mkdir -p probe-crate && (
        cd probe-crate && printf "%s\n" "[package]" "name = \"p\"" "version = \"0.0.0\"" "[lib]" \
            "path = \"lib.rs\"" "[dependencies]" "bzip2-sys = \"=0.1.13\"" >Cargo.toml && touch lib.rs
    ) && (cd probe-crate && asks "bzip2-sys 0.1.13" cargo fetch) &&
    hash="sha256 = 225bff33b2141874fe80d71e07d6eec4f85c5c216453dd96388240f96e1acc14" &&
    script make-bzip2 "cd \"\$1/bzip2-1.0.8\"" \
        "exec \"\$2/doze-cc\" -O2 -w -o \"\$3\" bzip2.c blocksort.c huffman.c crctable.c randtable.c compress.c decompress.c bzlib.c" &&
    recipe bz base "[crate bzip2-sys]" "version = 0.1.13+1.0.8" "$hash" "license = bzip2-1.0.6" \
        "build = make-bzip2" "path = /usr/bin/bzip2" \
        "[crate bzip2-sys]" "version = 0.1.13+1.0.8" "$hash" \
        "copy = bzip2-sys-0.1.13+1.0.8/bzip2-1.0.8/LICENSE /usr/share/doc/bzip2/" &&
    run 0 doze image build -q bz.ini && run 0 doze run -I bz -- sh -c "
        seq 2000 >/tmp/a; bzip2 </tmp/a | tee /tmp/a.bz2 | bzip2 -d | cmp - /tmp/a && bzip2 -t /tmp/a.bz2 && echo same
        grep -c Seward /usr/share/doc/bzip2/LICENSE" && has out same && lacks out 0 &&
    cp out first && cached >before && run 0 doze image build bz.ini && lacks err DEPLOYING &&
    env PATH=$PATH:/nowhere CARGO_NET_OFFLINE=true doze image build -q -t bz2 bz.ini && cached | cmp - before &&
    run 0 doze image inspect --licenses bz && has out "bzip2-1.0.6"
'
# DOZE_TEST_LARGE=1: compilers of other people as images; 75 MB are fetched and prepared.
large() { [ -n "${DOZE_TEST_LARGE:-}" ] || skip "large: DOZE_TEST_LARGE=1 runs it"; }
test_that 'esbuild as an image bundles and minifies, qjs runs what comes out' '
    large && from js && asks "esbuild 0.27.2" npm pack --silent @esbuild/wasi-preview1@0.27.2 &&
    recipe esbuild js "[npm @esbuild/wasi-preview1]" "version = 0.27.2" "license = MIT" "mode = 0755" \
        "sha256 = 1233c0473ab65f3c28943b8456a675d22bc060f0459345d27a82af0226f5dd55" \
        "copy = package/esbuild.wasm /usr/bin/esbuild" &&
    run 0 doze image build -q esbuild.ini && run 0 doze run -I esbuild -w /workspace -- sh -c "
        printf \"export const f = (a: string): number => a.length\\n\" >b.ts
        printf \"import { f } from \\\"./b\\\"; const unused = 1; console.log(f(\\\"doze\\\"))\\n\" >a.ts
        PWD=/workspace esbuild /workspace/a.ts --bundle --minify --outfile=/workspace/o.js && qjs o.js && wc -l <o.js && ! grep -q unused o.js" &&
    says "4
1"
'
test_that 'clang and lld as an image compile a C file, which then runs beside them' '
    large && from base && asks "clang 22" npm pack --silent @yowasp/clang@22.0.0-git20542-10 &&
    recipe clang base "[npm @yowasp/clang]" "version = 22.0.0-git20542-10" "mode = 0755" \
        "sha256 = 6230ea1afa9691fa065935cf68c01642ff9b31c183fe8ac64cdfda025df06009" \
        "license = Apache-2.0 WITH LLVM-exception" "copy = package/gen/llvm.core.wasm /usr/bin/llvm" \
        "copy = package/gen/llvm-resources.tar /usr/share/llvm.tar" &&
    run 0 doze image build -q clang.ini && cat >build.sh <<"S" &&
cd /workspace && mkdir usr && tar -xf /usr/share/llvm.tar -C usr
printf "%s\n" "#include <stdio.h>" "int main(int c, char **v) { printf(\"%s %d\\n\", v[c - 1], 6 * 7); return 5; }" >h.c
llvm clang -cc1 -triple wasm32-unknown-wasip1 -emit-obj -O2 -resource-dir /workspace/usr \
    -internal-isystem /workspace/usr/include -internal-isystem /workspace/usr/include/wasm32-wasip1 \
    -o /workspace/h.o -x c /workspace/h.c &&
llvm wasm-ld -L/workspace/usr/lib/wasm32-wasip1 /workspace/usr/lib/wasm32-wasip1/crt1-command.o /workspace/h.o -lc \
    /workspace/usr/lib/wasm32-unknown-wasip1/libclang_rt.builtins.a -o /workspace/h && chmod +x h && ./h answer
S
    run 5 doze run -I clang --memory 2GiB -c build.sh:/tmp/build.sh -- sh /tmp/build.sh && says "answer 42"
'
test_done
