#!/bin/bash
# doctor: its report, its JSON, its status.
. "$(dirname "$0")/lib.sh"

test_that 'doctor says something about each feature and that all required ones are here' '
    run 0 doze doctor && empty err &&
    has out "doze can run here" &&
    [ "$(grep -cE "^(yes|partly|no|missing) " out)" -eq 22 ] &&
    awk "NR > 1 && length > 80 { print; bad = 1 } END { exit bad }" out
'

test_that 'doctor --json is JSON with every feature' '
    run 0 doze doctor --json && empty err && lines out 1 &&
    sqlite3 :memory: "
        select json_group_array(value ->> \"\$.key\") from json_each(readfile(\"out\"), \"$.features\");
        select count(*) from json_each(readfile(\"out\"), \"$.features\")
            where value ->> \"\$.meaning\" like \"%.\" and value ->> \"\$.detail\" <> \"\"
              and value ->> \"\$.status\" in (\"yes\", \"limited\", \"no\")
              and (value ->> \"\$.status\" = \"yes\" or not value ->> \"\$.required\")
              and (value ->> \"\$.errno\" is null or value ->> \"\$.errno\" like \"E%\");
        select readfile(\"out\") ->> \"$.ok\";" >found &&
    cat >want <<"END" &&
["seccomp","pidfd","memfd","file_locks","address_space","userfaultfd","pagemap_scan","landlock","user_namespaces","jail","users","seccomp_notify","memory_programs","child_memory","mappings","processes","profile","cgroups","open_files","reflink","fuse","kvm"]
22
1
END
    diff want found
'

test_that 'doctor -q shows only what is not as it could be' '
    run 0 doze doctor -q && ! grep -q "^yes" out && lacks out "doze can run here"
'

test_that 'the data directory comes from the option, DOZE_DATA, XDG_DATA_HOME, HOME, or is /var/lib/doze' '
    where() { "$@" | sed -n "1s/.*; data in //p"; } &&
    [ "$(where doze doctor)" = "$HOME/.local/share/doze" ] &&
    [ "$(XDG_DATA_HOME=/x where doze doctor)" = /x/doze ] &&
    [ "$(XDG_DATA_HOME=relative where doze doctor)" = "$HOME/.local/share/doze" ] &&
    [ "$(DOZE_DATA=/y XDG_DATA_HOME=/x where doze doctor)" = /y ] &&
    [ "$(DOZE_DATA=/y where doze doctor -d /z)" = /z ] &&
    [ "$(DOZE_DATA= where doze doctor --data=/z/../z)" = /z/../z ] &&
    [ "$(HOME= where doze doctor)" = /var/lib/doze ] &&
    [ "$(unset HOME; where doze doctor)" = /var/lib/doze ]
'

test_that 'doctor makes nothing in the data directory' '
    mkdir data && run 0 doze doctor -d data && [ -z "$(ls -A data)" ] &&
    run 0 doze doctor -d data/a/b && [ -z "$(ls -A data)" ] && tr -s " \n" " " <out >flat && has flat "work/data: "
'

test_that 'a data directory where nothing can be written is missing a required feature: exit 1' '
    run 1 doze doctor -d /proc/self/doze && grep -q "^missing   file locks: " out &&
    has out "doze cannot run here" &&
    run 1 doze doctor --json -d /proc && has out "\"ok\":false"
'

test_that 'a bad data directory is told so' '
    run 1 doze doctor -d "" && lines err 1 && has err "empty name" &&
    run 1 doze doctor -d "$(head -c 5000 /dev/zero | tr "\0" x)" && lines err 1 && has err "4095 bytes" &&
    run 0 doze doctor -d "$(printf "a\033[31m\nb")" && ! grep -q "$(printf "\033")" out
'

test_that 'doctor answers whatever signals the caller ignores or blocks' '
    doze doctor >plain &&
    run 0 env --ignore-signal=CHLD "$DOZE" doctor && cmp plain out &&
    run 0 env --block-signal "$DOZE" doctor && cmp plain out
'

test_that 'doctor answers as another user, too' '
    [ "$(id -u)" -eq 0 ] || skip "not root"
    chmod 711 "$LIB_SCRATCH" && cp "$DOZE" "$LIB_SCRATCH/for-nobody" && chmod 755 "$LIB_SCRATCH/for-nobody"
    nobody="setpriv --reuid 65534 --regid 65534 --clear-groups"
    $nobody test -x "$LIB_SCRATCH/for-nobody" || skip "nobody may not look into $LIB_SCRATCH"
    run 0 $nobody "$LIB_SCRATCH/for-nobody" doctor -d /tmp && has out "doze can run here"
'

test_done
