#!/bin/bash
# doze restore and doze replica with S3: versitygw as a server that checks signatures, litestream as the
# other end (make bench-peers; with DZ_TEST_MUST_RUN=t0811-replica-s3 both must be there).
. "$(dirname "$0")/lib.sh"
. "$LIB_ROOT/tests/integration/s3.sh"
trap 's3_stop; rm -rf "$LIB_SCRATCH"' EXIT
litestream=$DOZE_PEERS/bin/litestream
export litestream
need() {
    need_s3
    [ "${1:-}" != litestream ] || [ -x "$litestream" ] || skip 'litestream is not installed: make bench-peers'
}
export url="s3://bucket/some/where?endpoint=http://127.0.0.1:$S3_PORT"
theirs() { echo "s3://bucket/$1?endpoint=http://127.0.0.1:$S3_PORT&forcePathStyle=true"; }
sqlite3 a.db ".output /dev/null" "pragma journal_mode=wal; pragma wal_autocheckpoint=0; create table t(id integer primary key, b blob);" \
    "with recursive c(n) as (select 1 union all select n+1 from c where n<250) insert into t(b) select randomblob(100000) from c;" \
    ".shell cp a.db 1.doze; cp a.db-wal 1.doze-wal" "update t set b=zeroblob(9000) where id%7=0;" ".shell cp a.db 2.doze; cp a.db-wal 2.doze-wal"
for i in 1 2; do
    cp $i.doze $i.want && cp $i.doze-wal $i.want-wal && sqlite3 $i.want 'pragma wal_checkpoint(truncate)' >/dev/null
done
push() { cp "$1.doze" db && cp "$1.doze-wal" db-wal && run 0 doze replica push db "$url"; }

test_that 'a push stores objects under the names of litestream, large ones in parts' '
    need && push 1 && first=$(date +%s) && while [ "$(date +%s)" -le "$((first + 1))" ]; do sleep 0.05; done && push 2 && has out "TXID 0000000000000002" && [ "$(stat -c %s s3/bucket/some/where/0009/0000000000000001-0000000000000001.ltx)" -gt 20000000 ] && [ -e s3/bucket/some/where/0000/0000000000000002-0000000000000002.ltx ] &&
    run 0 doze replica verify "$url" && run 0 doze replica status "$url" && has out "TXID 0000000000000002"
'

test_that 'a restore from the bucket is the database byte by byte' '
    need && run 0 doze restore -o new.db "$url" && cmp new.db 2.want && run 0 doze restore -o one.db --txid 1 "$url" && cmp one.db 1.want &&
    run 1 doze restore -o x.db "s3://bucket/else?endpoint=http://127.0.0.1:$S3_PORT" && has err "no files" && [ ! -e x.db ]
'

test_that 'a wrong key is refused, and named without its secret' '
    need && AWS_SECRET_ACCESS_KEY=wrong-one run 1 doze restore -o x.db "$url" && lacks err wrong-one && has err SignatureDoesNotMatch && [ ! -e x.db ]
'

# litestream first compares the timestamp with the times that the server has, in whole seconds
test_that 'litestream restores it, at the newest state and at a time' '
    need litestream && run 0 "$litestream" restore -integrity-check full -o l.db "$(theirs some/where)" && cmp l.db 2.want &&
    at=$(doze replica ls --json "$url" | grep -o "\"time\":\"[^\"]*\"" | sort | sed -n 2p | cut -d\" -f4) &&
    run 0 "$litestream" restore -timestamp "${at%.*}Z" -o lat.db "$(theirs some/where)" && cmp lat.db 1.want
'

test_that 'doze restores what litestream uploaded' '
    need litestream && sqlite3 s.db "pragma journal_mode=wal; create table t(a); insert into t values(1);" >/dev/null && for i in 2 3; do
        run 0 "$litestream" replicate -once s.db "$(theirs ls)" && sqlite3 s.db "insert into t values($i)" || exit 1
    done
    run 0 "$litestream" replicate -once s.db "$(theirs ls)" && u="s3://bucket/ls?endpoint=http://127.0.0.1:$S3_PORT" && run 0 doze replica verify "$u" && run 0 doze restore -o from.db "$u" &&
    run 0 "$litestream" restore -o ref.db "$(theirs ls)" && cmp from.db ref.db && [ "$(sqlite3 from.db "select sum(a) from t")" = 6 ]
'

test_that 'prune removes objects, and a damaged one is noticed' '
    need && f=s3/bucket/some/where/0000/0000000000000002-0000000000000002.ltx && printf X | dd of=$f bs=1 seek=3000 conv=notrunc 2>dd.err && run 1 doze replica verify "$url" && has err "0000000000000002" &&
    run 0 doze replica ls "$url" && has out damaged && run 0 doze replica ls --json "$url" && has out "\"damaged\":true" && run 1 doze replica status "$url" && has err "is damaged" && run 1 doze replica prune "$url" &&
    run 1 doze restore -o x.db "$url" && [ ! -e x.db ] && cp 2.want closed.db && run 0 doze replica push closed.db "$url" && has out "a snapshot" &&
    run 0 doze replica prune --keep 0s "$url" && has out "removed" && run 0 doze replica verify "$url" && run 0 doze restore -o last.db "$url" && cmp last.db 2.want
'

test_done
