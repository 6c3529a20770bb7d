#!/bin/bash
# The file verbs on a sandbox of the daemon and on a sandbox's file: the same answers.
# shellcheck disable=SC2016 # $ inside of tests
. "$(dirname "$0")/lib.sh"
. "$LIB_ROOT/tests/integration/daemon.sh"
start || exit 1
doze create base -n web >/dev/null || exit 1
mkdir -p tree/sub
printf 'one\n' >tree/one
printf 'two\n' >tree/sub/two
head -c 700000 /dev/urandom >tree/big
ln -s ../one tree/sub/link
chmod 750 tree/sub/two
chmod 740 tree/big
touch -d '2001-02-03 04:05:06 UTC' tree/one tree/big tree/sub/two
doze cp -r tree/. web:/workspace/ || exit 1
doze disk create box.doze && doze disk put -q box.doze tree/. /workspace || exit 1

# WORD... with @ for the place before the colon: on both, the same status, output and error. Only
# the time of what was made just now, and the names of the two, may differ.
both() { # STATUS COMMAND...
    local want=$1 word remote=() file=()
    shift
    for word in "$@"; do
        remote+=("${word/#@/web}")
        file+=("${word/#@/./box.doze}")
    done
    run "$want" doze "${remote[@]}" && cp out out.remote && cp err err.remote &&
        DOZE_URL=unix:/nowhere run "$want" doze "${file[@]}" && cp out out.file && cp err err.file &&
        sed -i 's/"mtime":"[^"]*"//g' out.remote out.file && cmp out.remote out.file
}
same_error() { # TEXT: both said it
    has err.remote "$1" && has err.file "$1"
}

test_that 'cat prints the same bytes' '
    both 0 cat @:/workspace/one @:/workspace/sub/two && [ "$(cat out)" = "$(printf "one\ntwo")" ] &&
    both 0 cat @:/workspace/big && cmp out tree/big && both 0 cat @:/workspace/sub/link && [ "$(cat out)" = one ] &&
    both 1 cat @:/workspace/none && same_error "No such file" && both 1 cat @:/workspace && same_error "Is a directory"
'
test_that 'files lists the same entries, with the same type names, as JSON too' '
    both 0 files --json @:/workspace/sub --depth 3 && has out "\"type\":\"symlink\"" && has out "\"target\":\"../one\"" && has out "\"mode\":\"0750\"" && has out "\"mtime\":\"2001-02-03T04:05:06" &&
    both 0 files -q @:/workspace && printf "big\none\nsub\n" | cmp - out && both 1 files @:/none && same_error "No such file" && run 0 doze files -q ./box.doze && has out workspace
'
test_that 'sql answers the same rows, text, blobs, and refusals' '
    q="select path, length(content) as n, x'"'00ff'"' as b, null as z, 1.5 as r from vfs where volume='"'workspace'"' and path like '"'%o%'"' order by path" &&
    run 0 doze sql web "$q" --json && cp out out.remote && run 0 doze sql ./box.doze "$q" --json && cmp out out.remote && has out base64 &&
    run 0 doze sql web "$q" && cp out out.remote && run 0 doze sql ./box.doze "$q" && cmp out out.remote &&
    run 1 doze sql web "delete from node" && run 1 doze sql ./box.doze "delete from node" && run 1 doze sql ./box.doze "select 1; select 2" && has err "one statement"
'
test_that 'files mkdir, mv and rm do the same' '
    both 0 files mkdir @:/workspace/a/b/c && both 0 files mkdir @:/workspace/a/b && both 0 files mv @:/workspace/one /workspace/a/moved && both 0 cat @:/workspace/a/moved && [ "$(cat out)" = one ] &&
    both 1 files mv @:/workspace/none /workspace/x && same_error "No such file" && both 0 files -q @:/workspace/a --depth 9 &&
    both 1 files rm @:/workspace/a && both 0 files rm -r @:/workspace/a @:/workspace/sub/two && both 1 files rm @:/workspace/a && same_error "No such file" && both 0 files -q @:/workspace
