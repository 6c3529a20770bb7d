#!/bin/bash
# Encrypted replicas: replica.key_file and --key-file. Needs `make base`.
. "$(dirname "$0")/lib.sh"
. "$LIB_ROOT/tests/integration/daemon.sh"
export key=$PWD/secret.key
launch() { start --replica-url "file://$PWD/rep" --replica-key-file "$key"; }
id_of() { api 200 GET "$(s "/$1")" && grep -oE 'sbx_[a-z0-9]{20}' out | head -1; }
current() { api 200 GET "$(s "/$1/replica")" && grep -q '"state":"current"' out && grep -q '"replica_txid":"0' out; }
fails_with() { api 200 GET "$(s "/$1/replica")" && grep -q "\"error\":\"[^\"]*$2" out; }
write() { api 200 POST "$(s "/$1/exec")" "{\"shell\":\"echo $2 >>/workspace/log; sync\"}"; }
log_is() { api 200 POST "$(s "/$1/exec")" '{"shell":"cat /workspace/log"}' && has out "\"stdout\":\"$2\""; }
flat() { # FILE: a copy with its log moved into it
    rm -f flat.db flat.db-wal && cp "$1" flat.db && { [ ! -s "$1-wal" ] || { cp "$1-wal" flat.db-wal && sqlite3 flat.db "pragma wal_checkpoint(truncate)" >flat.out; }; }
}
left() { ! grep -q ":$(stat -c %i "data/live/$1.doze") " /proc/locks; } # no cell has the file
rests() { api 200 POST "$(s "/$1/suspend")" && until_true left "$(id_of "$1")" && until_true current "$1"; }
doze key new -q "$key" || exit 1

test_that 'nothing of a sandbox can be read in its replica, and what it says of itself neither' '
    launch && api 201 POST "$(s)" "{\"image\":\"base\",\"name\":\"secretive\"}" && id_of secretive >a && write secretive watchword && rests secretive &&
    [ "$(find rep -type f | wc -l)" -ge 3 ] && ! grep -rqa -e watchword -e secretive -e SQLite -e owner rep && [ -z "$(find rep -type f -exec sh -c "head -c 8 \"\$1\" | grep -q DOZECRY1 || echo \$1" - {} \;)" ]
'
test_that 'with the key, a restore is the file byte by byte; ls, status, verify and prune read it, too' '
    url=file://$PWD/rep/$(cat a) && run 0 doze restore --key-file "$key" -o got "$url" && flat "data/live/$(cat a).doze" && cmp got flat.db && run 0 doze replica verify --key-file "$key" "$url" && has out "none is missing" &&
    run 0 doze replica ls --key-file "$key" "$url" && has out LEVEL && run 0 doze replica status --key-file "$key" "$url" && run 0 doze replica prune -n --key-file "$key" "$url" && run 0 doze replica push --key-file "$key" got "file://$PWD/pushed" && run 0 doze replica push --key-file "$key" got "file://$PWD/pushed" && has out "up to date" && ! grep -rqa SQLite pushed
'
test_that 'without the key, or with another one, the error says so, and nothing is made' '
    url=file://$PWD/rep/$(cat a) && doze key new -q other.key && run 1 doze restore -o no.db "$url" && has err "is encrypted" && run 1 doze restore -o no.db --key-file other.key "$url" && has err "key" && [ ! -e no.db ] &&
    run 1 doze restore -o no.db --key-file nowhere "$url" && has err nowhere && run 1 doze restore --all --data "$PWD/none" "file://$PWD/rep" && has err "is encrypted; name its key file" && ! ls none/live/*.doze 2>ls.err
'
test_that 'changed bytes are found' '
    cp -r rep bad && file=$(ls bad/"$(cat a)"/ltx/9/*.ltx) && printf X | dd of="$file" bs=1 seek=3000 conv=notrunc 2>dd.err && run 1 doze restore -o no.db --key-file "$key" "file://$PWD/bad/$(cat a)" && [ ! -e no.db ]
'
test_that 'the daemon goes on after a restart, restores a sandbox, and with a new key in front of the old one' '
    stop && launch && write secretive two && until_true current secretive && api 201 POST "$(s /secretive/restore)" "{\"name\":\"copy\"}" && log_is copy "watchword\\ntwo\\n" &&
    stop && cat "$key" >old.key && cat other.key old.key >"$key" && launch && write secretive three && rests secretive && run 1 doze restore -o no.db --key-file old.key "file://$PWD/rep/$(cat a)" && has err key &&
    rm -f got && run 0 doze restore -o got --key-file "$key" "file://$PWD/rep/$(cat a)" && flat "data/live/$(cat a).doze" && cmp got flat.db
'
test_that 'a daemon without the key reports it, and writes nothing' '
    stop && find rep -type f | sort >before && start --replica-url "file://$PWD/rep" && write secretive four && until_true fails_with secretive "is encrypted" && find rep -type f | sort | cmp - before && stop
'
test_that 'a replica that is not encrypted stays so: a daemon with a key reports that' '
    start --replica-url "file://$PWD/plain" && write secretive five && until_true current secretive && stop && start --replica-url "file://$PWD/plain" --replica-key-file "$key" && write secretive six && until_true fails_with secretive "not encrypted" && stop &&
    run 0 doze replica verify "file://$PWD/plain/$(cat a)"
'
test_that 'everything comes back from the encrypted replicas' '
    launch && write secretive seven && rests secretive && write copy more && rests copy && stop && mv data lost && run 0 doze restore --all --take --key-file "$key" "file://$PWD/rep" && has out "2 sandboxes restored" && flat "lost/live/$(cat a).doze" && cmp flat.db "data/live/$(cat a).doze"
'
test_that 'a key file that is missing or that others may read is refused at the start' '
    run 1 doze daemon --data "$PWD/fresh" --replica-key-file "$PWD/nowhere" && has err "replica.key_file" && chmod 644 other.key && run 1 doze daemon --data "$PWD/fresh" --replica-key-file "$PWD/other.key" && has err "replica.key_file"
'
test_done
