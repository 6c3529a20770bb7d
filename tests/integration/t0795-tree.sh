#!/bin/bash
# Trees of guests as files of this machine, and the other way: the same rules for `cp`, `cp -r`,
# `disk get` and `disk put`.
# shellcheck disable=SC2016,SC1004,SC2034 # $ and \ inside of tests, and variables used there
. "$(dirname "$0")/lib.sh"
. "$LIB_ROOT/tests/integration/daemon.sh"
start || exit 1
doze create base -n web >/dev/null || exit 1
in_guest() { doze exec web -- sh -ec "$1"; }
umask 022

# A disk of its own, with the same tree in it as the sandbox has.
mkdir -p src/d src/l && echo x >src/f && echo y >src/d/y && ln src/f src/hard && ln -s /etc src/l/abs && ln -s ../../up src/l/up && ln -s ../f src/l/in && chmod 777 src/f src/d && chmod 2777 src/l
doze disk create box.doze && doze disk put box.doze src /workspace || exit 1
doze cp -r src web:/workspace/ || exit 1
# both FUNCTION: call it with the words of either way out
both() { "$1" doze cp -r web:/workspace && "$1" doze disk get box.doze /workspace; }
at() { GET=("${@:1:$#-1}" "${!#}$WHAT"); } # VERB... BASE: the words to get $WHAT below it

test_that 'links out of the tree: refused, left out or kept, by the same words' '
    try() {
        WHAT=/src at "$@" && rm -rf a s k && run 1 "${GET[@]}" a && has err "\"l/abs\" is a symbolic link out of the tree, to \"/etc\": --links keep" && has err "a is incomplete: " && [ ! -L a/l/abs ] &&
        run 0 "${GET[@]}" --links skip s && has err "\"l/abs\" is a symbolic link out of the tree, to \"/etc\": left out" && has err "l/up" && [ ! -L s/l/abs ] && [ ! -L s/l/up ] && [ "$(cat s/l/in)" = x ] &&
        run 0 "${GET[@]}" --links keep k && [ "$(readlink k/l/abs)" = /etc ] && [ "$(readlink k/l/up)" = ../../up ] && run 2 "${GET[@]}" --links x k
    }
    both try
'
test_that 'modes: what the umask forbids and set-id bits stay away, in each way' '
    try() { WHAT=/src at "$@" && rm -rf m && (umask 027 && run 0 "${GET[@]}" --links skip m) && [ "$(stat -c %a m/f m/d m/l)" = "$(printf "750\n750\n750")" ]; }
    both try && (umask 027 && run 0 doze cp web:/workspace/src/f one) && [ "$(stat -c %a one)" = 750 ]
'
test_that 'a directory that is there keeps its mode and times, and what is in it' '
    try() {
        WHAT=/src at "$@" && rm -rf h && mkdir -p h/src/d && chmod 700 h/src h/src/d && echo mine >h/src/mine && echo old >h/src/f && run 0 "${GET[@]}" --links skip h && [ "$(stat -c %a h/src h/src/d)" = "$(printf "700\n700")" ] && [ "$(cat h/src/f h/src/d/y h/src/mine)" = "$(printf "x\ny\nmine")" ]
    }
    both try
'
test_that 'an empty directory that is there does not even change its times' '
    in_guest "mkdir -p /workspace/e/e" && mkdir -p e/e && run 0 doze disk put box.doze e /workspace &&
    try() { WHAT=/e at "$@" && rm -rf t && mkdir -p t/e/e && chmod 710 t/e/e && touch -d 2001-02-03 t/e/e t/e t && run 0 "${GET[@]}" t && [ "$(stat -c %y t/e/e t/e t | sort -u | cut -c1-10)" = 2001-02-03 ] && [ "$(stat -c %a t/e/e)" = 710 ]; }
    both try
'
test_that 'nothing is written through a link that is here' '
    try() {
        WHAT=/src at "$@" && rm -rf h victim && mkdir -p h/src victim && echo mine >victim/y && chmod 700 victim && touch -d 2001-02-03 victim && ln -s ../../victim h/src/d && ln -s ../../victim/y h/src/f &&
        run 1 "${GET[@]}" --links skip h && has err "a file or a symbolic link exists where a directory is needed" && [ "$(cat victim/y)" = mine ] && [ "$(ls victim)" = y ] && [ "$(stat -c "%a %y" victim | cut -c1-14)" = "700 2001-02-03" ] &&
        rm h/src/d && run 0 "${GET[@]}" --links skip h && [ ! -L h/src/f ] && [ "$(cat victim/y h/src/f)" = "$(printf "mine\nx")" ] &&
        rm -r h/src && ln -s ../victim h/src && run 1 "${GET[@]}" --links skip h && [ "$(ls victim)" = y ]
    }
    both try
