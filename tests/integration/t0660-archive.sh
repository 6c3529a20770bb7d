#!/bin/bash
# An archive keeps the sleeping machine and the records of commands; keep=files drops them.
. "$(dirname "$0")/lib.sh"
. "$LIB_ROOT/tests/integration/daemon.sh"

# counts NAME: a command that has a number in memory and a file open that has no name
counts() {
    api 201 POST "$(s "/$1/exec")" "{\"shell\":\"exec 3>/tmp/gone; rm /tmp/gone; echo in tmp >/tmp/note; n=41; while read -r line; do n=\$((n+1)); echo \$line \$n >/workspace/n; done\",\"background\":true,\"stdin\":true}" &&
        sed -n "s/.*\"exec_id\":\"\([^\"]*\)\".*/\1/p" out >exe && [ -s exe ]
}
# says NAME TEXT: the command of counts answers a line with this
says() {
    api 204 POST "$(s "/$1/exec/$(cat exe)/stdin")" "hello
" || return 1
    for _ in $(seq 200); do
        api 200 POST "$(s "/$1/exec")" "{\"shell\":\"cat /workspace/n\"}" && grep -qF "$2" out && return 0
        read -rt 0.05 <> <(:) || :
    done
    cat out
    return 1
}
start || { echo "Bail out! no daemon"; exit 1; }

test_that 'an active sandbox is put to sleep in its archive, and goes on where it was' '
    api 201 POST "$(s)" "{\"image\":\"base\",\"name\":\"box\"}" &&
    counts box && api 200 POST "$(s /box/exec)" "{\"shell\":\"echo before\"}" &&
    sed -n "s/.*\"exec_id\":\"\([^\"]*\)\".*/\1/p" out >past &&
    api 200 POST "$(s /box/archive)" && has out "\"state\":\"archived\"" && [ -z "$(ls data/live | grep sbx_)" ] &&
    api 200 POST "$(s /box/revive)" && has out "\"state\":\"active\"" &&
    api 200 GET "$(s /box/exec)" && has out "$(cat exe)" && has out "$(cat past)" && has out "\"state\":\"running\"" &&
    api 200 POST "$(s "/box/exec/$(cat past)/wait")" && has out "before\\n" &&
    says box "hello 42" && api 200 POST "$(s /box/exec)" "{\"shell\":\"cat /tmp/note\"}" && has out "in tmp" &&
    api 200 GET "/v1/events" && lacks out memory_dropped
'
test_that 'a frozen one keeps its machine, too' '
    api 200 POST "$(s /box/suspend)" && api 200 POST "$(s /box/freeze)" && api 200 POST "$(s /box/archive)" "{\"keep\":\"memory\"}" &&
    api 200 POST "$(s /box/wake)" && has out "\"memory_lost\":false" && says box "hello 43"
'
test_that 'a wrong keep is refused, and names the field' '
    api 400 POST "$(s /box/archive)" "{\"keep\":\"all\"}" && has out "\"field\":\"keep\"" && api 200 GET "$(s /box)" && has out "\"state\":\"active\""
'
test_that 'keep=files drops machine, /tmp and records, and an event says so' '
    run 0 doze archive --keep files box && api 200 GET /v1/events && has out "\"type\":\"memory_dropped\"" &&
    run 0 doze revive box && api 200 POST "$(s /box/exec)" "{\"shell\":\"cat /tmp/note\"}" && has out "\"exit_code\":1" &&
    api 200 GET "$(s /box/exec)" && lacks out "$(cat exe)" && lacks out "$(cat past)"
'
test_that 'the archive is one zstd file that holds a disk' '
    run 0 doze archive box && id=$(ls data/cold) && zstd -dqc "data/cold/$id" >a.doze && run 0 doze inspect a.doze && has out "suspended since"
'
test_that 'the daemon ends' stop
test_done