'
test_that 'edit changes a file, makes one with its directories, and keeps what cannot go back' '
    cp tree/big want && echo more >>want && export EDITOR="sh -c '"'"'echo more >>\"\$1\"'"'"' x" &&
    both 0 edit @:/workspace/big && both 0 cat @:/workspace/big && cmp out want && both 0 files --json @:/workspace && has out "\"mode\":\"0740\"" && both 0 edit @:/workspace/sub/new/made && both 0 cat @:/workspace/sub/new/made && [ "$(cat out)" = more ] &&
    EDITOR=false && both 1 edit @:/workspace/big && same_error "the file is unchanged" && both 0 cat @:/workspace/big && cmp out want &&
    EDITOR="sh -c '"'"'echo kept >\"\$1\"'"'"' x" && run 1 doze edit ./box.doze:/proc/x && has err "your version is kept in" && [ "$(cat "$(sed -n "s/.*your version is kept in //p" err)")" = kept ]
'
test_that 'cp copies a file in and out, with its mode, and says how much' '
    both 0 cp --json tree/big @:/workspace/in/here && has out "{\"files\":1,\"directories\":0,\"links\":0,\"skipped\":0,\"bytes\":700000}" && both 0 files --json @:/workspace/in && has out "\"mode\":\"0740\"" &&
    rm -f got && both 0 cp @:/workspace/in/here got && cmp got tree/big && [ "$(stat -c %a got)" = 740 ] && both 0 cp @:/workspace/in/here - && cmp out tree/big && both 0 cp tree/one @:/workspace/in/ && both 0 cat @:/workspace/in/one &&
    both 1 cp @:/workspace/none got && same_error "No such file" && cmp got tree/big && both 1 cp tree/one @:/workspace/in && same_error "Is a directory; end it with / to copy into it" && both 1 cp @:/workspace/in got && same_error "Is a directory; use -r to copy it" &&
    both 2 cp tree @:/workspace/in/ && same_error "use -r" && both 2 cp tree/one tree/big @:/workspace/in && same_error "end it with /" && both 2 cp --json @:/workspace/in/one - && run 2 doze cp --image base web:/workspace/in/one got && has err "are for a FILE" &&
    printf typed | run 0 doze cp - ./box.doze:/workspace/in/typed && run 0 doze cat ./box.doze:/workspace/in/typed && [ "$(cat out)" = typed ] && run 0 doze files rm ./box.doze:/workspace/in/typed
'
test_that 'cp -r copies a tree in and out; links, several names and times arrive' '
    rm -rf t && mkdir -p t/d && echo x >t/f && ln t/f t/g && ln -s f t/l && touch -d "2001-02-03 04:05:06 UTC" t/f t/d && truncate -s 3000000 t/holes && echo end >>t/holes && mkfifo t/p &&
    both 0 cp -r --json t @:/workspace/more/t && same_error "\"t/p\" is a pipe: left out" && has out "\"files\":3" && rm -rf back && both 0 files --json @:/workspace/more/t --depth 2 && rm -rf back &&
    run 0 doze cp -r --json ./box.doze:/workspace/more/t back && has out "\"files\":3" && [ back/f -ef back/g ] && [ "$(readlink back/l)" = f ] && cmp back/holes t/holes && [ "$(stat -c %Y back/f back/d)" = "$(stat -c %Y t/f t/d)" ] &&
    rm -rf back && run 1 doze cp -r ./box.doze:/workspace/sub back && has err "is a symbolic link out of the tree" && run 0 doze cp -r --links skip ./box.doze:/workspace/sub back2 && has err "left out" && [ ! -L back2/link ]
'
test_that 'a tree that is refused leaves nothing in either' '
    mkdir -p deep/$(printf "d/%.0s" $(seq 300)) && both 1 cp -r deep @:/workspace/x/y/deep && same_error "directories deep" && same_error "nothing of deep was copied" && both 1 files @:/workspace/x && same_error "No such file"
'
test_that 'Ctrl-C in the middle of cp leaves no part of the file, and no log' '
    mkfifo slow && { doze cp slow ./box.doze:/workspace/half 2>interrupted & pid=$!; exec 7>slow; } && head -c 300000 /dev/zero >&7 && kill -TERM $pid && { wait $pid; [ $? -eq 143 ]; } && exec 7>&- && has interrupted interrupted &&
    run 1 doze cat ./box.doze:/workspace/half && [ ! -e box.doze-wal ] && run 0 doze disk check -q box.doze
'
test_that 'what was changed is in the file, and its log is gone' '
    [ ! -e box.doze-wal ] && run 0 doze disk check -q box.doze && run 1 doze disk cat box.doze /workspace/one && run 0 doze disk cat box.doze /workspace/big && cmp out want
'
test_that 'a file that is not there is not made, and --image is of a FILE' '
    run 1 doze cat ./none.doze:/x && has err "open ./none.doze: No such file" && [ ! -e none.doze ] && EDITOR="touch ran" run 1 doze edit ./none.doze:/x && has err "open ./none.doze: No such file" && [ ! -e ran ] && run 2 doze files --image base web && has err "are for a FILE"
'
test_that 'a file that a daemon uses is refused: the message says what to do' '
    run 0 doze exec web -- true && f=$(find data -name "sbx_*.doze" | head -1) && [ -n "$f" ] && run 1 doze files "./$f:/" && has err "a daemon or another command uses it" && run 1 doze files "./$f:/" --base "$DOZE_BASE" && has err "a daemon or another command uses it" && has err "doze ls"
'
stop
test_done
