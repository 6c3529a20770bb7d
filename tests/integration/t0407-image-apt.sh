#!/bin/bash
# Images of kind linux from Debian packages: locks, fetching by the machine's own apt, installing
# without root, hostile packages, scripts of recipes. The packages and their archives are this
# test's own (tests/lib/debs.py); apt is told of them by APT_CONFIG.
. "$(dirname "$0")/lib.sh"
for tool in apt-get /usr/lib/apt/apt-helper dpkg-deb dpkg-query zstd python3; do
    command -v $tool >/dev/null || { echo "1..0 # SKIP $tool is not installed"; exit 0; }
done
export DOZE_DATA=$PWD/data PYTHONPATH=$LIB_ROOT/tests/lib PYTHONDONTWRITEBYTECODE=1
mkdir -p repo old && python3 "$LIB_ROOT/tests/lib/registry.py" . >port &
registry=$!
trap 'kill -CONT $registry; kill $registry; rm -rf "$LIB_SCRATCH"' EXIT
until [ -s port ]; do sleep 0.02; done
unset http_proxy HTTP_PROXY
at=http://127.0.0.1:$(cat port)
cat >apt.conf <<EOF
Dir::Etc::sourcelist "$PWD/sources.list";
Dir::Etc::sourceparts "/dev/null";
Dir::Etc::preferencesparts "/dev/null";
Acquire::Retries "0";
EOF
printf 'deb [trusted=yes] %s ./\n' "$at/get/old" "$at/get/repo" >sources.list
export APT_CONFIG=$PWD/apt.conf

# The whole store but for cache and logs: names, modes, bytes. Nothing may wait in scratch.
store() { (cd data/images && find . \( -path ./cache -o -path ./logs \) -prune -o -type f -print0 |
    LC_ALL=C sort -z | xargs -0r sha256sum && find . -type d && ls -A scratch); }
recipe() { printf '%s\n' '[image]' 'name = new' 'kind = linux' "$@" >r.ini; }
# refused TEXT...: the build fails, says all this, changes nothing
refused() {
    store >before && run 1 doze image build -q r.ini || return 1
    for text; do has err "$text" || return 1; done
    store | cmp - before
}
# file PATH: what the image new has there, in the file out
file() { rm -f new.doze && run 0 doze image export new new.doze && run 0 doze disk cat new.doze "$1"; }
# shellcheck disable=SC2034 # the tests' own texts use it
merged='[dir /usr/bin]
[link /bin]
target = usr/bin'

python3 - <<'P' || exit 1
import debs
a = debs.Deb("a", "1:2.0-1+x", depends="b (>= 1)")
a.control["conffiles"] = b"/etc/a.conf\n"
a.control["postinst"] = b"#!/bin/sh\nexit 7\n"
a.control["triggers"] = b"interest-noawait /usr/share/a\ninterest ping\nactivate pong\n"
for d in ("bin", "etc", "usr", "usr/share", "usr/share/doc", "usr/share/doc/a"):
    a.dir(d)
a.file("bin/a", b"#!/bin/b\n", 0o4755, (0, 42))
a.same("bin/a2", "bin/a")
a.link("bin/a3", "/bin/a")
a.file("etc/a.conf", b"x = 1\n", 0o640, (7, 8))
a.file("usr/share/doc/a/copyright", b"all of it\n")
a.file("usr/share/doc/a/changes", b"none\n")
a.write("repo/a_1%3a2.0-1+x_amd64.deb", "xz")
b = debs.Deb("b", "1.5", multi_arch="same")
b.dir("usr"), b.dir("usr/bin"), b.dir("usr/lib", 0o2775, (0, 50))
elf = b"\177ELF\2\1\1" + b"\0" * 9 + b"\3\0\76\0" + b"\0" * 100
b.file("usr/bin/b", elf, 0o755)
b.file("usr/lib/large", b"".join(b"%07d\n" % i for i in range(100000)))
b.write("repo/b_1.5_amd64.deb", "zst")
c = debs.Deb("c", "3", "all", depends="a")
c.dir("usr"), c.file("usr/c", b"c\n")
c.write("repo/c_3_all.deb", "gz")
debs.index("repo")
debs.index("old")
P

