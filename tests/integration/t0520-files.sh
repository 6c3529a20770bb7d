#!/bin/bash
# Files of a sandbox over the API, awake and asleep; SQL; records of commands; clones and
# public files. Needs `make base`.
. "$(dirname "$0")/lib.sh"
. "$LIB_ROOT/tests/integration/daemon.sh"

# put STATUS PATH FILE [CURL-OPTION...]: upload; fetch PATH: download to got
put() {
    local want=$1 path=$2 file=$3 code
    shift 3
    code=$(curl -sS --max-time 30 --unix-socket "$SOCK" -o out -w '%{http_code}' -T "$file" "$@" "http://d$(s "/web/files?path=$path")") || return 1
    [ "$code" = "$want" ] || { echo "put $path: $code, not $want"; cat out; return 1; }
}
fetch() { curl -sS --max-time 30 --unix-socket "$SOCK" -D head -o got "${@:2}" "http://d$(s "/web/files?path=$1")"; }
asleep() { api 200 GET "$(s /web)" && has out '"state":"suspended"'; }

head -c 5000000 /dev/urandom >big
: >nothing
echo x >exists
start || exit 1

test_that 'put, get, head, replace, a mode, not if it is there' '
    api 201 POST "$(s)" "{\"image\":\"base\",\"name\":\"web\"}" &&
    put 201 /workspace/deep/er/f big && fetch /workspace/deep/er/f && cmp big got && has head "X-Mode: 0644" &&
    put 204 "/workspace/deep/er/f&mode=0755" nothing && fetch /workspace/deep/er/f && [ ! -s got ] && has head "X-Mode: 0755" &&
    put 409 /workspace/deep/er/f exists -H "If-None-Match: *" && put 400 "/workspace/x&mode=9" nothing && has out "\"field\":\"mode\"" &&
    fetch /workspace/deep/er/f -I && has head "200 OK" && put 201 /workspace/big big
'
test_that 'a range' '
    fetch /workspace/big -H "Range: bytes=4999990-" && has head "206" && has head "Content-Range: bytes 4999990-4999999/5000000" &&
    tail -c 10 big | cmp - got && fetch /workspace/big -H "Range: bytes=5-9" && head -c 10 big | tail -c 5 | cmp - got &&
    fetch /workspace/big -H "Range: bytes=5000000-" && has head "416"
'
test_that 'list, make, move, remove' '
    api 200 GET "$(s "/web/files/list?path=/workspace&depth=3")" && has out "\"name\":\"f\",\"path\":\"deep/er/f\",\"type\":\"file\",\"size\":0,\"mode\":\"0755\"" &&
    api 200 GET "$(s "/web/files/list?path=/workspace&limit=1")" && has out "\"truncated\":true" &&
    api 204 POST "$(s /web/files/mkdir)" "{\"path\":\"/workspace/m\"}" && api 409 POST "$(s /web/files/mkdir)" "{\"path\":\"/workspace/m\"}" &&
    api 404 POST "$(s /web/files/mkdir)" "{\"path\":\"/workspace/a/b\"}" && api 204 POST "$(s /web/files/mkdir)" "{\"path\":\"/workspace/a/b\",\"parents\":true}" &&
    api 204 POST "$(s /web/files/move)" "{\"from\":\"/workspace/deep/er/f\",\"to\":\"/workspace/m/g\"}" &&
    api 409 POST "$(s /web/files/move)" "{\"from\":\"/workspace/big\",\"to\":\"/workspace/m/g\",\"replace\":false}" &&
    api 409 DELETE "$(s "/web/files?path=/workspace/deep")" && api 204 DELETE "$(s "/web/files?path=/workspace/deep&recursive=true")" &&
    api 404 GET "$(s "/web/files?path=/workspace/deep")" && api 400 GET "$(s "/web/files?path=/workspace")" && api 400 GET "$(s "/web/files?path=rel")" && has out "\"field\":\"path\"" &&
    api 400 GET "$(s "/web/files?path=/a&x=1")" && has out "\"field\":\"x\""
'
test_that 'an archive out, and in: all or nothing' '
    api 200 GET "$(s "/web/files/tar?path=/workspace/m")" && mkdir -p t && tar xf out -C t && [ -e t/g ] &&
    mkdir -p in/sub && echo inner >in/sub/file && tar cf in.tar -C in . &&
    curl -sS --unix-socket "$SOCK" -T in.tar "http://d$(s "/web/files/tar?path=/workspace/m")" >out && has out "\"members\"" &&
    fetch /workspace/m/sub/file && [ "$(cat got)" = inner ] &&
    head -c 700 in.tar >cut.tar && curl -sS --unix-socket "$SOCK" -T cut.tar "http://d$(s "/web/files/tar?path=/workspace/a/b")" >out && has out "\"error\"" &&
    api 200 GET "$(s "/web/files/list?path=/workspace/a/b")" && has out "\"entries\":[]"
'
test_that 'changes are watched' '
    { curl -sSN --max-time 10 --unix-socket "$SOCK" "http://d$(s "/web/files/watch?path=/workspace&recursive=true")" >sse & } && curl=$! &&
    for _ in $(seq 100); do put 204 /workspace/big nothing && grep -q "^event: " sse && break; read -rt 0.05 <> <(:) || :; done &&
    kill "$curl" && has sse "/workspace/big"
