#!/bin/bash
# Sandboxes on an image with a pack, in the daemon's cells: files are read from the pack, changes
# lie in the sandbox's own file, and copies, shares and images of it have all content.
. "$(dirname "$0")/lib.sh"
. "$LIB_ROOT/tests/integration/daemon.sh"
start || exit 1

yes 'of the image' | head -c 200000 >large && printf '\177ELF\2\1\1\0\0\0\0\0\0\0\0\0\3\0\76\0rest' >program
printf '%s\n' '[image]' 'name = packed' 'kind = linux' '[file /workspace/large]' 'source = large' \
    '[file /usr/bin/program]' 'source = program' 'mode = 0755' >packed.ini
# asleep: the sandbox web is, whether it was before or not
asleep() { doze suspend web >/dev/null 2>&1 || true; }
pack() { find data/images/packs -type f; }

test_that 'a sandbox reads them, from a cell without a zygote and from one with' '
    run 0 doze image build -q packed.ini && pack && run 0 doze create packed --name web &&
    for i in 1 2 3; do
        run 0 doze cat web:/workspace/large && cmp out large && run 0 doze cat web:/usr/bin/program && cmp out program && asleep || exit 1
    done && run 0 doze files web:/workspace && has out large
'
test_that 'what it writes is its own; the rest of the file still comes from the pack' '
    run 0 doze create packed --name other && echo short >new && run 0 doze cp new other:/workspace/large && run 0 doze cat other:/workspace/large && cmp out new &&
    run 0 doze cat web:/workspace/large && cmp out large && run 0 doze rm -f other
'
test_that 'SQL over the files does not show wrong content' '
    run 0 doze sql web "SELECT path,content IS NULL FROM vfs" && has out large && run 0 doze cp new web:/workspace/small && run 0 doze sql web "SELECT path,content FROM vfs WHERE path='"'"'small'"'"'" && has out c2hvcnQK
'
test_that 'a clone stands on the pack too' '
    asleep && run 0 doze clone web --name twin && run 0 doze cat twin:/workspace/large && cmp out large && run 0 doze rm -f twin
'
test_that 'a share has the content in itself' '
    asleep && run 0 doze share web web.share && run 0 doze disk cat web.share /workspace/large && cmp out large && run 0 doze disk check web.share
'
test_that 'frozen and thawed' '
    asleep && run 0 doze freeze web && run 0 doze cat web:/workspace/large && cmp out large
'
test_that 'the API says of which kind the image is' '
    api 200 GET /v1/images/packed && has out "\"kind\":\"linux\"" && api 200 GET /v1/images && has out "\"kind\":\"linux\"" &&
    run 0 env DOZE_URL=unix:$SOCK doze image ls && has out linux
'
test_that 'the pack goes with the image, when no sandbox needs it' '
    run 1 doze image rm packed && [ -n "$(pack)" ] && run 0 doze rm -f web && run 0 doze image rm packed && [ -z "$(pack)" ]
'
test_done