want='[apt r.lock]
package = a
exclude = /usr/share/doc/*
include = */copyright'
test_that 'a pattern begins with /' '
    recipe "$merged" "$want" && run 1 doze image build -q r.ini && has err "r.ini:10: a pattern of paths must begin with /"
'
want=${want/\*\/copy/\/usr\/share\/doc\/\*\/copy}
test_that 'without a lock there is no build' '
    mkdir -p data/images && recipe "$merged" "$want" && run 1 doze image ls -q --json && true
    recipe "$merged" "$want" && run 1 doze image build -q r.ini && has err "doze image lock RECIPE"
'
test_that 'a lock: what apt chose, with dependencies, in the order of names' '
    run 0 doze image lock r.ini && sed "s/ [0-9a-f]\{64\} / HASH /; s/ [0-9]* HASH/ N HASH/" r.lock >is &&
    printf "%s\n" "doze-lock 1" "want a" "deb a 1:2.0-1+x amd64 N HASH a_1%253a2.0-1%2bx_amd64.deb" \
        "deb b 1.5 amd64 N HASH b_1.5_amd64.deb" >should && diff is should
'
test_that 'the build takes exactly these, from the archive that has them' '
    run 0 doze image build r.ini && cp out id && has err DEPLOYED && lacks err Failed &&
    run 0 doze image inspect new && grep -q "^kind *linux$" out && lacks out programs &&
    run 0 doze image inspect --licenses new && grep -qE "^a +1:2.0-1\+x +deb" out && grep -qE "^b +1.5 +deb" out &&
    run 0 doze image ls && grep -qE "^new:latest +img_[0-9a-f]+ +linux " out
'
test_that 'the same inputs give the same bytes, without the cache too' '
    run 0 doze image build -q r.ini && cmp out id && run 0 doze image build -q --fresh r.ini && cmp out id &&
    kill -STOP '$registry' && run 0 doze image build -q r.ini && cmp out id && kill -CONT '$registry'
'
test_that 'owners, modes, links and set-id bits, without root' '
    run 0 doze image export new new.doze && run 0 doze disk tar new.doze && tar --numeric-owner -tvf out >list &&
    grep -qE "^-rwsr-xr-x 0/42 .* usr/bin/a$" list && grep -qE "^(h|-)rwsr-xr-x 0/42 .* usr/bin/a2" list &&
    grep -qE "^l.* usr/bin/a3 -> /bin/a$" list && grep -qE "^-rw-r----- 7/8 .* etc/a.conf$" list &&
    grep -qE "^drwxrwsr-x 0/50 .* usr/lib/$" list && grep -qE "^l.* bin -> usr/bin$" list &&
    run 0 doze disk cat new.doze /usr/lib/large && [ "$(tail -n 1 out)" = 0099999 ]
'
test_that 'excluded paths are not there' '
    grep -q "usr/share/doc/a/copyright$" list && ! grep -q "usr/share/doc/a/changes" list
'
test_that 'dpkg knows the packages' '
    mkdir -p admin && run 0 doze disk tar new.doze && tar -xf out -C admin --no-same-owner var/lib/dpkg &&
    run 0 dpkg-query --admindir=admin/var/lib/dpkg -W -f "\${binary:Package} \${Version} \${db:Status-Abbrev}\${Conffiles}\n" &&
    has out "a 1:2.0-1+x ii  /etc/a.conf $(printf "x = 1\n" | md5sum | cut -d" " -f1)" && has out "b:amd64 1.5 ii" &&
    run 0 dpkg-query --admindir=admin/var/lib/dpkg -L a && has out /bin/a2 && has out /usr/share/doc/a/changes &&
    [ -x admin/var/lib/dpkg/info/a.postinst ] && [ -e admin/var/lib/dpkg/info/b:amd64.list ] &&
    [ "$(cat admin/var/lib/dpkg/triggers/File)" = "/usr/share/a a/noawait" ] && [ "$(cat admin/var/lib/dpkg/triggers/ping)" = a ]
