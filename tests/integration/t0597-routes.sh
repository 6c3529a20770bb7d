#!/bin/bash
# What the other tests do not ask of the API: operations in forms that nobody needs for something
# else, and a refusal of each (tests/openapi/met says which are missing). Needs `make base`.
. "$(dirname "$0")/lib.sh"
. "$LIB_ROOT/tests/integration/daemon.sh"
start || exit 1

# tell STATUS PATH BODY: POST with events wanted
tell() { [ "$(curl -sSN --max-time 60 --unix-socket "$SOCK" -H "Accept: text/event-stream" -o out -w '%{http_code}' --data-binary "$3" "http://d$2")" = "$1" ]; }
# below PID: all processes below it
below() {
    local p
    for p in $(ps -o pid= --ppid "$1"); do echo "$p"; below "$p"; done
}
# caught: an explicit wake of the sandbox web is on its way, and its cell stands still. A cell that
# was just made may have escaped: then again.
caught() {
    for _ in $(seq 10); do
        api 200 POST "$(s /web/suspend)" || return 1
        # shellcheck disable=SC2046 # they are numbers
        kill -STOP $(below "$(cat daemon.pid)") 2>/dev/null || :
        curl -sS --max-time 60 --unix-socket "$SOCK" -o first -X POST "http://d$(s /web/wake)" &
        read -rt 0.3 <> <(:) || :
        api 200 GET "$(s /web)" && grep -q '"status":"restoring"' out && return 0
        freed
        until_state web active || return 1
    done
    return 1
}
# shellcheck disable=SC2046
freed() { kill -CONT $(below "$(cat daemon.pid)") 2>/dev/null || :; }

test_that 'a parameter that there is not is refused by its name, in each operation' '
    for p in /v1/forks /v1/snapshots /v1/refs /v1/images /v1/images/builds /v1/stats /v1/tokens /v1/events /v1/sandboxes \
        "$(s /web)" "$(s /web/exec)" /v1/tenants/self /v1/images/base /instances /metrics; do
        api 400 GET "$p?colour=red" && has out "\"field\":\"colour\"" || exit 1
    done
    api 400 POST "$(s "/web/suspend?force=true")" && has out "\"field\":\"force\"" && api 200 GET "/healthz?probe=1"
'
test_that 'what is not there yet says so: 503, unsupported' '
    api 201 POST "$(s)" "{\"image\":\"base\",\"name\":\"web\"}" &&
    api 503 GET /v1/workbooks && has out "\"reason\":\"unsupported\"" && has out "\"retry\":false"
'
test_that 'an image is built while its request is followed, looked at, deleted' '
    tell 200 /v1/images "{\"name\":\"more\",\"recipe\":\"[image]\\nfrom = base\\n[file /hi]\\ntext = hi\\n\"}" && has out "\"status\":\"DEPLOYED\"" &&
    api 200 GET /v1/images/more && has out "\"id\":\"img_" && has out "\"program_list\"" &&
    api 204 DELETE /v1/images/more && api 404 GET /v1/images/more && api 404 DELETE /v1/images/more
'
test_that 'a terminal has another size, and its input ends' '
    api 201 POST "$(s /web/exec)" "{\"shell\":\"stty size; read x; stty size; cat; echo over\",\"tty\":{\"cols\":80,\"rows\":24},\"stdin\":true,\"background\":true}" &&
    e=$(s "/web/exec/$(grep -oE "exe_[a-z0-9]+" out)") && api 204 POST "$e/resize" "{\"cols\":100,\"rows\":40}" &&
    api 400 POST "$e/resize" "{\"cols\":0,\"rows\":40}" && api 204 POST "$e/stdin" "go
" && api 204 POST "$e/close-stdin" && api 200 POST "$e/wait" "{\"timeout\":\"20s\"}" && has out "40 100" && has out over
'
test_that 'output of a command as a WebSocket; one that ended has no input, signal or size to take' '
    api 200 POST "$(s /web/exec)" "{\"shell\":\"echo heard\"}" && e=$(s "/web/exec/$(grep -oE "exe_[a-z0-9]+" out)") &&
    got=$(curl -sSN --max-time 10 --unix-socket "$SOCK" --http1.1 -o frames -w "%{http_code}" -H "Connection: Upgrade" -H "Upgrade: websocket" \
        -H "Sec-WebSocket-Version: 13" -H "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==" "http://d$e/output" || :) && [ "$got" = 101 ] &&
    grep -qa heard frames && grep -qa "\"type\":\"exit\"" frames &&
    api 404 POST "$e/stdin" x && api 404 POST "$e/close-stdin" && api 404 POST "$e/signal" "{\"signal\":\"TERM\"}" && api 404 POST "$e/resize" "{\"cols\":1,\"rows\":1}"
'
test_that 'doze edit: an editor with options; put back when it was changed and ended well' '
    printf "#!/bin/sh\\necho \"\$1\" >>\"\$2\"\\n" >ed && chmod +x ed && export TMPDIR=$PWD/empty &&
    VISUAL="./ed one" run 0 doze edit web:/workspace/new && VISUAL="./ed two" run 0 doze edit web:/workspace/new &&
    run 0 doze cat web:/workspace/new && [ "$(cat out)" = "$(printf "one\\ntwo")" ] &&
    VISUAL="./ed three; false" run 1 doze edit web:/workspace/new && has err "the file is unchanged" && run 0 doze cat web:/workspace/new && lacks out three &&
    EDITOR=true run 0 doze edit web:/workspace/none && run 1 doze cat web:/workspace/none &&
    EDITOR=true run 1 doze edit nobody:/x && has err nobody && EDITOR=true run 1 doze edit web:/etc && run 2 doze edit web &&
    VISUAL="doze files rm web:/workspace/new; doze files mkdir web:/workspace/new; ./ed x" run 1 doze edit web:/workspace/new &&
    has err "your version is kept in" && [ "$(ls empty | wc -l)" -eq 1 ]
'
test_that 'an explicit wake that meets another is refused with restoring; any other request joins; doze wake waits' '
    caught && { curl -sS --max-time 60 --unix-socket "$SOCK" -o joined "http://d$(s /web/exec)" -d "{\"cmd\":[\"echo\",\"joined\"]}" & }
    status=0; api 409 POST "$(s /web/wake)" && has out "\"code\":\"restoring\"" && has out "\"retry\":true" || status=1
    doze wake web >woken 2>&1 & woken=$!
    api 200 GET "$(s /web)" && has out "\"status\":\"restoring\"" && kill -0 $woken || status=1
    freed; wait $woken && has woken awake || status=1; for _ in $(seq 400); do [ -s joined ] && break; read -rt 0.05 <> <(:) || :; done
    [ $status = 0 ] && has first "\"result\":\"cold\"" && has joined "\"stdout\":\"joined" && stop
'
test_done
