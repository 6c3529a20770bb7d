#!/bin/bash
# doze restore, doze replica: a database to a replica and back, and litestream as the other end
# (make bench-peers; with DZ_TEST_MUST_RUN=t0810-replica it must be there).
. "$(dirname "$0")/lib.sh"
unset AWS_CA_BUNDLE
litestream=$DOZE_PEERS/bin/litestream ltx=$DOZE_PEERS/bin/ltx url=file://$PWD/rep
export litestream ltx url
need() { [ -x "$1" ] || skip "${1##*/} is not installed: make bench-peers"; }
# db N: the database N.doze with its log, as they are after N of four groups of commits
sqlite3 a.db ".output /dev/null" "pragma page_size=1024; pragma journal_mode=wal; pragma wal_autocheckpoint=0;" \
    "create table t(id integer primary key, b blob); insert into t(b) values(randomblob(90000));" \
    ".shell cp a.db 1.doze; cp a.db-wal 1.doze-wal" \
    "insert into t(b) values(randomblob(9000));" "update t set b=zeroblob(30) where id=1;" \
    ".shell cp a.db 2.doze; cp a.db-wal 2.doze-wal" \
    "insert into t(b) select randomblob(5000) from t;" "delete from t where id=2;" \
    ".shell cp a.db 3.doze; cp a.db-wal 3.doze-wal" "vacuum;" \
    ".shell cp a.db 4.doze; cp a.db-wal 4.doze-wal" || echo 'Bail out! sqlite3 failed'
for i in 1 2 3 4; do # what SQLite itself makes of each
    cp $i.doze $i.want && cp $i.doze-wal $i.want-wal && sqlite3 $i.want 'pragma wal_checkpoint(truncate)' >/dev/null && rm -f $i.want-*
done
push() { cp "$1.doze" db && cp "$1.doze-wal" db-wal && run 0 doze replica push db "$url"; }

test_that 'the first push is a snapshot, later ones have the pages of new commits, and a snapshot too when that is cheaper' '
    push 1 && has out "TXID 0000000000000001: a snapshot of all pages" && [ -e rep/ltx/9/0000000000000001-0000000000000001.ltx ] &&
    sleep 0.01 && push 2 && has out "TXID 0000000000000002: the pages of the log" && push 2 && has out "up to date" &&
    sleep 0.01 && push 3 && push 4 && has out "a snapshot of all pages" && run 0 doze replica ls -q "$url" && lines out 5 &&
    run 0 doze replica push --json -q db "$url" && has out "\"txid\":\"0000000000000004\"" && has out "\"commits\":0" && run 0 doze replica push -q db "$url" && empty out
'