'
test_that 'like cp: into a directory under the name, else as TARGET; /. is what is in it' '
    try() {
        rm -rf n && mkdir -p n/into && WHAT=/src/d at "$@" && run 0 "${GET[@]}" n/into && [ -f n/into/d/y ] && run 0 "${GET[@]}/" n/into/ && run 0 "${GET[@]}" n/new && [ -f n/new/y ] && run 1 "${GET[@]}" n/no/new && [ ! -e n/no ] &&
        run 0 "${GET[@]}/." n/into && [ -f n/into/y ] && run 0 "${GET[@]}/y" n/into && run 0 "${GET[@]}/y" n/file && [ "$(cat n/file)" = y ] && WHAT=/src at "$@" && run 1 "${GET[@]}" "${GET[@]: -1}" n/none && has err "Not a directory" && run 1 "${GET[@]}/d/.." n/into && has err "it has no name to be copied under"
    }
    both try
'
test_that 'several names of a file stay that, both ways' '
    run 0 doze cp -r --links skip web:/workspace/src hard && [ hard/f -ef hard/hard ] && run 0 doze disk get --links skip box.doze /workspace/src hard2 && [ hard2/f -ef hard2/hard ] && in_guest "[ /workspace/src/f -ef /workspace/src/hard ]" && run 0 doze disk ls -l box.doze /workspace/src && grep -Eq " 2 .* hard$" out
'
test_that 'how much came, as JSON' '
    mkdir j && printf abc >j/f && ln j/f j/g && ln -s f j/l && mkfifo j/p && run 0 doze cp -r --json j web:/workspace/j && has err "\"j/p\" is a pipe: left out" && [ "$(cat out)" = "{\"files\":2,\"directories\":1,\"links\":1,\"skipped\":1,\"bytes\":3}" ] &&
    run 0 doze disk put --json box.doze j /workspace && has err "\"j/p\" is a pipe: left out" && [ "$(cat out)" = "{\"files\":2,\"directories\":1,\"links\":1,\"skipped\":1,\"bytes\":3}" ] &&
    run 0 doze cp -r --json web:/workspace/j back && [ "$(cat out)" = "{\"files\":2,\"directories\":1,\"links\":1,\"skipped\":0,\"bytes\":3}" ] && run 0 doze cp --json web:/workspace/j/f back/f && [ "$(cat out)" = "{\"files\":1,\"directories\":0,\"links\":0,\"skipped\":0,\"bytes\":3}" ] && run 2 doze cp --json web:/workspace/j/f -
'
test_that 'into a sandbox: owners are root, holes and long names arrive, a directory keeps its mode' '
    long=$(printf "n%.0s" $(seq 200)) && mkdir -p big/$long && echo deep >big/$long/$long && truncate -s 3G big/holes && echo end >>big/holes && chmod 711 big && run 0 doze cp -r --json big web:/workspace/big && grep -Eq "\"files\":2,.*\"bytes\":[0-9]{1,6}}" out &&
    in_guest "stat -c %a:%u /workspace/big; cat /workspace/big/$long/$long; tail -c 4 /workspace/big/holes" >got && [ "$(cat got)" = "$(printf "711:0\ndeep\nend")" ] &&
    in_guest "chmod 700 /workspace/big" && run 0 doze cp -r big/. web:/workspace/big && in_guest "stat -c %a /workspace/big" >got && [ "$(cat got)" = 700 ] && run 0 doze cp -r big web:/workspace/ && in_guest "stat -c %a /workspace/big" >got && [ "$(cat got)" = 700 ] && rm -r big
'
test_that 'a file that gets smaller while it is read fails the copy, and nothing is left' '
    [ -r /sys/kernel/mm/transparent_hugepage/enabled ] || skip "needs sysfs, whose files are shorter than they say"
    run 1 doze cp -r /sys/kernel/mm/transparent_hugepage web:/workspace/sys && has err "shrank while it was read" && has err "nothing of /sys/kernel/mm/transparent_hugepage was copied" && run 0 doze files web:/workspace -q && lacks out sys
'
test_that 'a file to what is no file is written to it' '
    mkfifo way && { cat way >through & } && run 0 doze cp web:/workspace/src/f way && wait $! && [ -p way ] && [ "$(cat through)" = x ]
