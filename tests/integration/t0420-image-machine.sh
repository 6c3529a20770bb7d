#!/bin/bash
# doze image snapshot: images that hold a sleeping machine, and what goes on from them.
. "$(dirname "$0")/lib.sh"
export DOZE_DATA=$PWD/data
base=$LIB_ROOT/build/base/base.doze
[ -e "$base" ] || export no_base=1

printf '[image]\nname = sh:1\nfrom = %s\nentry = /bin/sh\n' "$base" >r.ini
# 400 KB of memory that only a run of it has, and a number that says how far it is
export script='v=$(seq 1 60000); n=0; echo ready; while read x; do n=$((n+1)); echo "$n $x ${#v}"; [ "$x" = more ] && v=${v}x$v; done; echo end'

until_has() { for _ in $(seq 1 3000); do grep -qF -e "$2" "$1" && return; sleep 0.02; done; return 1; }
# asleep FILE ARG...: `doze run --keep` of the script, until it is ready, and to sleep
asleep() {
    local file=$1
    shift
    rm -f in-pipe && mkfifo in-pipe
    doze run -i --keep -f "$file" "$@" <in-pipe >"$file.out" 2>"$file.err" &
    pid=$!
    exec 9>in-pipe
    [ -z "${say:-}" ] || echo "$say" >&9
    until_has "$file.out" "${say:-ready}" && kill -TERM $pid
    status=0
    wait $pid || status=$?
    exec 9>&-
    [ $status -eq 75 ]
}
sha256_of() { doze image inspect --json "$1" | grep -o '"sha256":"[0-9a-f]*"' | head -n 1 | cut -d'"' -f4; }
memory_file() { echo "data/images/memory/$(sha256_of "$1")"; }
image_file() { echo "data/images/files/$(sha256_of "$1").doze"; }
need() { [ -z "${no_base:-}" ] || skip 'the base is not built: make base'; }

test_that 'a sandbox becomes an image, and every run of that goes on from there' '
    need && run 0 doze image build -q r.ini && asleep a.doze -I sh:1 -- sh -c "$script" && cp a.doze before &&
    run 0 doze image snapshot a.doze -t warm && grep -qx "img_[0-9a-f]*" out && has err DEPLOYING && cmp a.doze before &&
    run 0 doze image inspect warm && has out "asleep" && run 0 doze image verify warm &&
    echo one >in && run 0 doze run -i -I warm <in && has out "1 one 348893" && lacks out ready && has out end &&
    printf "two\nthree\n" >in && run 0 doze run -i -I warm <in && has out "1 two" && has out "2 three"
'
test_that 'its file holds what differs, in any number of sleeps' '
    need && say=one asleep b.doze -I warm && { stat -c %s b.doze before; [ "$(stat -c %s b.doze)" -lt "$(stat -c %s before)" ]; } &&
    run 0 doze disk check --image "$(image_file warm)" b.doze &&
    cp b.doze b2.doze && printf "more\nlast\n" >in && run 0 doze resume -i b.doze <in &&
    has out "2 more 348893" && has out "3 last 697787" &&
    run 75 doze resume --suspend-after 30ms b2.doze && run 75 doze resume --suspend-after 30ms b2.doze &&
    echo x >in && run 0 doze resume -i b2.doze <in && has out "2 x 348893"
'
test_that 'without what was prepared it is slower, not different' '
    need && m=$(memory_file warm) && [ -s "$m" ] && cp "$m" kept && rm -f "$m" &&
    echo one >in && run 0 doze run -i -I warm <in && has out "1 one 348893" &&
    run 1 doze image verify warm && has out "memory of the image" &&
    run 0 doze image verify --repair warm && cmp "$m" kept &&
    chmod 644 "$m" && printf dozebaseXXXX | dd of="$m" conv=notrunc status=none &&
    run 0 doze run -i -I warm <in && has out "1 one 348893" &&
    run 0 doze image verify --repair warm && cmp "$m" kept && chmod 644 "$m" &&
    printf "\377\377" | dd of="$m" bs=1 seek=77 conv=notrunc status=none &&
    run 125 doze run -i -I warm <in && has err "lies outside it" &&
    run 0 doze image verify --repair warm && cmp "$m" kept