test_that 'restore makes the database byte by byte, at the newest state or an older one' '
    run 0 doze restore "$url" -o new.db && has out "TXID 0000000000000004" && cmp new.db 4.want && [ "$(stat -c %a new.db)" = 600 ] &&
    run 0 doze restore --txid 2 --output two.db "$url" && cmp two.db 2.want && run 0 doze restore --txid 0000000000000003 -o three.db -q "$url" && empty out && cmp three.db 3.want &&
    at=$(doze replica ls --json "$url" | grep -o "\"time\":\"[^\"]*\"" | sed -n 1p | cut -d\" -f4) && run 0 doze restore --at "$at" -o at.db --json "$url" && has out "\"txid\":\"0000000000000002\"" && cmp at.db 2.want
'

test_that 'status, verify and ls say what is there' '
    run 0 doze replica status "$url" && has out "newest  TXID 0000000000000004" && has out "a restore reads" &&
    run 0 doze replica status --json "$url" && has out "\"files\":5" && run 0 doze replica verify "$url" && has out "5 files" && run 0 doze replica verify -q "$url" && empty out &&
    run 0 doze replica ls "$url" && has out "LEVEL" && has out "0000000000000003"
'

test_that 'a target that exists or has a log is refused, and a wrong line is exit 2' '
    run 1 doze restore -o new.db "$url" && has err "new.db already exists" && : >x.db-wal && run 1 doze restore -o x.db "$url" && has err "x.db-wal already exists" && rm x.db-wal &&
    run 2 doze restore "$url" && has err "-o must name" && run 2 doze restore -o x.db --at 1 --txid 1 "$url" && run 2 doze restore -o x.db --at noon "$url" && run 2 doze restore -o x.db --txid zz "$url" &&
    run 1 doze restore -o x.db /tmp/x && has err "write file:///DIR" && run 1 doze restore -o x.db "file://$PWD/none" && has err "there is no replica" && [ ! -e none ] &&
    run 1 doze restore -o x.db --txid 9 "$url" && has err "the last is 0000000000000004" && run 1 doze restore -o x.db --at 2000-01-01T00:00:00Z "$url" && has err "old enough" && [ ! -e x.db ]
'

test_that 'a database that is in use is not pushed' '
    { echo "begin immediate; insert into t(b) values(1);"; while [ ! -e go ]; do sleep 0.02; done; } | sqlite3 4.want >/dev/null & pid=$!
    while ! [ -s 4.want-journal ] && ! [ -e 4.want-wal ]; do sleep 0.02; done
    status=0; run 1 doze replica push 4.want "$url" && has err "4.want is in use" || status=1
    : >go && wait $pid && rm go && [ $status = 0 ]
'

test_that 'damage and gaps are found' '
    cp -r rep bad && f=bad/ltx/9/0000000000000001-0000000000000004.ltx && size=$(stat -c %s $f) && printf X | dd of=$f bs=1 seek=$((size - 30)) conv=notrunc 2>dd.err &&
    run 1 doze replica verify "file://$PWD/bad" && has err "level 9, 0000000000000001-0000000000000004.ltx" && has err "1 of 5 files" &&
    run 1 doze restore -o x.db "file://$PWD/bad" && has err "is damaged" && [ ! -e x.db ] && rm $f && run 0 doze restore -o without.db "file://$PWD/bad" && cmp without.db 4.want &&
    rm bad/ltx/0/0000000000000003-*.ltx && run 1 doze restore -o x.db "file://$PWD/bad" && has err "files of the replica are missing" && [ ! -e x.db ] && run 1 doze replica status "file://$PWD/bad" && run 1 doze replica prune "file://$PWD/bad"
'

test_that 'prune removes what no restore needs' '
    cp -a rep old && cp 4.want closed.db && rm -f closed.db-wal && run 0 doze replica push closed.db "file://$PWD/old" && has out "a snapshot" &&
    run 0 doze replica prune --keep 0s --dry-run "file://$PWD/old" && has out "would remove 5 of 6" && run 0 doze replica prune -n -q "file://$PWD/old" && empty out && [ "$(find old -name "*.ltx" | wc -l)" = 6 ] &&
    run 0 doze replica prune --keep 0s "file://$PWD/old" && has out "removed 5 of 6" && run 0 doze restore -o pruned.db "file://$PWD/old" && cmp pruned.db 4.want &&
    run 2 doze replica prune --keep soon "file://$PWD/old" && run 0 doze replica push closed.db "file://$PWD/old" && has out "up to date"
'

test_that 'a restore that is killed leaves nothing' '
    sqlite3 big.db "create table t(b); insert into t select randomblob(100000) from (with recursive c(n) as (select 1 union all select n+1 from c where n<400) select n from c)" && run 0 doze replica push big.db "file://$PWD/bigrep" &&
    mkdir target && for s in INT KILL; do
        doze restore -o target/big.db "file://$PWD/bigrep" >killed.out 2>&1 & pid=$!
        while kill -0 $pid 2>/dev/null && ! ls -l /proc/$pid/fd 2>/dev/null | grep -q "target/#"; do :; done
        kill -$s $pid 2>/dev/null; wait $pid || :
        [ -z "$(ls -A target)" ] || { cmp target/big.db big.db && rm target/big.db; }
    done
'

test_that 'litestream restores what doze wrote' '
    need "$litestream" && run 0 "$litestream" restore -integrity-check full -o l4.db "$url" && cmp l4.db 4.want && run 0 "$litestream" restore -txid 0000000000000002 -o l2.db "$url" && cmp l2.db 2.want
'

test_that 'litestream restores the same state at a time' '
    need "$litestream" && at=$(doze replica ls --json "$url" | grep -o "\"time\":\"[^\"]*\"" | sed -n 1p | cut -d\" -f4) && ms=$((10#$(date -d "$at" +%s%3N) + 1)) &&
    run 0 "$litestream" restore -timestamp "$(date -u -d "@${ms:0:-3}.${ms: -3}" +%Y-%m-%dT%H:%M:%S.%3NZ)" -o lat.db "$url" && cmp lat.db 2.want
'

test_that 'the tool ltx accepts each file' '
    need "$ltx" && find rep old -name "*.ltx" | xargs "$ltx" verify
'

test_that 'doze restores what litestream wrote, and goes on where it ended' '
    need "$litestream" && sqlite3 s.db "pragma journal_mode=wal; create table t(a); insert into t values(1);" >/dev/null && for i in 2 3 4; do
        run 0 "$litestream" replicate -once s.db "file://$PWD/ls" && sqlite3 s.db "insert into t values($i)" || exit 1
    done
    run 0 "$litestream" replicate -once s.db "file://$PWD/ls" && run 0 doze replica verify "file://$PWD/ls" && run 0 doze restore -o from.db "file://$PWD/ls" && run 0 "$litestream" restore -o ref.db "file://$PWD/ls" && cmp from.db ref.db && [ "$(sqlite3 from.db "select count(*) from t")" = 4 ] &&
    run 0 doze restore --txid 2 -o from2.db "file://$PWD/ls" && run 0 "$litestream" restore -txid 0000000000000002 -o ref2.db "file://$PWD/ls" && cmp from2.db ref2.db &&
    run 0 doze replica push s.db "file://$PWD/ls" && run 0 "$litestream" restore -integrity-check full -o again.db "file://$PWD/ls" && [ "$(sqlite3 again.db "select sum(a) from t where a<5")" = 10 ]
'

test_done
