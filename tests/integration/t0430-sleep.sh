#!/bin/bash
# doze run --keep, resume, inspect, top, snapshot, fork, clone, share: machines in their files.
. "$(dirname "$0")/lib.sh"

guest_wasm g.wasm
mkdir tree && cp g.wasm tree/prog && chmod 755 tree/prog

# starts `doze run --keep` in the background with a pipe as its input: $pid, descriptor 9
keep() {
    rm -f in-pipe "$1" "$1-wal" && mkfifo in-pipe
    doze run -i --keep --file "$1" --copy tree:/bin -- prog c <in-pipe >"$1.out" 2>"$1.err" &
    pid=$!
    exec 9>in-pipe
}
# waits until $1 has the text $2
until_has() { until grep -qF -e "$2" "$1"; do sleep 0.02; done; }
# SIGTERM, and the status that is wanted
stop() { kill -TERM $pid; status=0; wait $pid || status=$?; exec 9>&-; [ $status -eq "$1" ]; }

test_that 'SIGTERM puts it to sleep, resume goes on where it stood' '
    keep a.doze && echo one >&9 && until_has a.doze.out one && stop 75 && has a.doze.err "doze resume a.doze" &&
    [ ! -e a.doze-wal ] && echo two >in && run 0 doze resume -i a.doze <in && has out two && lacks out one &&
    run 125 doze resume a.doze && has err "no machine sleeps"
'

test_that '--suspend-after, again and again' '
    run 75 doze run --file b.doze --suspend-after 50ms --copy tree:/bin -- prog l &&
    for i in 1 2 3; do run 75 doze resume --suspend-after 30ms b.doze || exit 1; done &&
    run 2 doze run --keep --copy tree:/bin -- prog l && run 2 doze resume --suspend-after soon b.doze
'

test_that 'what sleeps is not given up silently' '
    run 125 doze run --file b.doze -- prog h && has err "--drop-memory" &&
    run 3 doze run --drop-memory --file b.doze -- prog h && run 125 doze resume b.doze
'

test_that 'inspect and top tell what sleeps, and change nothing' '
    keep c.doze && echo one >&9 && until_has c.doze.out one && stop 75 && cp c.doze before &&
    run 0 doze inspect c.doze && has out "prog c" && has out "suspended since" && has out stream &&
    run 0 doze inspect --json c.doze && has out "\"machine\":\"asleep\"" && has out "\"command\":\"prog c\"" &&
    run 0 doze top c.doze && has out "prog c" && cmp before c.doze &&
    run 0 doze inspect b.doze && has out "no processes sleep here"
'

test_that 'a snapshot is another one at the same instant' '
    run 0 doze snapshot --json c.doze d.doze && has out asleep && [ ! -e d.doze-wal ] && [ ! -e d.doze.tmp ] &&
    echo from-d >in && run 0 doze resume -i d.doze <in && has out from-d &&
    echo from-c >in && run 0 doze resume -i c.doze <in && has out from-c &&
    run 1 doze snapshot c.doze d.doze && has err exists
'

test_that 'a machine that runs is copied by who runs it' '
    keep e.doze && echo one >&9 && until_has e.doze.out one && run 0 doze snapshot --json e.doze f.doze && has out asleep &&
    echo two >&9 && until_has e.doze.out two && run 125 doze resume e.doze && stop 75 &&
    echo three >in && run 0 doze resume -i f.doze <in && has out three && lacks out two
'
test_that 'a fork is two machines from one instant' '
    keep e.doze && echo one >&9 && until_has e.doze.out one && rm -f f.doze && echo two >in &&
    run 0 doze fork -i e.doze f.doze <in && has out two && lacks out one && echo three >&9 && until_has e.doze.out three &&
    run 2 doze fork --suspend-after soon e.doze g.doze && [ ! -e g.doze ] && run 125 doze fork e.doze f.doze && has err exists &&
    run 75 doze fork --suspend-after 50ms e.doze g.doze && stop 75 && run 0 doze inspect g.doze && has out "prog c" &&
    rm -f g.doze && run 0 doze fork -i e.doze g.doze <in && has out two && run 0 doze inspect e.doze && has out "prog c" &&
    run 125 doze fork g.doze h.doze && has err "no processes run or sleep" && [ ! -e h.doze ]
'
test_that 'a fork that cannot go on leaves no file behind' '
    run 3 doze run --file below.doze --copy tree:/bin -- prog h &&
    run 75 doze run --suspend-after 50ms --base below.doze --file on.doze -- prog l &&
    run 125 doze fork on.doze to.doze && has err "not given" && [ ! -e to.doze ] && [ ! -e to.doze-wal ] && [ ! -e to.doze.tmp ] &&
    run 125 doze fork --base /nowhere on.doze to.doze && [ ! -e to.doze ] &&
    run 75 doze fork --base below.doze --suspend-after 50ms on.doze to.doze && [ -e to.doze ] &&
    run 125 doze resume to.doze && [ -e to.doze ] && run 125 doze fork on.doze to.doze && has err exists && [ -e to.doze ]
'

