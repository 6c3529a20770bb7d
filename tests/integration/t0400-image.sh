#!/bin/bash
# doze image: building, keeping, checking. Needs no network and no compiler.
. "$(dirname "$0")/lib.sh"
export DOZE_DATA=$PWD/data

hex() { printf '%s' "$@" | tr -d ' ' | sed 's/../\\x&/g' | xargs -0 printf '%b'; }
# run -> 7, as a reactor
mkdir -p root/bin root/etc
hex 0061736d 01000000 010501 60 00 017f 030201 00 0707 01 0372756e 0000 0a0601 04 00 4107 0b >root/bin/seven
chmod 755 root/bin/seven && echo "root:x:0:0:root:/:/bin/sh" >root/etc/passwd

# recipe LINES...: into r.ini
recipe() { printf '%s\n' "$@" >r.ini; }
# wrong LINE TEXT LINES...: such a recipe is refused, there, so
wrong() {
    local line=$1 text=$2
    shift 2
    recipe "$@"
    run 1 doze image build r.ini && lines err 1 && has err "r.ini:$line: " && has err "$text"
}
files() { (cd data/images && find files modules tags work -type f | sort); }

test_that 'a directory becomes an image that runs' '
    run 0 doze image build -q --from-dir root -t seven && grep -qx "img_[0-9a-f]*" out && empty err &&
    run 0 doze image ls && has out seven:latest &&
    run 7 doze run -I seven -- seven && run 7 doze run -I seven:latest /bin/seven
'
test_that 'the same inputs give the same bytes' '
    run 0 doze image build -q --from-dir root -t seven && cp out one &&
    cp -r root again && touch again/bin/seven &&
    DOZE_DATA=$PWD/data2 run 0 doze image build -q --from-dir again -t other:1 && cmp out one &&
    run 0 doze image build -q --fresh --from-dir root -t seven && cmp out one
'
test_that 'inspect, by name and by digits, and as JSON' '
    run 0 doze image inspect seven && has out /bin/seven &&
    run 0 doze image inspect --json "$(cat one)" && has out "\"path\":\"/bin/seven\"" &&
    run 1 doze image inspect nothing && has err "no image nothing:latest" &&
    run 1 doze image inspect "../x" && has err "not the name of an image"