'
test_that 'asleep: read, write, list, SQL, records of commands, and no guest is started' '
    api 200 POST "$(s /web/exec)" "{\"shell\":\"echo one; echo two >&2; exit 4\"}" && exe=$(grep -oE "exe_[a-z0-9]+" out) && echo "$exe" >exe &&
    api 200 POST "$(s /web/suspend)" && fetch /workspace/m/sub/file && [ "$(cat got)" = inner ] && asleep &&
    put 201 /workspace/written big && asleep && api 200 GET "$(s "/web/files/list?path=/workspace")" && has out written && asleep &&
    api 200 POST "$(s /web/sql)" "{\"query\":\"select path, length(content) from vfs where path like '"'%written'"'\"}" && has out "[\"written\",5000000]" && asleep &&
    api 200 GET "$(s /web/exec)" && has out "$exe" && has out "\"exit_code\":4" && api 200 GET "$(s "/web/exec/$exe")" && has out "\"state\":\"ended\"" && asleep &&
    api 404 GET "$(s /web/exec/exe_00000000000000000000)" && asleep && api 200 GET "$(s /web/events)" && [ "$(grep -o "\"type\":\"activated\"" out | wc -l)" -eq 1 ]
'
test_that 'a command right behind an upload to one that sleeps sees it' '
    asleep && put 204 /workspace/written nothing && api 200 POST "$(s /web/exec)" "{\"shell\":\"wc -c </workspace/written\"}" && has out "\"stdout\":\"0\\n\""
'
test_that 'SQL only reads' '
    api 403 POST "$(s /web/sql)" "{\"query\":\"delete from node\"}" && api 400 POST "$(s /web/sql)" "{\"query\":\"selec 1\"}" &&
    api 400 POST "$(s /web/sql)" "{}" && has out "\"field\":\"query\"" &&
    api 200 POST "$(s /web/sql)" "{\"query\":\"select 1.5 as a, null as b, x as c, 7 as d from (select cast('"'q'"' as blob) x)\"}" &&
    has out "{\"columns\":[\"a\",\"b\",\"c\",\"d\"],\"rows\":[[1.5,null,{\"base64\":\"cQ==\"},7]],\"truncated\":false}" &&
    api 200 POST "$(s /web/sql)" "{\"query\":\"select path from vfs\",\"limit\":1}" && has out "\"truncated\":true"
'
test_that 'output of a command that has ended is replayed, from any offset, also after a sleep' '
    exe=$(cat exe) && curl -sSN --max-time 10 --unix-socket "$SOCK" -H "Accept: text/event-stream" "http://d$(s "/web/exec/$exe/output")" >sse &&
    has sse "{\"text\":\"one\\n\"}" && has sse "event: stderr" && has sse "\"exit_code\":4" &&
    curl -sSN --max-time 10 --unix-socket "$SOCK" -H "Accept: text/event-stream" "http://d$(s "/web/exec/$exe/output?offset=4")" >sse && lacks sse one && has sse two &&
    api 200 POST "$(s "/web/exec/$exe/wait")" && has out "\"stdout\":\"one\\n\"" && has out "\"stderr\":\"two\\n\"" && api 404 POST "$(s /web/exec/exe_none/wait)"
'
test_that 'frozen: read where it is; written, it is woken' '
    api 200 POST "$(s /web/suspend)" && api 200 POST "$(s /web/freeze)" && fetch /workspace/m/sub/file && [ "$(cat got)" = inner ] &&
    api 200 GET "$(s /web)" && has out "\"state\":\"frozen\"" && put 201 /workspace/thaw nothing && api 200 GET "$(s /web)" && has out "\"state\":\"active\""
'
test_that 'auto_resume off: files are refused, too; archived: as well' '
    api 200 PATCH "$(s /web)" "{\"auto_resume\":false}" && api 200 POST "$(s /web/suspend)" && api 503 GET "$(s "/web/files?path=/workspace/thaw")" && has out "\"reason\":\"asleep\"" &&
    api 200 PATCH "$(s /web)" "{\"auto_resume\":true}"
'
test_that 'a clone has the files; a public file has those of the workspace' '
    api 201 POST "$(s /web/clone)" "{\"name\":\"copy\",\"tenant\":\"other\"}" && has out "\"tenant\":\"other\"" && has out "\"state\":\"created\"" &&
    api 409 POST "$(s /web/clone)" "{\"name\":\"copy\",\"tenant\":\"other\"}" && has out "\"field\":\"name\"" &&
    api 200 POST "$(s /other%2Fcopy/exec)" "{\"shell\":\"cat /workspace/m/sub/file\"}" && has out inner &&
    api 200 GET "$(s /web/share)" && mv out pub.doze && run 0 doze disk cat pub.doze /workspace/m/sub/file && has out inner && [ -z "$(ls data/share)" ]
'
test_that 'archived and revived, the files are there' '
    api 200 POST "$(s /other%2Fcopy/suspend)" && api 200 POST "$(s /other%2Fcopy/freeze)" && api 200 POST "$(s /other%2Fcopy/archive)" && has out "\"state\":\"archived\"" &&
    api 503 POST "$(s /other%2Fcopy/exec)" "{\"cmd\":[\"true\"]}" && has out "\"reason\":\"archived\"" && api 503 GET "$(s "/other%2Fcopy/files?path=/workspace/m")" &&
    api 200 POST "$(s /other%2Fcopy/revive)" && api 200 POST "$(s /other%2Fcopy/exec)" "{\"shell\":\"cat /workspace/m/sub/file\"}" && has out inner
'
test_that 'frozen, and read: the registry check accepts the copy and its log' '
    api 200 POST "$(s /web/freeze)" && fetch /workspace/m/sub/file && api 200 GET "$(s /web)" && has out "\"state\":\"frozen\"" &&
    stop && run 0 doze registry check
'
test_that 'it ends clean' '[ -z "$(pgrep -f "$PWD/data" || true)" ]'
test_done
