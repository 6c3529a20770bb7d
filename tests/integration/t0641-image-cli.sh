#!/bin/bash
# doze image: the cause of a failed build in the terminal. Needs no network and no compiler.
. "$(dirname "$0")/lib.sh"
with_base
export DOZE_DATA=$PWD/data
mkdir empty && doze image build -q --from "$DOZE_BASE" --from-dir empty -t base >/dev/null || { echo "Bail out! no image"; exit 1; }

# A compiler that finds an error: 60 lines before it, 60 behind it.
mkdir -p guest/lib && : >guest/lib/crt1.o && : >guest/lib/libposix.o && cat >guest/doze-cc <<'C'
#!/bin/sh
for i in $(seq 60); do echo "compiling part $i"; done
printf 'hello.c:2:5: error: use of undeclared identifier \033[1mfoo\n    foo();\n    ^\n'
for i in $(seq 60); do echo "note $i"; done
echo '1 error generated.'
exit 1
C
chmod +x guest/doze-cc && echo 'int main(void) { foo(); }' >hello.c
printf '[image]\nname = bad\nfrom = base\n[c /usr/bin/hello]\nsource = hello.c\n' >compile
test_that 'a compile error is shown: from its first line on, not what was before, and escaped' '
    run 1 doze image build -q --guest guest compile && has err "  hello.c:2:5: error: use of undeclared identifier \\x1b[1mfoo" && has err "  foo();" &&
    lacks err "compiling part" && has err "doze-cc failed: hello.c:2:5: error:" && has err "the log has more" && [ "$(wc -l <err)" -lt 50 ] &&
    lacks err "$(printf "\\033")"
'
test_that 'a tool that speaks of no error: all that it printed, its last line in the sentence' '
    printf "#!/bin/sh\\necho one\\necho two\\nexit 3\\n" >guest/doze-cc && run 1 doze image build -t bad --guest guest compile &&
    has err "  one" && has err "  two" && has err "doze-cc failed: two" && has err "the log is"
'
test_that 'a hash mismatch says what was expected and what came' '
    tar cf a.tar hello.c && zero=$(printf %064d 0) && printf "[image]\\nname = bad\\n[tar /z]\\nsource = a.tar\\nsha256 = %s\\n" "$zero" >hash &&
    run 1 doze image build hash && has err "hash mismatch: expected SHA-256 $zero, got $(sha256sum a.tar | cut -c1-64)"
'

test_that 'an exported image carries its names; --tag gives another one; the bytes are the same' '
    printf "[image]\nname = two\nfrom = base\n[file /f]\ntext = x\n" >two && run 0 doze image build -q two && printf "[image]\nname = two:1\nfrom = base\n[file /f]\ntext = x\n" >two.1 &&
    run 0 doze image build -q two.1 && id=$(cat out) && run 0 doze image export two two.doze && tail -c 24 two.doze | grep -aq "doze image names" &&
    run 0 doze disk cat two.doze /f && has out x && [ "$(sqlite3 two.doze "pragma integrity_check")" = ok ] &&
    export DOZE_DATA=$PWD/other && run 0 doze image import two.doze && [ "$(cat out)" = "$id" ] && run 0 doze image ls && has out "two:1 two:latest" && run 0 doze image verify &&
    run 0 doze image export two:1 again.doze && cmp two.doze again.doze && run 0 doze image rm "$id" && run 0 doze image import two.doze -t third && run 0 doze image ls && has out third:latest && lacks out two
'
test_that 'a name of another image stays with it; damaged names are refused; a pipe will do' '
    DOZE_DATA=$PWD/third && run 0 doze image build -q --from-dir empty -t two && run 0 doze image import two.doze && has err "other images here keep" && has err two:latest && lacks err two:1 &&
    run 0 doze image inspect two:1 && has out /bin/ && run 0 doze image inspect two && lacks out /bin/ &&
    { head -c -24 two.doze; printf "\377\377\377\377\377\377\377\377doze image names"; } >bad && run 1 doze image import bad && has err "names at its end are damaged" &&
    cat two.doze | DOZE_DATA=$PWD/fourth doze image import -q /dev/stdin >out && DOZE_DATA=$PWD/fourth run 0 doze image ls && has out two:latest
'
test_that 'an image built from an exported file is the one built from the image' '
    run 0 doze image build -q --from two.doze -t a two && cp out a && run 0 doze image build -q --fresh --from two -t b two && cmp out a
'
test_that 'an empty store says how images come' '
    export DOZE_DATA=$PWD/none && run 125 doze run -I base -- true && has err "doze image build" && has err "make images" && run 0 doze image ls && has err "doze image build" && has err "make images" &&
    run 0 doze image ls -q && empty err && run 0 doze image ls --json && has out "\"images\":[]"
'

# A sandbox whose shell sleeps: it was ready, and waits for a line.
warm() { # FILE
    rm -f in-pipe && mkfifo in-pipe && { doze run -i --keep --image base --file "$1" -- sh -c 'echo ready; while read x; do echo "got $x"; done; echo end' <in-pipe >warm.out 2>&1 & } && pid=$! &&
        exec 9>in-pipe && for _ in $(seq 500); do grep -q ready warm.out && break; sleep 0.02; done && kill -TERM "$pid" && { status=0; wait "$pid" || status=$?; } && exec 9>&- && [ "$status" -eq 75 ]
}
test_that 'no warm image of a program that has ended, unless it is asked for' '
    run 0 doze run --image base --file ended.doze -- sh -c "echo done >/workspace/f" && run 1 doze image snapshot ended.doze -t ended &&
    has err "no program is suspended in ended.doze" && has err "--allow-empty" && run 0 doze image ls && lacks out ended && [ -z "$(ls data/images/scratch)" ] &&
    run 0 doze image snapshot --allow-empty ended.doze -t ended && run 0 doze run --image ended -- cat /workspace/f && has out done
'
stop_daemon() {
    local pid
    pid=$(tr -dc 0-9 <data/daemon.lock) && kill "-$1" "$pid" && while kill -0 "$pid" 2>/dev/null; do sleep 0.02; done
}
trap 'stop_daemon KILL 2>/dev/null; rm -rf "$LIB_SCRATCH"' EXIT
test_that 'the program of a warm image is the command main: attach, its input, its logs, its end' '
    warm w.doze && run 0 doze image snapshot w.doze -t warm && run 0 doze create warm --name w && run 0 doze ps w && has out main &&
    printf "one\ntwo\n" >in && run 0 timeout 30 doze attach w main <in && has out "got one" && has out "got two" && has out end &&
    run 0 doze logs w main && has out "got two" && run 0 doze ps w && lacks out running
'
test_that 'main keeps its place over a sleep, takes signals, and is asked for with its sandbox' '
    run 0 doze create warm --name v && { doze attach --no-stdin v main >seen 2>&1 & } && job=$! && run 0 doze suspend v &&
    run 0 curl -sSf --unix-socket data/doze.sock --data-binary "three
" "http://d/v1/sandboxes/v/exec/main/stdin" && for _ in $(seq 500); do grep -q "got three" seen && break; sleep 0.02; done && has seen "got three" &&
    run 0 doze kill v main && { status=0; wait $job || status=$?; } && [ "$status" -eq 143 ] &&
    run 2 doze attach main && has err "doze attach SANDBOX main" && run 2 doze attach v nonsense && has err "exe_... or main" && stop_daemon TERM
'
test_done
