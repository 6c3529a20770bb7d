#!/bin/bash
# The pack of an image of kind linux: which files are in it, one file for all who have the same,
# exported and imported, damaged, removed, and rebuilt in images that start from it.
. "$(dirname "$0")/lib.sh"
export DOZE_DATA=$PWD/data

# elf SIZE SEED: bytes that begin as a program for x86-64 does
elf() {
    printf '\177ELF\2\1\1\0\0\0\0\0\0\0\0\0\3\0\76\0'
    head -c $(($1 - 20)) < <(yes "$2")
}
recipe() { printf '%s\n' '[image]' "name = $1" 'kind = linux' >"$1.ini" && cat >>"$1.ini"; }
packs() { find data/images/packs -type f | sort; }
count() { packs | wc -l; }
# pack_of IMAGE: the digits of its pack
pack_of() { sed -n 's/^pack \([0-9a-f]*\) .*/\1/p' data/images/files/"$(doze image inspect "$1" | sed -n 's/^sha256 *//p')".manifest; }
# tree IMAGE: all of its files, as a hash
tree() { rm -f tree.doze && doze image export -q "$1" tree.doze && doze disk tar tree.doze | sha256sum; }

elf 300 12345 >small && elf 200000 987654321 >large && yes text | head -c 70000 >text && yes secret | head -c 70000 >secret
truncate -s 200000 holes && printf x | dd of=holes bs=1 seek=150000 conv=notrunc 2>/dev/null && tar -S --format=posix -cf holes.tar holes
recipe new <<'R'
[file /usr/bin/small]
source = small
mode = 0755
[file /usr/bin/large]
source = large
mode = 0755
[file /text]
source = text
[file /secret]
source = secret
mode = 0640
[dir /closed]
mode = 0700
[file /closed/text]
source = secret
[tar /]
source = holes.tar
[file /short]
text = short
R

