#!/bin/bash
# From inside of a cell against the daemon: malformed and misplaced replies, floods, silence;
# files and machine states that somebody put in place of a sandbox's; files cut off under a
# running cell. Each time the daemon stays, others are served, and the sandbox is as it was
# last durable, or refused with a clear error. Needs `make base` and python3.
. "$(dirname "$0")/lib.sh"
. "$LIB_ROOT/tests/integration/daemon.sh"
command -v python3 >/dev/null || { echo '1..0 # SKIP there is no python3'; exit 0; }

hostile() { # KIND: what the cell of h says
    api 200 POST "$(s /h/exec)" '{"shell":"echo $((n+1)) >>/workspace/log"}' || return 1
    run 0 timeout 60 python3 "$LIB_ROOT/tests/lib/hostile_cell.py" "$(cell_of_h)" "$1" || return 1
    ! grep -q skip out || skip "pidfd_getfd is not permitted here"
}
cell_of_h() { sed -n "s/.*event=cell_up .*sandbox_id=$(cat id_h) .*pid=//p" daemon.log | tail -1; }
cell_with_file() { # of h, which has no machine
    for _ in $(seq 200); do
        for p in $(find /proc/[0-9]*/fd -lname "*live/$(cat id_h).doze" 2>/dev/null | cut -d/ -f3); do
            grep -q "^Seccomp:.2" "/proc/$p/status" && echo "$p" && return 0
        done
        read -rt 0.05 <> <(:) || :
    done
    return 1
}
until_said() { # that it listens
    for _ in $(seq 200); do
        grep -q skip said && skip "pidfd_getfd is not permitted here"
        ! grep -q listens said || return 0
        read -rt 0.05 <> <(:) || :
    done
    return 1
}
others() { # are served
    kill -0 "$(cat daemon.pid)" && [ "$(curl -s --max-time 20 --unix-socket "$SOCK" -o out2 -w '%{http_code}' \
        -d '{"shell":"cat /workspace/f"}' http://d/v1/sandboxes/other/exec)" = 200 ] && grep -q 'mine\\n' out2 && return 0
    echo "the other sandbox:"
    cat out2
    tail -5 daemon.log
    return 1
}
back() { # h runs again, with the files it had
    for _ in $(seq 60); do
        curl -s --max-time 20 --unix-socket "$SOCK" -o out -d '{"shell":"cat /workspace/f"}' http://d/v1/sandboxes/h/exec
        ! grep -q '"stdout":"yours\\n"' out || return 0
        others || return 1
        read -rt 0.1 <> <(:) || :
    done
    cat out
    return 1
}

start || exit 1
test_that 'two sandboxes' '
    api 201 POST "$(s)" "{\"image\":\"base\",\"name\":\"other\"}" && api 200 POST "$(s /other/exec)" "{\"shell\":\"echo mine >/workspace/f\"}" &&
    api 201 POST "$(s)" "{\"image\":\"base\",\"name\":\"h\"}" && grep -oE "sbx_[a-z0-9]+" out | head -1 >id_h &&
    api 200 POST "$(s /h/exec)" "{\"shell\":\"echo yours >/workspace/f\"}" && grep -q "^Seccomp:.2" "/proc/$(cell_of_h)/status"
'
for kind in frames ids flood packets; do
    test_that "a cell that sends $kind" "hostile $kind && others && back"
done
test_that 'a cell that says that it sleeps, and runs on: it is ended, and the sandbox wakes' '
    hostile asleep && others && old=$(cell_of_h) && until_state h suspended && back && [ "$(cell_of_h)" != "$old" ] && gone "$old"
'
test_that 'a cell that says that it sleeps, and much more: others are served, and it is ended' '
    back && old=$(cell_of_h) && { timeout 80 python3 "$LIB_ROOT/tests/lib/hostile_cell.py" "$old" left >said & } && flood=$! &&
    until_said && others && gone "$old" && wait "$flood" && back && [ "$(cell_of_h)" != "$old" ]
