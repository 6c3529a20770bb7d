#!/bin/bash
# Images built by the daemon: from a text and from an archive, followed, cancelled, refused.
# Needs `make base`.
. "$(dirname "$0")/lib.sh"
. "$LIB_ROOT/tests/integration/daemon.sh"

I=/v1/images
build_of() { grep -oE "bld_[a-z0-9]+" out | head -1; }
until_over() { # BUILD
    for _ in $(seq 400); do
        api 200 GET "$I/builds/$1" && grep -q "\"over\":true" out && return 0
        read -rt 0.05 <> <(:) || :
    done
    cat out
    return 1
}
# upload STATUS QUERY TAR
upload() {
    got=$(curl -sS --max-time 60 --unix-socket "$SOCK" -o out -w '%{http_code}' -H "Content-Type: application/x-tar" --data-binary "@$3" "http://d$I/upload?$2") || return 1
    [ "$got" = "$1" ] || { echo "$got, not $1"; cat out; return 1; }
}
# nothing is left of a build but what was there before
clean() { [ -z "$(ls data/builds 2>/dev/null)" ] && [ -z "$(ls data/images/scratch)" ] && [ -z "$(ls data/images/work 2>/dev/null)" ]; }
mkdir -p up/sub && echo "hello from a tar" >up/sub/f
printf '[image]\nfrom = base\n[file /hello]\nsource = sub/f\n' >up/recipe && tar cf good.tar -C up .
printf '[image]\nfrom = base\n[file /p]\nsource = /etc/passwd\n' >up/recipe && tar cf passwd.tar -C up .
printf '[image]\nfrom = base\n[c /usr/bin/x]\nsource = x.c\n' >up/recipe && echo "int main(){}" >up/x.c && tar cf compile.tar -C up .
ln -s /etc up/link && printf '[image]\nfrom = base\n[file /p]\nsource = link/passwd\n' >up/recipe && tar cf link.tar -C up .

test_that 'a recipe as text: built, followed by its id, used' '
    start && api 202 POST $I "{\"name\":\"hi\",\"recipe\":\"[image]\\nfrom = base\\n[file /hi]\\ntext = hi there\\n\"}" &&
    has out "\"status\":\"UPLOADING\"" && b=$(build_of) && until_over "$b" && has out "\"status\":\"DEPLOYED\"" && has out "\"image_id\":\"img_" &&
    api 200 GET "$I/builds/$b/log" && has out "status BUILDING" && api 200 GET $I/builds && has out "$b" &&
    api 201 POST "$(s)" "{\"image\":\"hi\",\"name\":\"one\"}" && api 200 POST "$(s /one/exec)" "{\"cmd\":[\"cat\",\"/hi\"]}" && has out "hi there" && clean
'
test_that 'an archive with files, followed as a stream from its request on' '
    curl -sSN --max-time 60 --unix-socket "$SOCK" -H "Accept: text/event-stream" --data-binary @good.tar "http://d$I/upload?name=files:1" >sse &&
    has sse "event: status" && has sse "event: log" && has sse "event: end" && has sse "\"status\":\"DEPLOYED\"" &&
    api 201 POST "$(s)" "{\"image\":\"files:1\",\"name\":\"two\"}" && api 200 POST "$(s /two/exec)" "{\"cmd\":[\"cat\",\"/hello\"]}" && has out "hello from a tar" && clean
'
test_that 'nothing of the machine that builds gets in, and nothing is run there' '
    for t in passwd compile link; do
        upload 202 name=bad $t.tar && b=$(build_of) && until_over "$b" && has out "\"status\":\"FAILED\"" && clean || return 1
    done
    api 202 POST $I "{\"name\":\"bad\",\"recipe\":\"[image]\\nfrom = /etc/x.doze\\n\"}" && b=$(build_of) && until_over "$b" &&
    has out "\"status\":\"FAILED\"" && has out "takes no files" && api 404 GET $I/bad