'
test_that 'on an image that has packages, the lock has what is new only' '
    printf "%s\n" "[image]" "name = more" "from = new" "[apt more.lock]" "package = c" >more.ini &&
    run 0 doze image lock more.ini && [ "$(grep -c ^deb more.lock)" = 1 ] && has more.lock "deb c 3 all" &&
    run 0 doze image build -q more.ini && run 0 doze image inspect --licenses more && has out "1:2.0-1+x" && grep -q "^c " out &&
    run 0 doze image export more more.doze && run 0 doze disk cat more.doze /var/lib/dpkg/status && [ "$(grep -c ^Package: out)" = 3 ] &&
    run 0 doze image rm more
'
test_that 'a package of the image below is not installed over it' '
    sed "s/more/again/g; s/= c/= a/" more.ini >again.ini && sed "s/want c/want a/" r.lock >again.lock && run 1 doze image build -q again.ini &&
    has err "is in the image below already"
'
test_that 'a lock of other packages than the recipe wants' '
    sed "s/= a$/= a c/" r.ini >s.ini && mv s.ini r.ini && refused "r.lock was made for other packages" "doze image lock RECIPE" && recipe "$merged" "$want"
'
test_that 'damaged locks' '
    cp r.lock good &&
    for edit in "1s/1/2/" "s/amd64/arm64/" "s/ b_1/ ..\/b_1/" "s/deb b/deb a/" "s/deb b 1/deb b 1 1/" "s/deb b/dab b/" "\$s/ [0-9a-f]* b_/ 12 b_/"; do
        sed "$edit" good >r.lock && refused "r.lock:" || { echo "$edit"; exit 1; }
    done && cp good r.lock
'
test_that 'another hash than the lock has' '
    sed "/^deb b/s/ [0-9a-f]\{8\}\([0-9a-f]\{56\}\) / 00000000\1 /" good >r.lock &&
    refused "line 7, r.lock: b 1.5: hash mismatch: expected SHA-256 00000000" ", got " && cp good r.lock
'
test_that 'a version that no archive has any longer' '
    mv repo/b_1.5_amd64.deb kept && run 0 doze image gc --cache && run 0 doze image rm new &&
    refused "1 of 2 packages are in none of this machine" "among them b 1.5" "doze image lock RECIPE" &&
    mv kept old/b_1.5_amd64.deb && run 0 doze image build -q r.ini && cmp out id && mv old/b_1.5_amd64.deb repo
'
test_that 'an archive that is a directory' '
    printf "deb [trusted=yes] %s ./\n" "file:$PWD/repo" >sources.list && run 0 doze image gc --cache && run 0 doze image build -q --fresh r.ini && cmp out id &&
    rm -rf gone && mv repo gone && run 0 doze image build -q r.ini && cmp out id && mv gone repo &&
    printf "deb [trusted=yes] %s ./\n" "$at/get/old" "$at/get/repo" >sources.list
'
test_that 'names that apt does not know' '
    recipe "$merged" "[apt n.lock]" "package = nothing" && run 1 doze image lock r.ini && has err "nothing" && [ ! -e n.lock ] &&
    recipe "[apt n.lock]" "package = -x" && run 1 doze image lock r.ini && has err "r.ini:5: -x is not the name of a package" &&
    recipe "[apt n.lock]" && run 1 doze image build -q r.ini && has err "package is missing" &&
    recipe "[apt n.lock]" "package = a" "[apt m.lock]" "package = a" && run 1 doze image build -q r.ini && has err "one [apt] section" &&
    recipe "[dir /x]" && run 1 doze image lock r.ini && has err "no [apt] section" && recipe "$merged" "$want"
'
# shellcheck disable=SC2034
pid=
test_that 'Ctrl-C while a package comes: the store is what it was, the next build goes on' '
    run 0 doze image gc --cache && store >before && touch hang && rm -f half
    env --default-signal=INT doze image build -q r.ini 2>err & pid=$! && until [ -e half ]; do kill -0 $pid && sleep 0.01; done &&
    kill -INT $pid && status=0 && { wait $pid || status=$?; } && rm hang && [ $status = 130 ] && store | cmp - before &&
    run 0 doze image build -q r.ini && cmp out id
'
test_that 'kinds do not mix' '
    printf "%s\n" "[image]" "name = new" "[apt r.lock]" "package = a" >r.ini && refused "line 3, r.lock: the programs are for Linux, the image is of kind wasm" &&
    printf "int main(void){return 0;}\n" >x.c && recipe "[c /x]" "source = x.c" && refused "the programs are for WebAssembly, the image is of kind linux" &&
    printf "%s\n" "[image]" "name = x" "from = new" "kind = wasm" "[dir /x]" >r.ini && refused "the image that it starts from is of kind linux" &&
    printf "%s\n" "[image]" "name = x" "kind = elf" >r.ini && refused "must be wasm or linux"