test_that 'programs and large files that everybody may read are in it, from pages, and not in the image' '
    run 0 doze image build new.ini && cp out id && [ "$(count)" = 1 ] && pack=$(packs) && [ "$(sha256sum "$pack" | cut -d" " -f1)" = "$(pack_of new)" ] &&
    [ "$(stat -c %a "$pack")" = 444 ] && [ "$(stat -c %s "$pack")" = $((4096 * (1 + 1 + 49 + 18))) ] && head -c 15 "$pack" | grep -q "doze image pack" &&
    tail -c +4097 "$pack" | head -c 300 | cmp - small && tail -c +8193 "$pack" | head -c 200000 | cmp - large &&
    tail -c +$((4096 * 51 + 1)) "$pack" | head -c 70000 | cmp - text && ! grep -q secret "$pack" &&
    db=$(ls data/images/files/*.doze) && ! grep -qa 987654321 "$db" && grep -qa secret "$db" && grep -qa short "$db"
'
test_that 'files are read from wherever they are' '
    run 0 doze image export -q new new.doze && for f in small large; do run 0 doze disk cat new.doze /usr/bin/$f && cmp out $f || exit 1; done &&
    for f in text secret holes; do run 0 doze disk cat new.doze /$f && cmp out $f || exit 1; done &&
    run 0 doze disk cat new.doze /closed/text && cmp out secret && run 0 doze disk check new.doze &&
    run 0 doze disk cat data/images/files/*.doze /text && cmp out text && run 0 doze disk check data/images/files/*.doze
'
test_that 'the same inputs give the same image and pack' '
    run 0 doze image build --fresh new.ini && cmp out id && [ "$(count)" = 1 ] && sha=$(pack_of new) && run 0 doze image rm new && [ "$(count)" = 0 ] &&
    run 0 doze image build new.ini && cmp out id && [ "$(pack_of new)" = "$sha" ] && run 0 doze image verify new
'
test_that 'the size of an image is that of both files' '
    run 0 doze image inspect new --json && has out "\"size_bytes\":$(($(stat -c %s data/images/files/*.doze) + $(stat -c %s "$(packs)")))"
'
test_that 'an image cannot be changed by the commands of disks' '
    echo x >x && run 1 doze disk put new.doze x /x && has err "image with a pack, which cannot be changed" && run 1 doze disk rm new.doze /text
'
test_that 'SQL shows no content of the pack rather than a wrong one' '
    recipe sql <<"R" && run 0 doze image build -q sql.ini && run 0 doze image export -q sql sql.doze &&
[file /workspace/text]
source = text
[file /workspace/short]
text = short
R
    run 0 doze disk sql sql.doze "SELECT path,content IS NULL,mtime FROM vfs ORDER BY path" && has out "short	0	0" && has out "text	1	0" && run 0 doze image rm sql
'
test_that 'images with the same files share a pack; it goes with the last of them' '
    cp new.ini other.ini && sed -i "s/name = new/name = other/; s/= short/= longer/" other.ini && run 0 doze image build -q other.ini &&
    [ "$(count)" = 1 ] && run 0 doze image rm new && [ "$(count)" = 1 ] && run 0 doze image verify other && run 0 doze image rm other && [ "$(count)" = 0 ] &&
    run 0 doze image build -q new.ini && touch data/images/packs/"$(printf %064d 0)" && run 0 doze image gc && [ "$(count)" = 1 ]
'
test_that 'a wasm image has none' '
    mkdir -p root && cp large text root && run 0 doze image build -q --from-dir root -t wasm && [ "$(count)" = 1 ] && [ -z "$(pack_of wasm)" ] && run 0 doze image rm wasm
'
test_that 'exported and imported it is the same' '
    run 0 env DOZE_DATA=elsewhere doze image import new.doze && cmp out id && run 0 env DOZE_DATA=elsewhere doze image verify &&
    run 0 env DOZE_DATA=elsewhere doze image export -q new again.doze && cmp new.doze again.doze && [ -e "elsewhere/images/packs/$(pack_of new)" ] &&
    run 0 doze image export -q "$(cat id)" - && cmp out new.doze
'
test_that 'an image from it has a pack of its own with all files' '
    printf "%s\n" "[image]" "name = more" "from = new" "[file /added]" "source = large" "[remove /text]" >more.ini &&
    run 0 doze image build more.ini && cp out more.id && [ "$(count)" = 2 ] && run 0 doze image verify more && run 0 doze image export -q more more.doze &&
    run 0 doze disk cat more.doze /added && cmp out large && run 0 doze disk cat more.doze /usr/bin/small && cmp out small && run 1 doze disk cat more.doze /text &&
    sed "s/= new/= new.doze/; s/= more/= file/; s/from/kind = linux\nfrom/" more.ini >file.ini && run 0 doze image build file.ini && [ "$(count)" = 2 ] && [ "$(tree more)" = "$(tree file)" ] &&
    run 0 doze image rm more && run 0 doze image rm file && [ "$(count)" = 1 ]
'
test_that 'a script sees what is in packs' '
    printf "%s\n" "#!/bin/sh" "cmp \"\$1/usr/bin/large\" $PWD/large && cmp \"\$1/text\" $PWD/text && mkdir -p made && touch made/ok && tar -C made -cf \"\$2\" ok" >s.sh && chmod +x s.sh &&
    printf "%s\n" "[image]" "name = s" "from = new" "[script s.sh]" >s.ini && run 0 doze image build -q s.ini && run 0 doze image rm s
'
test_that 'a build that fails leaves no pack' '
    cp new.ini bad.ini && printf "%s\n" "[remove /nothing]" >>bad.ini && run 1 doze image build -q bad.ini && [ "$(count)" = 1 ] && [ -z "$(ls data/images/scratch)" ]
'

# --- damage ---
test_that 'a damaged pack is found, and cannot be made anew' '
    pack=$(packs) && cp "$pack" kept && chmod 600 "$pack" && printf X | dd of="$pack" bs=1 seek=9000 conv=notrunc 2>/dev/null &&
    run 1 doze image verify new && has out "its pack is damaged" && run 1 doze image verify --repair new && has out "its pack is damaged" &&
    truncate -s 5000 "$pack" && run 1 doze image verify new && has out pack && cp kept "$pack" && chmod 444 "$pack" && run 0 doze image verify new
'
test_that 'a missing one is named by whoever needs it; importing brings it back' '
    rm -f "$(packs)" && run 1 doze image verify new && has out pack && run 1 doze image export -q new no.doze && has err "the pack of the image" && [ ! -e no.doze ] &&
    run 125 doze run --image new -- /usr/bin/small && has err "the pack of the image" && has err "build or import the image again" &&
    run 1 doze disk cat data/images/files/*.doze /text && run 0 doze image import -q new.doze && [ "$(count)" = 1 ] && run 0 doze image verify new &&
    rm -f "$(packs)" && run 0 doze image build -q new.ini && [ "$(count)" = 1 ]
'
test_that 'the manifest is made anew from the image, pack and all' '
    m=$(ls data/images/files/*.manifest) && cp "$m" kept && chmod 600 "$m" && echo broken >"$m" && run 0 doze image verify --repair new && has out "rebuilt" && cmp "$m" kept
'
test_that 'files that only look like exported images' '
    size=$(stat -c %s data/images/files/*.doze) && pack=$(stat -c %s "$(packs)") && all=$(stat -c %s new.doze) && run 0 doze image rm new &&
    bad() { run 1 doze image import bad.doze && has err "$1" && [ "$(count)" = 0 ] && [ -z "$(ls data/images/scratch)" ] && [ -z "$(ls data/images/files)" ]; } &&
    edit() { cp new.doze bad.doze && printf "$2" | dd of=bad.doze bs=1 seek="$1" conv=notrunc 2>/dev/null; } &&
    edit $((size + 9000)) X && bad "its pack is damaged" &&
    edit $((size + 3)) X && bad pack &&
    edit $((all - 17)) "\1" && bad damaged && edit $((all - 18)) "\377" && bad damaged &&
    edit $((all - 32)) "\377" && bad damaged && edit $((all - 27)) "\1" && bad damaged &&
    head -c "$size" new.doze >bad.doze && bad pack && head -c $((size + 8192)) new.doze >bad.doze && bad pack &&
    { head -c "$size" new.doze && head -c 4096 /dev/zero && tail -c +$((size + 4097)) new.doze; } >bad.doze && bad pack &&
    mkdir -p root && run 0 env DOZE_DATA=plain doze image build -q --from-dir root -t plain && run 0 env DOZE_DATA=plain doze image export -q plain plain.doze &&
    psize=$(stat -c %s plain/images/files/*.doze) &&
    python3 -c "
import sys
image = open(\"plain.doze\", \"rb\").read()[:$psize]
pack = open(\"new.doze\", \"rb\").read()[$size:$size + $pack]
sys.stdout.buffer.write(image + pack + b\"x:y\\n\" + len(pack).to_bytes(8, \"big\") + len(image).to_bytes(8, \"big\") + b\"doze image parts\")" >bad.doze &&
    bad "not its own"
'
test_done