'
test_that 'what is wrong is said: by its field at once, by its line in the build' '
    api 400 POST $I "{\"recipe\":\"[image]\\n\"}" && has out "\"field\":\"name\"" &&
    api 400 POST $I "{\"name\":\"a b\",\"recipe\":\"x\"}" && has out "\"field\":\"name\"" &&
    api 400 POST $I "{\"name\":\"x\"}" && has out "\"field\":\"recipe\"" &&
    api 400 POST $I "{\"name\":\"x\",\"recipe\":\"x\",\"from\":\"nothing\"}" && has out "\"field\":\"from\"" &&
    api 400 POST $I "{\"name\":\"x\",\"recipe\":\"x\",\"color\":1}" && has out "\"field\":\"color\"" &&
    upload 400 "nam=x" good.tar && has out "\"field\":\"nam\"" && upload 400 "name=x&fresh=yes" good.tar && has out "\"field\":\"fresh\"" &&
    api 404 GET $I/builds/bld_none && api 404 DELETE $I/builds/bld_none &&
    api 202 POST $I "{\"name\":\"x\",\"recipe\":\"[image]\\nfrom = base\\n[nonsense x]\\n\"}" && b=$(build_of) && until_over "$b" &&
    has out "FAILED" && has out "recipe:3:" && echo junk >junk && upload 202 name=x junk && b=$(build_of) && until_over "$b" && has out "FAILED" &&
    upload 202 "name=x&recipe=../../recipe" good.tar && b=$(build_of) && until_over "$b" && has out "not in the archive" && clean && api 404 GET $I/x
'
test_that 'an upload that breaks off leaves nothing' '
    { curl -sS --max-time 60 --limit-rate 1 --unix-socket "$SOCK" --data-binary @good.tar "http://d$I/upload?name=half" >/dev/null 2>&1 & } && curl=$! &&
    for _ in $(seq 100); do [ -n "$(ls data/builds 2>/dev/null)" ] && break; read -rt 0.05 <> <(:) || :; done && [ -n "$(ls data/builds)" ] &&
    api 200 GET $I/builds && lacks out "half" && kill "$curl" &&
    for _ in $(seq 100); do clean && break; read -rt 0.05 <> <(:) || :; done && clean
'
# one that takes long: a package manager that waits
mkdir fake && printf '#!/bin/sh\necho fetching >>%s/fetching\nsleep 1000 & wait\n' "$PWD" >fake/pip && cp fake/pip fake/pip3 && cp fake/pip fake/python3 && chmod +x fake/*
SLOW="[image]\\nfrom = base\\n[pypi slow]\\nversion = 1.0\\nsha256 = $(printf '%064d' 0)\\ncopy = / /x/\\n"
export SLOW
test_that 'one that is cancelled fails, with all that it started; those that wait have their turn' '
    stop && OLD=$PATH && PATH=$PWD/fake:$PATH start && PATH=$OLD &&
    api 202 POST $I "{\"name\":\"slow\",\"recipe\":\"$SLOW\"}" && b=$(build_of) &&
    api 202 POST $I "{\"name\":\"next\",\"recipe\":\"[image]\\nfrom = base\\n\"}" && n=$(build_of) &&
    api 202 POST $I "{\"name\":\"never\",\"recipe\":\"[image]\\nfrom = base\\n\"}" && v=$(build_of) &&
    for _ in $(seq 200); do [ -e fetching ] && break; read -rt 0.05 <> <(:) || :; done && [ -e fetching ] &&
    for _ in $(seq 100); do api 200 GET "$I/builds/$b" && grep -q BUILDING out && break; read -rt 0.05 <> <(:) || :; done && has out "\"status\":\"BUILDING\"" && api 200 GET "$I/builds/$n" && has out "\"over\":false" &&
    api 202 DELETE "$I/builds/$v" && has out "\"status\":\"FAILED\"" && has out "cancelled" &&
    api 202 DELETE "$I/builds/$b" && until_over "$b" && has out "cancelled" && until_over "$n" && has out "DEPLOYED" &&
    clean && api 404 GET $I/slow && api 404 GET $I/never && ! pgrep -f "$PWD/fake" >/dev/null
'
test_that 'so many may wait, and one more is refused; the end of the daemon ends them all' '
    rm -f fetching && for i in 1 2 3 4 5 6 7 8; do api 202 POST $I "{\"name\":\"n$i\",\"recipe\":\"$SLOW\"}" || return 1; done &&
    api 503 POST $I "{\"name\":\"n9\",\"recipe\":\"x\"}" && has out "already queued" &&
    for _ in $(seq 200); do [ -e fetching ] && break; read -rt 0.05 <> <(:) || :; done &&
    kill -9 "$(cat daemon.pid)" && gone "$(cat daemon.pid)" &&
    for _ in $(seq 100); do pgrep -f "$PWD/fake" >/dev/null || break; read -rt 0.05 <> <(:) || :; done && ! pgrep -f "$PWD/fake" >/dev/null &&
    start && [ -z "$(ls data/builds 2>/dev/null)" ] && api 200 GET $I/builds && has out "\"builds\":[]" &&
    api 202 POST $I "{\"name\":\"hi\",\"recipe\":\"[image]\\nfrom = base\\n\"}" && b=$(build_of) && until_over "$b" && has out DEPLOYED && clean && stop
'
test_done