test_that 'nobody runs it otherwise while it is copied' '
    rm -f in-pipe && mkfifo in-pipe && { doze run -i --file e2.doze --copy tree:/bin -- prog c <in-pipe >e2.out & pid=$!; } &&
    exec 9>in-pipe && echo one >&9 && until_has e2.out one && run 1 doze snapshot e2.doze h.doze && has err "a program uses it" &&
    run 125 doze fork e2.doze h.doze && has err "a program uses it" && [ ! -e h.doze ] && [ ! -e h.doze.tmp ] && exec 9>&- && wait $pid
'

test_that 'a clone has the files only, a share the public ones' '
    echo pub >w && echo mem >m && echo tmp >t &&
    rm -f g.doze && run 3 doze run --file g.doze --copy tree:/bin --copy w:/workspace/w --copy m:/memory/m \
        -- prog h && run 75 doze run --suspend-after 50ms --file g.doze --copy t:/tmp/t -- prog w &&
    run 0 doze clone g.doze h.doze && run 0 doze disk check h.doze && run 0 doze disk ls -R h.doze / &&
    has out /workspace/w && has out /memory/m && lacks out /tmp/t && run 0 doze inspect h.doze && has out "no processes sleep here" &&
    run 3 doze run --file h.doze -- prog h &&
    run 0 doze share g.doze s.doze && run 0 doze disk check s.doze && run 0 doze disk ls -R s.doze / &&
    has out /workspace/w && lacks out /memory/m && lacks out prog && ! grep -q mem s.doze-raw 2>/dev/null &&
    ! grep -qa "^mem$" s.doze && run 0 doze disk cat s.doze /workspace/w && has out pub
'

test_that 'an image may hold a sleeping machine' '
    keep i.doze && echo one >&9 && until_has i.doze.out one && stop 75 &&
    run 0 doze snapshot --flat i.doze img.doze && run 0 doze disk check img.doze && cp img.doze before &&
    echo a >in && run 0 doze resume -i --base img.doze --new n1.doze <in && has out a &&
    echo b >in && run 0 doze resume -i --base img.doze --new n2.doze <in && has out b &&
    run 125 doze resume --base img.doze n1.doze && has err "no machine sleeps" &&
    run 125 doze resume --new --base img.doze n1.doze && run 3 doze run --base img.doze -- prog h &&
    run 0 doze disk check --image img.doze n1.doze && cmp before img.doze
'

test_that 'a damaged machine says so, and stays as it is' '
    run 75 doze run --file x.doze --suspend-after 50ms --copy tree:/bin -- prog l &&
    sqlite3 x.doze "UPDATE machine SET value=substr(value,1,200)||x'"'"'ff'"'"'||substr(value,202)" && cp x.doze before &&
    run 125 doze resume x.doze && has err damaged && cmp x.doze before &&
    run 1 doze inspect x.doze && has err damaged &&
    run 3 doze run --drop-memory --file x.doze -- prog h
'

test_that 'kill -9 after it woke: memory_lost, and the files' '
    keep k.doze && echo one >&9 && until_has k.doze.out one && stop 75 &&
    rm -f in-pipe && mkfifo in-pipe && { doze resume -i k.doze <in-pipe >k.out 2>k.err & pid=$!; } && exec 9>in-pipe &&
    echo two >&9 && until_has k.out two && kill -KILL $pid && { wait $pid || true; } && exec 9>&- &&
    run 125 doze resume k.doze && has err memory_lost &&
    run 3 doze run --file k.doze -- prog h && has err memory_lost && run 0 doze inspect k.doze && has out "no processes sleep here"
'

test_that 'its program and its files may be replaced and touched while it sleeps' '
    keep p.doze && echo one >&9 && until_has p.doze.out one && stop 75 && cp p.doze q.doze && echo no program >other &&
    run 0 doze disk put p.doze other /bin/prog && run 0 doze disk cat p.doze /bin/prog && has out "no program" &&
    run 0 doze disk check p.doze && echo two >in && run 0 doze resume -i p.doze <in && has out two &&
    run 0 doze disk check p.doze && run 126 doze run --file p.doze -- prog h &&
    sqlite3 q.doze "UPDATE node SET mtime=mtime+1 WHERE size=$(stat -c %s tree/prog)" &&
    run 0 doze resume -i q.doze <in && has out two
'

test_that 'a program that was overwritten while it ran, at its old size and time, is kept' '
    base=$LIB_ROOT/build/base/base.doze && { [ -e "$base" ] || skip "the base is not built: make base"; } &&
    echo "read x; printf Z | dd of=sh bs=1 seek=4 conv=notrunc 2>e; touch -d @1600000000 sh; echo over; read x; echo got \$x" >over &&
    rm -f in-pipe && mkfifo in-pipe && { doze run -i --keep -b "$base" --file o.doze --copy over:/workspace/over -- sh -c "
        cd /workspace; cp /bin/busybox sh; printf \"\\0\\3\\1xy\" >>sh; touch -d @1600000000 sh; exec ./sh over" <in-pipe >o.out 2>o.err & pid=$!; } &&
    exec 9>in-pipe && echo one >&9 && until_has o.out over && stop 75 && echo two >in &&
    run 0 doze resume -i -b "$base" o.doze <in && has out "got two"
'

test_done