'
for kind in up awake ended; do
    test_that "a cell that says unasked that it is $kind: it is ended" '
        hostile '$kind' && old=$(cell_of_h) && gone "$old" && others && back && [ "$(cell_of_h)" != "$old" ]'
done
test_that 'a cell that says without end that the disk is full: it is told once, and it is ended' '
    back && old=$(cell_of_h) && hostile full && gone "$old" && others && [ "$(grep -c "event=cell_full .*$(cat id_h)" daemon.log)" = 1 ] &&
    api 200 GET "/v1/events?limit=1000" && [ "$(grep -o "\"type\":\"disk_full\",\"sandbox_id\":\"$(cat id_h)\"" out | wc -l)" = 1 ] && back
'
test_that 'a cell that says unasked that a snapshot is there: it is ended' '
    back && old=$(cell_of_h) && hostile copied && gone "$old" && others && back'
test_that 'a cell that keeps the file of a snapshot open: it is ended, and nothing is kept' '
    : >said && back && old=$(cell_of_h) && { timeout 60 python3 "$LIB_ROOT/tests/lib/hostile_cell.py" "$old" held >said & } &&
    until_said && api 503 POST "$(s /h/snapshot)" "{}" && gone "$old" && others && grep -q "kept the file of the snapshot open" daemon.log &&
    ! find data/snapshots -name "*snap_*" | grep . && back && api 201 POST "$(s /h/snapshot)" "{}" && api 204 DELETE "/v1/snapshots/$(grep -oE "snap_[a-z0-9]+" out | head -1)"
'
test_that 'a cell that is asked to sleep and says that it has started: it is ended, and the sandbox wakes' '
    : >said && back && old=$(cell_of_h) && { timeout 60 python3 "$LIB_ROOT/tests/lib/hostile_cell.py" "$old" late >said & } &&
    until_said && api 200 POST "$(s /h/suspend)" && gone "$old" && others && back && [ "$(cell_of_h)" != "$old" ]
'
# shellcheck disable=SC2034 # what it sets, the tests read
uploading() { # h sleeps, and a file comes to it, slowly: its cell is $old
    back && api 200 POST "$(s /h/suspend)" && gone "$(cell_of_h)" && rm -f slow && mkfifo slow && exec 9<>slow &&
    { curl -s --max-time 30 --unix-socket "$SOCK" -o out2 -w "%{http_code}" -T - "http://d/v1/sandboxes/h/files?path=/workspace/up" <slow >code 9>&- & } &&
    upload=$! && echo some >&9 && old=$(cell_with_file)
}
test_that 'a cell that has only the files and says that the machine has started: it is ended' '
    uploading && timeout 20 python3 "$LIB_ROOT/tests/lib/hostile_cell.py" "$old" up && gone "$old" &&
    exec 9>&- && wait "$upload" && grep -q ^5 code && others && back