'
test_that 'programs must be for this kind of machine' '
    printf "\177ELF\2\1\1\0\0\0\0\0\0\0\0\0\3\0\267\0rest" >arm && printf "\177ELF\2\1\1\0\0\0\0\0\0\0\0\0\3\0\76\0rest" >x86 &&
    recipe "[file /usr/bin/arm]" "source = arm" "mode = 0755" && refused "/usr/bin/arm is not for Linux on x86-64" &&
    recipe "[file /opt/arm]" "source = arm" "mode = 0755" && run 0 doze image build -q r.ini &&
    recipe "entry = /no" "[file /usr/bin/x]" "source = x86" "mode = 0755" && refused "the image has no program /no" &&
    recipe "entry = x" "[file /usr/bin/x]" "source = x86" && refused "the image has no program x" &&
    recipe "entry = x" "[file /usr/bin/x]" "text = hello" "mode = 0755" && refused "neither an ELF program nor a script" &&
    recipe "entry = x -c" "[file /usr/bin/x]" "source = x86" "mode = 0755" && run 0 doze image build -q r.ini
'
test_that 'no module is looked for in it' '
    printf "\0asm\1\0\0\0" >m && recipe "[file /m]" "source = m" && run 0 doze image build -q r.ini && run 0 doze image inspect new --json &&
    has out "\"kind\":\"linux\"" && has out "\"programs\":[]" && run 0 doze image export new n.doze && run 0 doze image import -q n.doze -t imported &&
    run 0 doze image verify imported && run 0 doze image inspect imported && grep -q "^kind *linux$" out && run 0 doze image rm imported
'

# --- hostile packages ---
mkdir -p bad
python3 - <<'P' || exit 1
import debs, tarfile
def bad(name, *members, control=None, how="xz", parts=None):
    d = debs.Deb("bad", "1")
    if control:
        d.control.update(control)
    for member in members:
        d.add(*member)
    with open(f"bad/{name}.deb", "wb") as f:
        f.write(debs.ar(*(parts(d.parts(how)) if parts else d.parts(how))))