'
test_that 'a recipe: what it says, and how it is run' '
    mkdir -p tree/sub && echo t >tree/sub/t && ln -s sub tree/l && chmod 700 tree/sub &&
    mkdir -p pack/in && echo p >pack/in/p && tar -czf p.tgz -C pack in &&
    recipe "[image]" "name = all:1" "from = seven" "entry = /bin/seven" "memory = 32MB" \
        "workdir = /data" "[env]" "A = b c" "[dir /data]" "owner = 5:6" "mode = 0700" \
        "[file /etc/motd]" "text = one" "text = two" "mode = 0600" "[link /etc/l]" "target = motd" \
        "[tree /opt]" "source = tree" "[tar /from]" "source = p.tgz" \
        "[tar /x]" "source = p.tgz" "copy = in/p /only" "mode = 0751" "[remove /etc/passwd]" &&
    run 0 doze image build r.ini && has err BUILDING && has err DEPLOYED &&
    run 7 doze run -I all:1 &&
    run 0 doze image export all:1 all.doze && run 0 doze disk ls -l all.doze / && has out data &&
    run 0 doze disk cat all.doze /etc/l && [ "$(cat out)" = "one
two" ] && run 0 doze disk cat all.doze /opt/l/t && run 0 doze disk cat all.doze /from/in/p &&
    run 0 doze disk cat all.doze /only && run 0 doze disk ls -l all.doze /only && has out "-rwxr-x--x" && run 1 doze disk cat all.doze /etc/passwd &&
    run 1 doze disk ls all.doze /.doze-archive && run 0 doze disk check all.doze &&
    run 0 doze image inspect --json all:1 && has out "\"env\":[\"A=b c\"]" &&
    has out "\"memory_bytes\":32000000"
'
test_that 'what a recipe takes from a zip, also from one in it' '
    python3 - <<"P" &&
import io, zipfile
inner = io.BytesIO()
with zipfile.ZipFile(inner, "w", zipfile.ZIP_DEFLATED) as z:
    z.writestr("d/x.txt", "deep" * 5000)
with zipfile.ZipFile("a.zip", "w", zipfile.ZIP_DEFLATED) as z:
    z.writestr("top.txt", "top")
    z.writestr("inner.zip", inner.getvalue())
    z.writestr("m/n/o", "o")
P
    recipe "[image]" "name = zip" "[tar /z]" "source = a.zip" "copy = inner.zip!d/ /deep/" \
        "copy = top.txt /name" "copy = m/ /m/" "copy = top.txt /dir/" &&
    run 0 doze image build -q r.ini && run 0 doze image export zip zip.doze &&
    run 0 doze disk cat zip.doze /deep/x.txt && [ "$(wc -c <out)" = 20000 ] &&
    run 0 doze disk cat zip.doze /name && run 0 doze disk cat zip.doze /m/n/o &&
    run 0 doze disk cat zip.doze /dir/top.txt
'
test_that 'wrong recipes: the line, and the store as it was' '
    files >before &&
    wrong 2 "unknown section" "[image]" "[nonsense /x]" &&
    wrong 3 "no key colour" "[image]" "[dir /x]" "colour = red" &&
    wrong 1 "version is missing" "[pypi numpy]" "sha256 = $(printf %064d 0)" &&
    wrong 1 "sha256 is missing" "[pypi numpy]" "version = 1" &&
    wrong 3 "mode must be octal" "[image]" "[dir /x]" "mode = 9" &&
    wrong 1 "must begin with /" "[dir x]" &&
    wrong 2 "services are not supported" "[image]" "services = a" &&
    wrong 2 "policy: must be" "[image]" "policy = all" &&
    wrong 1 "before the first section" "name = x" &&
    wrong 2 "expected a [section]" "[image]" "what is this" &&
    wrong 2 "are allowed" "[image]" "entry = $(printf %0300d 0)" &&
    wrong 3 "given twice" "[image]" "name = a" "name = b" &&
    run 2 doze image build && run 2 doze image build --from-dir root &&
    run 1 doze image build none.ini && files | cmp - before
'
test_that 'hostile archives: refused, the store as it was' '
    files >before &&
    mkdir -p h && echo x >h/x && tar -cPf up.tar --transform "s,h/x,../../evil," h/x &&
    recipe "[image]" "name = bad" "[tar /z]" "source = up.tar" &&
    run 1 doze image build -q r.ini && has err "line 3, /z" &&
    python3 -c "
import zipfile
z = zipfile.ZipFile(\"up.zip\", \"w\"); z.writestr(\"../evil\", \"x\"); z.close()
z = zipfile.ZipFile(\"bomb.zip\", \"w\", zipfile.ZIP_DEFLATED); z.writestr(\"b\", \"0\" * 9000000); z.close()
b = bytearray(open(\"bomb.zip\", \"rb\").read())
at = b.index(b\"PK\\x01\\x02\"); b[at + 24:at + 28] = (5).to_bytes(4, \"little\"); open(\"bomb.zip\", \"wb\").write(b)
" &&
    recipe "[image]" "name = bad" "[tar /z]" "source = up.zip" "copy = / /z/" &&
    run 1 doze image build -q r.ini && has err "zip archive" &&
    recipe "[image]" "name = bad" "[tar /z]" "source = bomb.zip" "copy = b /z" &&
    run 1 doze image build -q r.ini && has err "longer than its header says" &&
    head -c 1000 /dev/urandom >noise.zip && printf PK | dd of=noise.zip conv=notrunc status=none &&
    recipe "[image]" "name = bad" "[tar /z]" "source = noise.zip" "copy = / /z/" &&
    run 1 doze image build -q r.ini && has err "not a zip archive" &&
    recipe "[image]" "name = bad" "[tar /z]" "source = a.zip" "copy = nowhere /z" &&
    run 1 doze image build -q r.ini && has err "has no nowhere" &&
    recipe "[image]" "name = bad" "[tar /z]" "source = p.tgz" "sha256 = $(printf %064d 0)" &&
    run 1 doze image build -q r.ini && has err "hash mismatch: expected SHA-256 $(printf %064d 0), got $(sha256sum p.tgz | cut -c1-64)" &&
    files | cmp - before && [ ! -e evil ] && [ ! -e ../evil ]
'
test_that 'packages that are not to be had: said, the store as it was' '
    files >before && export PIP_NO_INDEX=1 &&
    recipe "[image]" "name = bad" "[pypi no-such-package]" "version = 1.0" \
        "sha256 = $(printf %064d 0)" "copy = / /p/" &&
    run 1 doze image build -t bad r.ini && has err "line 3, no-such-package: python3 failed" &&
    has err "the log is" && files | cmp - before && has data/images/logs/bad:latest.log "status FAILED" &&
    recipe "[image]" "name = bad" "[debian hello]" "version = 1" "build = r.ini" "path = /h" &&
    run 1 env -u DOZE_GUEST doze image build --guest /nowhere r.ini && has err "compiling requires doze-cc"
'
test_that 'export and import: the same image' '
    run 0 doze image export seven seven.doze && run 1 doze image export seven seven.doze &&
    DOZE_DATA=$PWD/data3 run 0 doze image import -q seven.doze -t got:1 && cmp out one &&
    DOZE_DATA=$PWD/data3 run 7 doze run -I got:1 seven &&
    run 0 doze disk create plain.doze && run 1 doze image import -q plain.doze && has err "not an image" &&
    sqlite3 seven.doze "update program set sha256=zeroblob(32)" &&
    run 1 doze image import -q seven.doze -t bad && has err "missing or wrong for" &&
    echo nothing >text && run 1 doze image import -q text && run 1 doze image inspect bad
'
test_that 'verify names what is damaged, and makes it anew' '
    run 0 doze image verify seven && has out "no damage" &&
    m=$(ls data/images/modules/* | head -n 1) && chmod 600 "$m" &&
    printf xxxx | dd of="$m" bs=1 seek=200 conv=notrunc status=none &&
    run 1 doze image verify seven && has out "prepared module of /bin/seven is damaged" &&
    run 7 doze run -I seven seven &&
    run 0 doze image verify --repair seven && has out "rebuilt" && run 0 doze image verify seven &&
    m=$(ls data/images/modules/* | head -n 1) && chmod 600 "$m" &&
    printf x | dd of="$m" bs=1 seek=$(($(stat -c %s "$m") - 1)) conv=notrunc status=none && # no sum has it
    run 1 doze image verify seven && has out "from the result of preparing its binary" &&
    run 0 doze image verify --repair seven && run 0 doze image verify seven &&
    rm -f data/images/files/*.manifest && run 125 doze run -I seven seven &&
    has err "verify --repair" &&
    run 0 doze image verify --repair && run 7 doze run -I seven seven &&
    f=$(ls data/images/files/$(cut -c5- one)*.doze) && cp "$f" keep && chmod 600 "$f" &&
    printf x | dd of="$f" bs=1 seek=9000 conv=notrunc status=none &&
    run 1 doze image verify seven && has out "its bytes have the hash" && cp keep "$f"
'
test_that 'rm and gc: what has no name goes, what runs stays' '
    hex 0061736d 01000000 010401 60 0000 030201 00 0707 01 0372756e 0000 0a0901 07 00 0340 0c00 0b 0b >root/bin/loop &&
    chmod 755 root/bin/loop && run 0 doze image build -q --from-dir root -t loop &&
    { doze run -I loop loop & } && pid=$! && sleep 0.5 &&
    run 1 doze image rm loop && has err "in use" && kill $pid && { wait $pid || true; } &&
    run 0 doze image rm loop && run 1 doze image inspect loop &&
    echo more >root/etc/more && run 0 doze image build -q --from-dir root -t seven &&
    run 0 doze image ls -q && before=$(wc -l <out) && run 0 doze image gc && has out removed &&
    run 0 doze image ls -q && lines out $((before - 1)) && cp out all && run 7 doze run -I seven seven &&
    for i in $(cat all); do run 0 doze image rm "$i" || exit 1; done &&
    run 0 doze image gc --cache &&
    [ -z "$(files)" ]
'
test_that 'an image that the registry needs stays' '
    export DOZE_DATA=$PWD/needed && run 0 doze image build -q --from-dir root -t one && sha=$(basename data/../needed/images/files/*.doze .doze) &&
    run 0 doze registry register sbx_1 acme && run 0 doze registry register sbx_2 acme &&
    sqlite3 needed/registry.db "update instances set image=\"$sha\"" &&
    run 1 doze image rm one && has err "the sandbox sbx_1 and 1 more" && run 7 doze run -I one seven &&
    rm needed/images/tags/* && run 0 doze image gc && run 7 doze run -I "$sha" seven &&
    sqlite3 needed/registry.db "update instances set image=\"\"" && run 0 doze image gc && run 125 doze run -I "$sha" seven &&
    [ -z "$(ls needed/images/files needed/images/modules | grep -v :)" ]
'
test_that 'a name without a tag is its only one; of several it must be said which' '
    export DOZE_DATA=$PWD/names && run 0 doze image build -q --from-dir root -t odd:1 && run 7 doze run -I odd -- seven &&
    run 0 doze image build -q --from-dir root -t odd:2 && run 125 doze run -I odd -- seven &&
    has err "2 images odd" && run 1 doze image inspect od && run 0 doze image rm odd:1 &&
    run 7 doze run -I odd -- seven
'
test_that 'a file says which image it stands on' '
    export DOZE_DATA=$PWD/names && run 7 doze run -I odd --file s.doze -- seven && run 7 doze run --file s.doze -- seven &&
    DOZE_DATA=$PWD/none run 125 doze run --file s.doze -- seven && has err "was not given"
'
test_done