'
test_that 'an image of a sandbox that stands on one' '
    need && say=more asleep c.doze -I warm && run 0 doze image snapshot --json c.doze -t warm:2 &&
    has out "\"machine_bytes\":" && run 0 doze image verify warm:2 &&
    echo one >in && run 0 doze run -i -I warm:2 <in && has out "2 one 697787" &&
    run 0 doze image rm warm:2 && [ "$(find data/images/memory -type f | wc -l)" -eq 1 ] &&
    run 0 doze snapshot --flat --image "$(image_file warm)" c.doze flat.doze &&
    run 0 doze run -i -I warm <in && has out "1 one 348893" &&
    run 0 doze resume -i --base flat.doze --new new.doze <in && has out "2 one 697787"
'
test_that 'a COMMAND starts that instead, over the same files' '
    need && run 0 doze run -I warm -- echo hello && has out hello && run 3 doze run -I warm -f d.doze -- sh -c "exit 3" &&
    run 2 doze run -I warm -e A=b && has err "--env requires a COMMAND" &&
    run 125 doze resume d.doze && has err "no machine sleeps"
'
test_that 'what is built from it does not go on' '
    need && printf "[image]\nname = cold\nfrom = warm\n[file /x]\ntext = x\n" >cold.ini && run 0 doze image build -q cold.ini &&
    run 0 doze image inspect --json cold && has out "\"machine_bytes\":0" && echo "echo hi" >in && run 0 doze run -i -I cold <in && has out hi
'
test_that 'what cannot be one says why' '
    need && run 2 doze image snapshot a.doze && has err "-t NAME" && run 1 doze image snapshot nothing.doze -t x &&
    run 0 doze run -I sh:1 -f f.doze -- true && run 0 doze image snapshot -q --allow-empty f.doze -t files:1 &&
    run 0 doze image inspect --json files:1 && has out "\"machine_bytes\":0" && run 0 doze run -I files:1 -- true &&
    sqlite3 a.doze "UPDATE meta SET v=1 WHERE k='"'"'machine_live'"'"'" &&
    run 1 doze image snapshot a.doze -t y && has err memory_lost && run 1 doze image inspect y
'

test_that 'what it forks stands on the image, too, and goes on' '
    need && printf "[image]\nname = fork:1\nfrom = %s\nentry = /bin/sh\n" "$base" >fork.ini && run 0 doze image build -q fork.ini &&
    script="v=\$(seq 1 60000); echo ready; while read x; do case \$x in fork) { while :; do
        read y <p && [ \$y = tell ] && echo child \${#v} && break; done; } & echo forked;; tell) echo tell >p; wait; echo parent \${#v};; esac; done" &&
    asleep g.doze -I fork:1 -- sh -c "mkfifo /workspace/p; cd /workspace; $script" && run 0 doze image snapshot -q g.doze -t forks &&
    say=fork asleep h.doze -I forks && { stat -c %s g.doze h.doze; [ "$(stat -c %s h.doze)" -lt 250000 ]; } &&
    cp h.doze i.doze && echo tell >in && run 0 doze resume -i h.doze <in && has out "child 348893" && has out "parent 348893" &&
    run 75 doze resume --suspend-after 30ms i.doze && run 75 doze resume --suspend-after 30ms i.doze &&
    [ "$(stat -c %s i.doze)" -lt 250000 ] && run 0 doze image snapshot -q i.doze -t forks:2 && run 0 doze image verify forks:2 &&
    run 0 doze run -i -I forks:2 <in && has out "child 348893" && has out "parent 348893"
'

test_that 'an image of more programs than a cell is handed has its memory at hand all the same' '
    need && mkdir many && for i in $(seq 10 79); do printf "\\0asm\\1\\0\\0\\0\\0\\4\\2n$i" >many/p$i; done &&
    printf "[image]\nname = many:1\nfrom = %s\n[tree /lib/many]\nsource = many\n" "$base" >many.ini && run 0 doze image build -q many.ini &&
    run 0 doze image inspect --json many:1 && [ "$(cat many/* | wc -c)" -eq 980 ] && [ "$(grep -o "/lib/many/" out | wc -l)" -eq 70 ] &&
    asleep j.doze -I many:1 -- sh -c "$script" && run 0 doze image snapshot -q j.doze -t many:2 && run 0 doze image verify many:2 &&
    echo one >in && run 0 doze run -i -I many:2 <in && has out "1 one 348893" && m=$(memory_file many:2) && chmod 644 "$m" &&
    printf "\377\377" | dd of="$m" bs=1 seek=77 conv=notrunc status=none && run 125 doze run -i -I many:2 <in && has err "lies outside it"
'

test_done
