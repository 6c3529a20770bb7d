#!/bin/bash
# Building images when things go wrong: registries that end in the middle, packages that
# are not there or not what they should be, hostile archives, full disks, Ctrl-C. After
# each the store is what it was, byte for byte. The registry is one of this test's own
# (tests/lib/registry.py), asked by the real pip, npm and cargo.
. "$(dirname "$0")/lib.sh"
export DOZE_DATA=$PWD/data
rustup=$(getent passwd "$(id -u)" | cut -d: -f6)/.rustup
[ ! -d "$rustup" ] || export RUSTUP_HOME="${RUSTUP_HOME:-$rustup}"

mkdir -p reg/pypi reg/npm reg/crates root/bin && echo x >root/bin/x
python3 "$LIB_ROOT/tests/lib/registry.py" reg >port &
registry=$!
trap 'kill $registry; rm -rf "$LIB_SCRATCH"' EXIT
until [ -s port ]; do sleep 0.02; done
at=http://127.0.0.1:$(cat port)
unset PIP_FIND_LINKS PIP_NO_INDEX http_proxy HTTP_PROXY https_proxy HTTPS_PROXY
export PIP_INDEX_URL=$at/simple PIP_RETRIES=0 PIP_CONFIG_FILE=/dev/null PIP_NO_CACHE_DIR=1 \
    npm_config_registry=$at/npm/ npm_config_fetch_retries=0 npm_config_update_notifier=false \
    npm_config_cache=$PWD/npm-cache npm_config_userconfig=/dev/null \
    CARGO_HOME=$PWD/cargo CARGO_NET_RETRY=0 no_proxy=127.0.0.1 NO_PROXY=127.0.0.1
mkdir cargo && printf '%s\n' '[source.crates-io]' 'replace-with = "here"' '[source.here]' \
    "registry = \"sparse+$at/crates/\"" >cargo/config.toml

# The whole store but for cache and logs: names, modes, bytes. Nothing may wait in scratch.
store() { (cd data/images && find . \( -path ./cache -o -path ./logs \) -prune -o -type f -print0 |
    LC_ALL=C sort -z | xargs -0r sha256sum && find . -type d && ls -A scratch); }
