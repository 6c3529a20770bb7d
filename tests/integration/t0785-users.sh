#!/bin/bash
# A daemon that is root: the processes of each tenant are a user of their own, and so is each
# zygote; the files stay the daemon's, whatever is done to a sandbox. A user that has lost its
# whole jail reaches no file and no other tenant's process. t0772-zones.sh holds a call still and
# looks at its user. Needs `make base`, python3.
. "$(dirname "$0")/lib.sh"
. "$LIB_ROOT/tests/integration/daemon.sh"
command -v python3 >/dev/null || { echo '1..0 # SKIP there is no python3'; exit 0; }
[ "$(id -u)" = 0 ] || { echo '1..0 # SKIP not root'; exit 0; }
FIRST=$((1 << 20))
RANGE=$FIRST-$((FIRST + 511)) # 256 of zygotes and calls, 256 of tenants

users() { start --uids "$RANGE" "$@" && has daemon.log "event=users first=$FIRST count=512"; }
as() { # TOKEN STATUS METHOD PATH [DATA]: api by a token's tenant
    local got data=()
    [ $# -lt 5 ] || data=(--data-binary "$5")
    got=$(curl -sS --max-time 30 --unix-socket "$SOCK" -H "Authorization: Bearer $(cat "$1")" -o out -w '%{http_code}' -X "$3" "${data[@]}" "http://d$4") || return 1
    [ "$got" = "$2" ] && return 0
    echo "$3 $4 as $1: $got, not $2"
    cat out
    return 1
}
new_id() { grep -oE "sbx_[a-z0-9]{20}" out | head -1; }
cell_pid() { sed -n "s/.*event=cell_up .*sandbox_id=$1 .*pid=//p" daemon.log | tail -1; }
user() { sed -n "s/^Uid:\t\([0-9]*\)\t\1\t\1\t\1$/\1/p" "/proc/$1/status"; } # all four, or nothing
group() { sed -n "s/^Gid:\t\([0-9]*\)\t\1\t\1\t\1$/\1/p" "/proc/$1/status"; }
# is PID: it is this user and group, in no other group, without a capability
is() {
    [ "$(user "$1")" = "$2" ] && [ "$(group "$1")" = "$2" ] && [ -z "$(sed -n "s/^Groups:[[:space:]]*//p" "/proc/$1/status")" ] &&
        ! grep -E "^Cap(Inh|Prm|Eff|Bnd|Amb):" "/proc/$1/status" | grep -qv 0000000000000000 && return 0
    echo "process $1 is not user $2 without a capability:"
    grep -E "^(Uid|Gid|Groups|Cap)" "/proc/$1/status"
    return 1
}
# Every file is the daemon's, and nobody else may read it, but for images, which are common.
ours() {
    local wrong
    wrong=$(find data -path data/images -prune -o \( ! -user 0 -o ! -group 0 -o \( -perm /077 ! -type s ! -type l \) \) -printf '%u:%g %m %p\n')
    [ -z "$wrong" ] && return 0
    echo "after $*: $wrong"
    return 1
}
wake() { as "$1" 200 POST "$(s "/$2/exec")" '{"shell":"echo more >>/workspace/f; cat /workspace/f"}'; }

test_that 'cells of two tenants are two users, those of one tenant the same' '
    users && for t in a b; do run 0 doze token create "$t" --tenant "t$t" && cp out $t || return 1; done
    for n in "a one" "b one" "a two"; do set -- $n; as $1 201 POST "$(s)" "{\"image\":\"base\",\"name\":\"$2\"}" && new_id >"id_$1_$2" && wake $1 $2 || return 1; done
    is "$(cell_pid "$(cat id_a_one)")" $((FIRST + 256)) && is "$(cell_pid "$(cat id_b_one)")" $((FIRST + 257)) && is "$(cell_pid "$(cat id_a_two)")" $((FIRST + 256)) && ours creation
'
test_that 'zygotes are users of their own, with the two capabilities that a cell then gives up' '
    n=0 && for p in $(cat "/proc/$(cat daemon.pid)/task/$(cat daemon.pid)/children"); do
        cp "/proc/$p/status" status 2>/dev/null || continue # it has ended, as a spare cell may
        grep -qx "CapEff:.*00000000000000c0" status || continue
        u=$(sed -n "s/^Uid:\t\([0-9]*\)\t\1\t\1\t\1$/\1/p" status) && [ "$u" -ge $FIRST ] && [ "$u" -lt $((FIRST + 256)) ] && echo "$u" >>zygotes && n=$((n + 1)) || return 1
    done; [ "$n" -gt 2 ] && [ "$(sort -u zygotes | wc -l)" = 2 ] # the blank one and that of the image, with cells that wait
'
test_that 'a user without its jail reaches no file and no process of another' '
    chmod 755 "$LIB_SCRATCH" . data && own=$(cell_pid "$(cat id_a_one)") && other=$(cell_pid "$(cat id_b_one)") &&
    all="$(cat daemon.pid) $(cat "/proc/$(cat daemon.pid)/task/$(cat daemon.pid)/children")" &&
    run 0 python3 "$LIB_ROOT/tests/lib/user_attack.py" "$(user "$own")" "$PWD/data" $all && chmod 700 data &&
    { grep -v "^signal $own\$\|^signal $(cell_pid "$(cat id_a_two)")\$\|^read $PWD/data\$\|^read $PWD/data/images" out >bad || :; } && cat bad && [ ! -s bad ] && has out "signal $own" && has out "read $PWD/data" && kill -0 "$other"
'
test_that 'the files stay the daemons after each step of a life' '
    for step in suspend wake suspend freeze archive revive; do as a 200 POST "$(s /one/$step)" && ours $step || return 1; done
    wake a one && is "$(cell_pid "$(cat id_a_one)")" $((FIRST + 256)) &&
    as a 201 POST "$(s /one/snapshot)" "{\"name\":\"snap\"}" && ours snapshot &&
    as a 201 POST "$(s)" "{\"snapshot\":\"snap\",\"name\":\"grown\"}" && id=$(new_id) && wake a grown && is "$(cell_pid "$id")" $((FIRST + 256)) && ours resume &&
    as a 201 POST "$(s /one/fork)" "{\"count\":1}" && ours fork && as a 201 POST "$(s /one/refs)" && ours ref &&
    as a 200 POST "$(s /one/suspend)" && as a 200 GET "$(s /one/share)" && ours share
'
test_that 'a clone for another tenant is that tenants user, and so is what was its sibling' '
    api 201 POST "$(s /ta%2Fone/clone)" "{\"name\":\"copy\",\"tenant\":\"tb\"}" && id=$(new_id) && as b 200 POST "$(s /copy/wake)" && wake b copy && has out more &&
    is "$(cell_pid "$id")" $((FIRST + 257)) && api 201 POST "$(s /ta%2Fone/clone)" "{\"name\":\"kept\",\"tenant\":\"tc\"}" && id=$(new_id) &&
    api 200 POST "$(s /tc%2Fkept/exec)" "{\"shell\":\"true\"}" && is "$(cell_pid "$id")" $((FIRST + 258)) && ours clone
'
test_that 'a cell that has only the files is its tenants user, too' '
    as b 200 POST "$(s /one/suspend)" && gone "$(cell_pid "$(cat id_b_one)")" && rm -f slow && mkfifo slow && exec 9<>slow &&
    { curl -s --max-time 30 --unix-socket "$SOCK" -H "Authorization: Bearer $(cat b)" -T - "http://d/v1/sandboxes/one/files?path=/workspace/up" <slow >answer 9>&- & } && upload=$! && echo some >&9 &&
    found= && for _ in $(seq 200); do
        for p in $(find /proc/[0-9]*/fd -lname "*live/$(cat id_b_one).doze" 2>/dev/null | cut -d/ -f3); do [ "$(user "$p")" != 0 ] && found=$p; done
        [ -z "$found" ] || break; read -rt 0.05 <> <(:) || :
    done; is "$found" $((FIRST + 257)) && exec 9>&- && wait "$upload" && as b 200 GET "$(s "/one/files?path=/workspace/up")" && has out some
'
test_that 'a restart keeps who is who' '
    stop && users && for n in "b one 257" "a two 256"; do set -- $n; wake $1 $2 && is "$(cell_pid "$(cat "id_$1_$2")")" $((FIRST + $3)) || return 1; done
'
test_that 'a data directory of a version without users is taken as it is' '
    stop && python3 -c "
import sqlite3
d = sqlite3.connect(\"data/registry.db\")
for table in (\"tenant_number\", \"schedule\", \"schedule_run\", \"volume\", \"lease\", \"meter\", \"meter_mark\"):
    d.execute(\"DROP TABLE \" + table)
d.execute(\"ALTER TABLE tenant DROP COLUMN replica\")
d.execute(\"PRAGMA user_version = 6\")
d.commit()" && users && wake b one && is "$(cell_pid "$(cat id_b_one)")" $((FIRST + 256)) && wake a two && is "$(cell_pid "$(cat id_a_two)")" $((FIRST + 257)) && ours upgrade
'
test_that 'when all numbers are taken: said, and who has one goes on' '
    stop && python3 -c "
import sqlite3
d = sqlite3.connect(\"data/registry.db\")
d.executemany(\"INSERT INTO tenant_number VALUES(?, ?)\", [(f\"x{i}\", i) for i in range(2, 256)])
d.commit()" && users && wake a two && got=$(curl -sS --unix-socket "$SOCK" -o out -w "%{http_code}" -d "{\"shell\":\"true\"}" "http://d/v1/sandboxes/tc%2Fkept/exec") && cat out &&
    [ "$got" -ge 400 ] && has out "cells.uids" && has out "all 256 tenant numbers" && wake b one
'
test_that 'without users: said, all are root, and a fence can refuse that' '
    stop && start --uids no && has daemon.log "event=users_shared why=" && wake a two && is "$(cell_pid "$(cat id_a_two)")" 0 &&
    stop && start --uids no --fences users && as a 503 POST "$(s /two/exec)" "{\"shell\":\"true\"}" && has out "does not provide users" && stop
'
test_that 'doctor tries the default of the setting' '
    run 0 doze doctor --json && has out "\"key\":\"users\"" && run 0 doze config cells.uids && first=$(cut -d- -f1 out) && run 0 doze doctor --json && has out "ids from $first on"
'
test_that 'a range that cannot be one is refused' '
    for range in 5 1000-1999 0-511 1048577-1049088 x-y; do run 1 doze daemon --uids "$range" || run 2 doze daemon --uids "$range" || return 1; has err "cells.uids" || return 1; done
'
test_that 'a daemon that is not root goes on as before, and says that users are shared' '
    command -v setpriv >/dev/null || skip "no setpriv"
    rm -f daemon.log && mv data kept && mkdir data && cp -a kept/images data/ && chown -R 12345:12345 data && chmod 777 . "$HOME" &&
    : >daemon.log && chmod 666 daemon.log && setpriv --reuid 12345 --regid 12345 --clear-groups "$DOZE" doctor >doctor; has doctor "only root can become another user" &&
    { setpriv --reuid 12345 --regid 12345 --clear-groups "$DOZE" daemon --log-level debug >>daemon.log 2>&1 & } && echo $! >daemon.pid &&
    for _ in $(seq 200); do curl -sf --unix-socket "$SOCK" http://d/readyz >/dev/null && break; read -rt 0.05 <> <(:) || :; done
    has daemon.log "event=users_shared why=\"only root" && api 201 POST "$(s)" "{\"image\":\"base\",\"name\":\"a\"}" && api 200 POST "$(s /a/exec)" "{\"shell\":\"true\"}" &&
    [ "$(user "$(cell_of)")" = 12345 ] && stop
'
test_done