'
test_that 'a cell that is asked to start and says that it sleeps: it is ended, and the sandbox wakes' '
    : >said && uploading && { timeout 60 python3 "$LIB_ROOT/tests/lib/hostile_cell.py" "$old" early >said & } && until_said &&
    { curl -s --max-time 20 --unix-socket "$SOCK" -o out -d "{\"shell\":\"true\"}" http://d/v1/sandboxes/h/exec 9>&- || :; } &&
    gone "$old" && exec 9>&- && { wait "$upload" || :; } && others && back && api 200 POST "$(s /h/suspend)"
'
test_that 'a cell that never answers: others are served, and its sandbox can be destroyed' '
    api 201 POST "$(s)" "{\"image\":\"base\",\"name\":\"mute\"}" && old=$(cell_of) &&
    timeout 20 python3 "$LIB_ROOT/tests/lib/hostile_cell.py" "$old" mute &&
    { curl -s --max-time 2 --unix-socket "$SOCK" -o out -d "{\"shell\":\"true\"}" http://d/v1/sandboxes/mute/exec || :; } && others &&
    { curl -s --max-time 2 --unix-socket "$SOCK" -o out -X POST http://d/v1/sandboxes/mute/suspend || :; } && others &&
    api 204 DELETE "$(s "/mute?force=true")" && gone "$old" && others
'
# Of h, which sleeps: its file becomes what the command makes of it.
swapped() { # NAME COMMAND
    test_that "in place of a sandbox that sleeps: $1" '
        { api 200 POST "$(s /h/suspend)" || until_state h suspended; } && sleep 0.3 && file=data/live/$(cat id_h).doze && [ -f "$file" ] &&
        cp "$file" saved && rm -f "$file-wal" && '"$2"' &&
        curl -s --max-time 20 --unix-socket "$SOCK" -o out -w "%{http_code}\n" -d "{\"shell\":\"cat /workspace/f\"}" http://d/v1/sandboxes/h/exec >code &&
        kill -0 "$(cat daemon.pid)" && ! grep -q "^000" code && others &&
        curl -s --max-time 20 --unix-socket "$SOCK" -o out2 "http://d/v1/sandboxes/h/files?path=/workspace/f" && others &&
        { curl -s --max-time 20 --unix-socket "$SOCK" -o out2 -X POST http://d/v1/sandboxes/h/suspend || :; } && sleep 0.5 &&
        rm -f "$file-wal" "$file-shm" && cp saved "$file" && back'
}
swapped 'nothing' ': >"$file"'
swapped 'what is no database' 'head -c 100000 /dev/urandom >"$file"'
swapped 'half of it' 'truncate -s $(($(stat -c %s "$file") / 2 / 4096 * 4096)) "$file"'
swapped 'the file of another program' 'rm "$file" && sqlite3 "$file" "CREATE TABLE node(a); INSERT INTO node VALUES(1)"'
swapped 'a machine of random bytes' 'sqlite3 "$file" "UPDATE machine SET data = randomblob(length(data))" 2>/dev/null || sqlite3 "$file" .tables >tables'
for seed in 1 2 3 4 5 6; do
    swapped "itself, with bytes changed ($seed)" 'python3 -c "
import random, sys
d = random.Random('$seed')
b = bytearray(open(sys.argv[1], \"rb\").read())
for _ in range(40):
    b[d.randrange(100, len(b))] = d.randrange(256)
open(sys.argv[1], \"wb\").write(b)" "$file"'
done
test_that 'in place of an archive' '
    api 200 POST "$(s /h/suspend)" && api 200 POST "$(s /h/freeze)" && api 200 POST "$(s /h/archive)" && cold=$(find data/cold -name "$(cat id_h)*" | head -1) &&
    cp "$cold" saved && head -c 5000 /dev/urandom >"$cold" && api 500 POST "$(s /h/revive)" && others &&
    head -c 200 saved >"$cold" && api 500 POST "$(s /h/revive)" && others &&
    cp saved "$cold" && api 200 POST "$(s /h/revive)" && back
'
test_that 'a file that is cut off under its running cell: the cell may end, nobody else' '
    for size in 0 4096; do
        back && file=data/live/$(cat id_h).doze && api 200 POST "$(s /h/suspend)" && sleep 0.3 && cp "$file" saved && back &&
        truncate -s $size "$file" && truncate -s 0 "$file-wal" &&
        { curl -s --max-time 20 --unix-socket "$SOCK" -o out -d "{\"shell\":\"ls -lR / >/dev/null; cat /workspace/f; dd if=/dev/zero of=/workspace/z bs=65536 count=50\"}" \
            http://d/v1/sandboxes/h/exec || :; } && others &&
        { curl -s --max-time 20 --unix-socket "$SOCK" -o out -X POST http://d/v1/sandboxes/h/suspend || :; } && others && sleep 0.5 &&
        rm -f "$file-wal" && cp saved "$file" && back || return 1
    done
'
test_that 'and the daemon ends as it should' 'stop && ! grep -q "Sanitizer\|assert" daemon.log'
test_done