# fetched: what the cache holds that came from outside
fetched() { find data/images/cache -type f ! -name 'result-*' | LC_ALL=C sort; }
sum() { sha256sum "$1" | cut -d' ' -f1; }
needs() { command -v "$1" >/dev/null || skip "$1 is not installed"; }
recipe() { printf '%s\n' '[image]' 'name = new' "$@" >r.ini; }
# refused TEXT...: the build fails, says all this, changes nothing
refused() {
    store >before && fetched >had && run 1 doze image build -q r.ini || return 1
    for text; do has err "$text" || return 1; done
    store | cmp - before && fetched | cmp - had
}
# Three archives of the same files, as the three registries have them: pack VERSION DIR
pack() {
    python3 - "$1" "$2" <<'P'
import io, pathlib, sys, tarfile, zipfile
version, top = sys.argv[1], pathlib.Path(sys.argv[2])
files = {p.relative_to(top).as_posix(): p.read_bytes() for p in sorted(top.rglob("*")) if p.is_file()}
with zipfile.ZipFile(f"reg/pypi/thing-{version}-py3-none-any.whl", "w", zipfile.ZIP_DEFLATED) as z:
    for name, data in files.items():
        z.writestr(name, data)
    z.writestr(f"thing-{version}.dist-info/METADATA", f"Metadata-Version: 2.1\nName: thing\nVersion: {version}\n")
    z.writestr(f"thing-{version}.dist-info/WHEEL", "Wheel-Version: 1.0\nGenerator: x\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
    z.writestr(f"thing-{version}.dist-info/RECORD", "")
def tar(to, top, extra):
    with tarfile.open(to, "w:gz") as t:
        for name, data in {**extra, **files}.items():
            i = tarfile.TarInfo(f"{top}/{name}")
            i.size = len(data)
            t.addfile(i, io.BytesIO(data))
tar(f"reg/npm/thing-{version}.tgz", "package", {"package.json": f'{{"name":"thing","version":"{version}"}}'.encode()})
tar(f"reg/crates/thing-{version}.crate", f"thing-{version}", {
    "Cargo.toml": f'[package]\nname = "thing"\nversion = "{version}"\n[lib]\npath = "l.rs"\n'.encode(), "l.rs": b""})
P
}
mkdir -p files/d && head -c 200000 /dev/urandom >files/d/noise && echo hi >files/d/hi && pack 1.0.0 files
whl=reg/pypi/thing-1.0.0-py3-none-any.whl tgz=reg/npm/thing-1.0.0.tgz crate=reg/crates/thing-1.0.0.crate
pypi() { recipe "[pypi thing]" "version = 1.0.0" "sha256 = $(sum $whl)" "copy = / /t/"; }
npm_() { recipe "[npm thing]" "version = 1.0.0" "sha256 = $(sum $tgz)" "copy = package/ /t/"; }
crate() { recipe "[crate thing]" "version = 1.0.0" "sha256 = $(sum $crate)" "copy = thing-1.0.0/ /t/"; }

test_that 'the connection ends in the middle of an archive' '
    run 0 doze image build -q --from-dir root -t base && touch reg/cut && needs npm && needs cargo &&
    pypi && refused "line 3, thing: python3 failed" && npm_ && refused "line 3, thing: npm failed" &&
    crate && refused "line 3, thing: cargo failed" && rm reg/cut
'
test_that 'a registry that is not there' '
    (
        export PIP_INDEX_URL=http://127.0.0.1:1/ npm_config_registry=http://127.0.0.1:1/
        pypi && refused "line 3, thing: python3 failed" && npm_ && refused "line 3, thing: npm failed"
    ) &&
    printf "%s\n" "#!/bin/sh" "exit 1" >no && chmod +x no && recipe "[debian hello]" "version = 2.10-3" "build = no" "path = /h" &&
    [ -x "$LIB_ROOT/build/guest-sys/doze-cc" ] && http_proxy=http://127.0.0.1:1 https_proxy=http://127.0.0.1:1 \
        DOZE_GUEST=$LIB_ROOT/build/guest-sys refused "line 3, hello: " "fetch-source failed"
'
test_that 'packages and versions that there are not' '
    recipe "[pypi nothing]" "version = 1" "sha256 = $(printf %064d 0)" "copy = / /t/" && refused "line 3, nothing: python3 failed" &&
    recipe "[npm nothing]" "version = 1.0.0" "copy = / /t/" && refused "line 3, nothing: npm failed" &&
    recipe "[crate nothing]" "version = 1.0.0" "sha256 = $(printf %064d 0)" "copy = / /t/" && refused "line 3, nothing: cargo failed" &&
    pypi && sed -i "s/= 1\\.0\\.0/= 2.0.0/" r.ini && refused "line 3, thing: python3 failed"
'
test_that 'another hash than the recipe wants' '
    for of in pypi npm_ crate; do
        $of && sed -i "s/^sha256 = ..../sha256 = 0000/" r.ini && refused "line 3, thing" || exit 1
        has err "hash mismatch: expected SHA-256" && has err ", got " || exit 1
    done
'
test_that 'then they are taken, and need no registry the next time' '
    for of in pypi npm_ crate; do
        $of && run 0 doze image build -q r.ini && run 0 doze image export new "$of.doze" &&
        run 0 doze disk cat "$of.doze" /t/d/hi && has out hi || exit 1
    done &&
    kill -STOP '$registry' && run 0 doze image build -q r.ini && kill -CONT '$registry' && run 0 doze image rm new
'
# bad TEXT COPY...: the archive of this name, in all three forms that can have it
test_that 'hostile archives of all kinds: refused, nothing outside, nothing left' '
    mkdir -p bad && cd bad && python3 - <<"P" && cd .. &&
import io, tarfile, zipfile
def tar(name, *members):
    with tarfile.open(name, "w:gz") as t:
        for path, kind, arg in members:
            i = tarfile.TarInfo(path)
            i.type = kind
            if kind == tarfile.REGTYPE:
                i.size = len(arg)
                t.addfile(i, io.BytesIO(arg))
            else:
                i.linkname = arg
                t.addfile(i)
F, L, H, C = tarfile.REGTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE
tar("up.tgz", ("p/a", F, b"x"), ("p/../../evil", F, b"x"))
tar("absolute.tgz", ("/tmp/evil", F, b"x"))
tar("link-out.tgz", ("p/l", L, "../../.."), ("p/l/evil", F, b"x"))
tar("link-abs.tgz", ("p/l", L, "/etc"))
tar("through.tgz", ("p/l", L, "d"), ("p/l/evil", F, b"x"))
tar("hard.tgz", ("p/h", H, "../../etc/passwd"))
tar("device.tgz", ("p/null", C, ""))
data = open("up.tgz", "rb").read()
open("short.tgz", "wb").write(data[:len(data) // 2])
tar("bomb.tgz", ("p/b", F, b"x" * (300 << 20)))
def zip_(name, *members):
    with zipfile.ZipFile(name, "w", zipfile.ZIP_DEFLATED) as z:
        for path, mode, data in members:
            i = zipfile.ZipInfo(path)
            i.external_attr = mode << 16
            i.compress_type = zipfile.ZIP_DEFLATED
            z.writestr(i, data)
zip_("up.zip", ("a", 0o100644, "x"), ("../evil", 0o100644, "x"))
zip_("absolute.zip", ("/tmp/evil", 0o100644, "x"))
zip_("through.zip", ("l", 0o120777, "/tmp"), ("l/evil", 0o100644, "x"))
zip_("bomb.zip", ("b", 0o100644, b"x" * (300 << 20)))
inner = io.BytesIO()
with zipfile.ZipFile(inner, "w", zipfile.ZIP_DEFLATED) as z:
    z.writestr("b", b"x" * (300 << 20))
zip_("nested.zip", ("i.zip", 0o100644, inner.getvalue()))
P
    for a in up absolute link-out link-abs through hard device short bomb; do
        for how in "copy = / /z/" "owner = 0:0"; do
            recipe "[tar /z]" "source = bad/$a.tgz" "$how" && refused "line 3, /z" || { echo "bad/$a, $how"; exit 1; }
        done
        [ $a != bomb ] || has err limit || exit 1
    done &&
    for a in up absolute through bomb; do
        recipe "[tar /z]" "source = bad/$a.zip" && refused "line 3, /z" || { echo "bad/$a.zip"; exit 1; }
    done && has err "more than 100 times" &&
    recipe "[tar /z]" "source = bad/nested.zip" "copy = i.zip!/ /z/" && refused "more than 100 times" &&
    [ ! -e evil ] && [ ! -e bad/evil ] && [ ! -e /tmp/evil ]
'
test_that 'the same for what a build script gets' '
    printf "%s\n" "#!/bin/sh" "touch ran" >script && chmod +x script && cp script bad && mkdir guest guest/lib &&
    touch guest/doze-cc guest/lib/crt1.o guest/lib/libposix.o && needs npm &&
    for a in up absolute link-out link-abs through hard bomb; do
        cp bad/$a.tgz reg/npm/bad-1.0.0.tgz &&
        recipe "[npm bad]" "version = 1.0.0" "build = script" "path = /x" &&
        DOZE_GUEST=$PWD/guest refused "line 3, bad: " && [ ! -e ran ] || exit 1
    done && [ ! -e evil ] && [ ! -e /tmp/evil ]
'
test_that 'xz and zstd are read, other compressions are refused by name' '
    for by in xz zstd; do
        command -v $by >/dev/null || continue
        tar -cf - -C root bin | $by >a.tar.$by && recipe "[tar /z]" "source = a.tar.$by" && run 0 doze image build -q r.ini &&
        run 0 doze image export new "$by.doze" && run 0 doze disk cat "$by.doze" /z/bin/x && has out x || exit 1
        head -c 100 a.tar.$by >cut.$by && recipe "[tar /z]" "source = cut.$by" && refused "line 3, /z" || exit 1
    done && run 0 doze image rm new &&
    tar -cf - -C root bin | bzip2 >a.tar.bz2 && recipe "[tar /z]" "source = a.tar.bz2" && refused "compressed by bzip2" "bzip2 -d" &&
    python3 -c "
import zipfile
z = zipfile.ZipFile(\"64.zip\", \"w\")
f = z.open(\"a\", \"w\", force_zip64=True); f.write(b\"x\"); f.close()
z.writestr(\"b\", \"x\"); z.filelist[0].file_size = z.filelist[0].compress_size = 1 << 33; z.close()" &&
    recipe "[tar /z]" "source = 64.zip" && refused "64-bit form"
'
test_that 'a full disk: said, the store as it was, and usable afterwards' '
    unshare -rm true 2>/dev/null || skip "no mount namespaces" &&
    head -c 9000000 /dev/urandom >large && recipe "[file /large]" "source = large" && mkdir full &&
    unshare -rm bash -c "
        set -e
        mount -t tmpfs -o size=6m none full; export DOZE_DATA=\$PWD/full
        sum() { (cd full/images && find files modules tags scratch | sort && find files modules tags -type f | sort | xargs -r sha256sum); }
        doze image build -q --from-dir root -t small && sum >before
        if doze image build -q r.ini 2>err; then exit 9; fi
        cat err; sum | cmp - before; [ -z \"\$(ls -A full/images/scratch)\" ]
        doze image verify; echo y >root/bin/y; doze image build -q --from-dir root -t small
        df full | tail -n 1" >log || { cat log; exit 1; }
    has log "No space left" && has log "no damage"
'
pid=
# Waits until the log of a build has the text; the build is $pid.
until_log() { until grep -qF -e "$1" data/images/logs/new:latest.log 2>/dev/null; do kill -0 "$pid" && sleep 0.01; done; }
test_that 'Ctrl-C while the image is put together' '
    mkdir big && for i in $(seq 300); do head -c 500000 /dev/urandom >big/$i; done && store >before &&
    recipe "[tree /big]" "source = big" && rm -f data/images/logs/*
    env --default-signal=INT doze image build -q r.ini 2>err & pid=$! && until_log "put /big" && kill -INT $pid &&
    status=0 && { wait $pid || status=$?; } && [ $status = 130 ] && store | cmp - before
'
test_that 'Ctrl-C while a package manager waits: it and all it started end' '
    touch reg/hang && rm -f reg/half data/images/logs/* && store >before && fetched >had && pypi
    env --default-signal=INT doze image build --fresh -q r.ini 2>err & pid=$! && until [ -e reg/half ]; do sleep 0.01; done &&
    kill -INT $pid && status=0 && { wait $pid || status=$?; } && rm reg/hang && [ $status = 130 ] &&
    store | cmp - before && fetched | cmp - had && ! pgrep -f "pip download.*$PWD" >/dev/null
'
test_that 'killed: the next build and gc find nothing in their way' '
    run 0 doze image gc && store >before && recipe "[tree /big]" "source = big" && rm -f data/images/logs/*
    doze image build -q r.ini 2>err & pid=$! && until_log "put /big" && kill -KILL $pid && { wait $pid || true; } &&
    run 0 doze image gc && store | diff - before && run 0 doze image build -q r.ini && run 0 doze image verify new
'
test_done