'
test_that 'an ordinary user gets his tree, and what he may not write is refused' '
    [ "$(id -u)" = 0 ] || skip "the others were it"
    command -v setpriv >/dev/null || skip "needs setpriv(1)"
    as() { setpriv --reuid 65534 --regid 65534 --clear-groups "$@"; }
    as "$DOZE" help >/dev/null 2>&1 || skip "an ordinary user cannot reach this program"
    mkdir user closed && chown 65534 user && cp box.doze user/ && chown 65534 user/box.doze && chmod 755 . .. && as "$DOZE" disk get --links skip user/box.doze /workspace/src user/out && [ "$(stat -c "%u %a" user/out/f)" = "65534 755" ] &&
    run 1 as "$DOZE" disk get --links skip user/box.doze /workspace/src closed && has err "Permission denied"
'

# --- a daemon that lies ------------------------------------------------------------------------
python3 "$LIB_ROOT/tests/integration/tree_server.py" port >/dev/null 2>&1 &
echo $! >liar.pid
pids=$PWD
trap 'kill -9 "$(cat "$pids/liar.pid")" "$(cat "$pids/daemon.pid")" 2>/dev/null; rm -rf "$LIB_SCRATCH"' EXIT
for _ in $(seq 200); do
    [ -s port ] && break
    read -rt 0.05 <> <(:) || :
done
liar() { DOZE_URL=http://127.0.0.1:$(cat port) doze cp -r "$@"; }
rm -rf lies && mkdir -p lies/victim && echo mine >lies/victim/f && chmod 700 lies/victim
safe() { # nothing but what was there, and nothing half
    [ "$(cat lies/victim/f)" = mine ] && [ "$(stat -c '%a %h' lies/victim)" = '700 2' ] && [ "$(stat -c %h lies/victim/f)" = 1 ] && [ "$(ls -A lies/victim)" = f ] && [ ! -e lies/evil ] && [ ! -e /tmp/doze-tree-evil ] &&
        [ -z "$(find lies -perm /7000 -o -name '.doze-*' -o -type c -o -type p)" ] && return 0
    find lies -ls
    return 1
}
lie() { # STATUS NAME TEXT OPTION...
    rm -rf lies/t && run "$1" liar "${@:4}" "$2:/x" lies/t && { [ -z "$3" ] || has err "$3"; } && safe
}
test_that 'a hostile stream: names that lead out' 'lie 1 dots "leads out of its directory" && [ "$(cat lies/t/good)" = good ] && lie 1 deepdots "leads out of its directory" && lie 1 absolute "is absolute" && lie 1 dotsdir "leads out of its directory" && lie 1 dotslink "leads out of its directory"'
test_that 'a hostile stream: a link, then a file through it' 'lie 1 through "out of the tree" && lie 1 through "exists where a directory is needed" --links keep && lie 1 through "No such file" --links skip && lie 1 throughtop "exists where a directory is needed" && lie 1 dirlink "exists where a directory is needed" --links keep'
test_that 'a hostile stream: hard links to something outside of the tree' 'lie 1 hardout "leads out of its directory" && lie 1 hardabs "is absolute" && rm -rf lies/t && mkdir lies/t && echo mine >lies/t/mine && run 1 liar hardmine:/x/. lies/t && has err "something that is not a file of the tree" && [ "$(stat -c %h lies/t/mine)" = 1 ] && safe'
test_that 'a hostile stream: names that come twice' 'lie 0 twice "" && [ "$(cat lies/t/f)" = two ] && lie 1 twicekinds "exists where a directory is needed"'
test_that 'a hostile stream: sizes that lie, and one without end' 'lie 1 huge "ends early" && lie 1 negative "at byte" && lie 1 cut "ends early" && lie 1 endless "more than 1048576 bytes: --limit allows more" --limit 1MiB && has err "lies/t is incomplete: 1 directories, 0 files" && run 2 liar --limit x endless:/x lies/t'
test_that 'a hostile stream: set-id bits, devices, and what nobody knows' 'lie 0 setid "" && [ "$(stat -c %a lies/t/f lies/t/d)" = "$(printf "755\n755")" ] && lie 0 devices "\"dev\" is not a file, directory or link: left out" && has err "\"pipe\" is" && [ "$(ls lies/t)" = good ] && lie 0 odd "\"odd\"" && lie 1 orphan "No such file"'
test_that 'an interrupted copy leaves whole files, and says so' '
    rm -rf lies/t && { liar stalled:/x lies/t >out 2>err & pid=$!; } && for _ in $(seq 200); do [ -e lies/t/good ] && [ -n "$(ls -A lies/t | grep doze-)" ] && break; read -rt 0.05 <> <(:) || :; done &&
    doze=$(pgrep -P $pid || echo $pid) && kill -TERM $doze; ! wait $pid; has err "lies/t is incomplete: 1 directories, 1 files" && [ "$(ls -A lies/t)" = good ] && safe
'
test_that 'it ends clean' 'stop'
test_done
