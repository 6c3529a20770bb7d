#!/bin/bash
# The image store with 0, 1, 2, ... pages of the disk left: a build, an import and a new name
# happen wholly or not at all; images can be removed.
. "$(dirname "$0")/full.sh" 48m
start
mkdir tree && echo first >tree/first
doze image build -q --from base --from-dir tree -t other >/dev/null && doze image export other other.doze >/dev/null && doze image rm -q other
# what the store holds; a log is no part of an image, and the cache may have more
store() { (cd data/images && find files modules memory tags scratch -printf '%p %s\n' | sort && cat tags/*); }
name_of() { doze image inspect --json "$1" | sed -n 's/.*"sha256": *"\([0-9a-f]*\)".*/\1/p' | head -1; }

make_new() { # OPERATION
    case $1 in
    import) timeout 60 doze image import -q other.doze -t new ;;
    *) timeout 60 doze image build -q --from base --from-dir tree -t new ;;
    esac
}
# round OPERATION PAGES: it is done wholly, or nothing is, and the error says why
round() {
    local got=0 before=
    make_room
    rm -rf tree && mkdir tree && echo "$1 $2" >tree/file
    case $1 in
    tag | rm) doze image build -q --from base --from-dir tree -t kept >/dev/null || return 1 ;;
    gc) doze image build -q --from base --from-dir tree -t kept >/dev/null && before=$(name_of kept) &&
        doze image build -q --from base --from-dir empty -t kept >/dev/null || return 1 ;;
    esac
    store >stored
    leave "$2"
    case $1 in
    build | import | tag) make_new "$1" >out 2>err || got=$? ;;
    rm) run 0 timeout 30 doze image rm -q kept || return 1 ;;
    gc) run 0 timeout 30 doze image gc -q && [ ! -e "data/images/files/$before.doze" ] || return 1 ;;
    esac
    case $1,$2 in build,0 | import,0 | tag,0) [ "$got" -ne 0 ] || { echo "$1 needs no page" && return 1; } ;; esac
    if [ "$got" -ne 0 ]; then
        cat err
        [ "$got" -ne 124 ] && grep -qE "No space left|disk is full" err && store | diff stored - || return 1
    fi
    [ -z "$(ls -A data/images/scratch)" ] || { ls -A data/images/scratch && return 1; }
    make_room
    case $1 in build | import | tag)
        [ "$got" -eq 0 ] || make_new "$1" >again 2>&1 || { cat again && return 1; }
        run 0 doze image verify && has out "no damage" && run 0 doze image rm -q new || return 1 ;;
    esac
    doze image rm -q kept >/dev/null 2>&1 || :
}
for operation in build import tag rm gc; do
    test_that "image $operation with 0 to 12 pages left" "for pages in 0 1 2 3 5 8 12; do round $operation \$pages; done"
done
stop
test_done