F, L, H, C, D = tarfile.REGTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.DIRTYPE
ok = ("./a", F, b"x")
bad("up", ok, ("./../evil", F, b"x"))
bad("absolute", ("/tmp/evil", F, b"x"))
bad("hard", ("./h", H, "../../etc/passwd"))
bad("nowhere", ("./h", H, "./not"))
bad("device", ("./null", C))
bad("root", (".", F, b"x"))
bad("over", ("./a", D), ("./a", F, b"x"))
bad("bomb", ("./b", F, b"x" * (300 << 20)))
bad("stanza", ok, control={"control": b"Package: bad\nVersion: 1\nArchitecture: amd64\n\nPackage: libc6\n"})
bad("other", ok, control={"control": b"Package: good\nVersion: 1\nArchitecture: amd64\n"})
bad("none", ok, control={"control": b""})
bad("control-up", ok, control={"../../../../etc/shadow": b"x"})
bad("trigger", ok, control={"triggers": b"interest ../../../etc/shadow\n"})
bad("no-data", ok, parts=lambda p: p[:2])
bad("twice", ok, parts=lambda p: p + p[2:])
bad("order", ok, parts=lambda p: [p[0], p[2], p[1]])
bad("format", ok, parts=lambda p: [("debian-binary", b"3.0\n")] + p[1:])
bad("bzip2", ok, parts=lambda p: p[:2] + [("data.tar.bz2", b"BZh91AY" + b"x" * 100)])
data = debs.ar(*debs.Deb("bad", "1").parts())
open("bad/short.deb", "wb").write(data[:-40])
open("bad/cut.deb", "wb").write(data[:70])
open("bad/size.deb", "wb").write(data[:56] + b"99999999  " + data[66:])
open("bad/text.deb", "wb").write(b"hello\n" * 100)
P
# lock_of FILE: a recipe and a lock of this package alone
lock_of() {
    recipe "[apt bad.lock]" "package = bad" && cp "$1" repo/bad.deb &&
    printf '%s\n' 'doze-lock 1' 'want bad' "deb bad 1 amd64 $(stat -c %s "$1") $(sha256sum "$1" | cut -d' ' -f1) ./bad.deb" >bad.lock
}
test_that 'hostile packages of all kinds: refused, nothing outside, nothing left' '
    for a in bad/*.deb; do
        lock_of "$a" && refused "line 4, bad.lock: bad 1: " || { echo "$a"; exit 1; }
    done && [ "$(ls bad | wc -l)" = 22 ] && [ ! -e evil ] && [ ! -e /tmp/evil ]
'
test_that 'what is wrong with them is said' '
    says() { lock_of "bad/$1.deb" && refused "$2"; }
    says bomb "more than 100 times" && says up "leads out of the image" && says device "neither a file nor a directory nor a link" &&
    says stanza "has an empty line" && says other "is not the package bad 1 for amd64" && says bzip2 "compressed by bzip2" &&
    says no-data "has no files" && says text "no Debian package" && says short "Input/output error"
'
test_that 'a link in a package leads to another place of the image at most' '
    python3 -c "
import debs
d = debs.Deb(\"bad\", \"1\")
d.link(\"l\", \"/../../../../../../$PWD\")
d.dir(\"$PWD\".strip(\"/\"))
d.file(\"l/evil\", b\"x\")
d.write(\"within.deb\")" && lock_of within.deb && run 0 doze image build -q r.ini && file "$PWD/evil" && [ "$(cat out)" = x ] && [ ! -e evil ]
'

# --- scripts ---
test_that 'a script completes the image: it sees the image so far, its owners and links count' '
    cat >s.sh <<"S" && chmod +x s.sh &&
#!/bin/sh
set -e
[ "$(readlink "$1/abs")" = /etc/x ] && [ "$(cat "$1/d/f")" = hi ] && [ ! -e "$1/later" ] || exit 1
rm -rf made && mkdir -p made/etc && echo made >made/etc/x && chmod 4750 made/etc/x && ln -s /etc/x made/out
tar --numeric-owner --owner=3 --group=4 --mtime=@0 -C made -cf "$2" etc/x out
S
    recipe "[file /d/f]" "text = hi" "[link /abs]" "target = /etc/x" "[script s.sh]" "[file /later]" "text = x" && run 0 doze image build r.ini && cp out id &&
    file /etc/x && [ "$(cat out)" = made ] && run 0 doze disk tar new.doze && tar --numeric-owner -tvf out >list &&
    grep -qE "^-rwsr-x--- 3/4 .* etc/x$" list && grep -qE "out -> /etc/x$" list && run 0 doze image build --fresh -q r.ini && cmp out id
'
test_that 'its result is cached, until it or what comes before it changes' '
    printf "%s\n" "touch $PWD/ran" >>s.sh && run 0 doze image build -q r.ini && [ -e ran ] && rm ran &&
    run 0 doze image build -q r.ini && [ ! -e ran ] && sed -i "s/text = x/text = y/" r.ini && run 0 doze image build -q r.ini && [ ! -e ran ] &&
    sed -i "s/target = .*/target = \/etc\/x/; s/d\/f/d\/g/" r.ini && refused "s.sh failed"
'
test_that 'a script that fails, or makes nothing, or a broken archive' '
    fails() { printf "%s\n" "#!/bin/sh" "$1" >s.sh && recipe "[script s.sh]" && refused "line 4, s.sh: " "$2"; }
    fails "echo the cause; exit 3" "the cause" && fails "exit 0" "did not make its output" && fails "echo junk >\$2" "line 4" &&
    fails "mkdir -p /tmp && tar -P -cf \$2 /etc/hostname" "line 4"
'
test_that 'a confined build runs none' '
    recipe "[script s.sh]" && run 1 doze image build -q --confined r.ini && has err "runs no compiler and no script" &&
    recipe "$merged" "$want" && run 0 doze image build -q --confined r.ini && cp r.lock .. && recipe "[apt ../r.lock]" "package = a" &&
    run 1 doze image build -q --confined r.ini && has err "its source is not among the files"; rm -f ../r.lock
'
test_done
