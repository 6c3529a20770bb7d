# Pipelines, redirections, substitutions, here documents, subshells and their statuses.
set -o pipefail
seq 1 2000 | awk '{ s += $1 } END { print s }'
seq 1 200000 | head -n 3; echo "head: ${PIPESTATUS[*]}"
yes | head -c 1000000 | wc -c; echo "yes: ${PIPESTATUS[*]}"
false | true; echo "pipefail: $?"
(exit 7) | cat; echo "status: $? ${PIPESTATUS[*]}"
diff <(seq 1 5) <(seq 2 6); echo "diff: $?"
tee >(wc -l >lines) >(wc -c >bytes) < <(seq 1 1000) >/dev/null
for i in 1 2 3 4 5 6 7 8 9; do [ -s lines ] && [ -s bytes ] && break; sleep 0.1; done
cat lines bytes
cat <<END | tr a-z A-Z
here $((6 * 7)) $(echo inner; echo two)
END
cat <<<"a here string"
exec 3>three 4<&0
echo to three >&3
echo again >&3
exec 3>&-
cat three
echo closed 2>&1 >&3 | sed 's/.*: //'
{ echo out; echo err >&2; } 2>&1 >/dev/null
{ echo out; echo err >&2; } >both 2>&1; sort both
ls /does/not/exist 2>/dev/null; echo "ls: $?"
/does/not/exist 2>/dev/null; echo "absent: $?"
: >plain; ./plain 2>/dev/null; echo "not executable: $?"
printf '#!/bin/sh\necho script "$0" "$@"\n' >script; chmod +x script; ./script a 'b c' ''
printf 'echo without a first line\n' >bare; chmod +x bare; ./bare
mkfifo fifo; (sleep 0.1; echo through a fifo >fifo) & cat fifo; wait
coproc up { while read -r x; do echo "up: $x"; done; }
echo one >&"${up[1]}"; read -r x <&"${up[0]}"; echo "$x"
eval "exec ${up[1]}>&-"; wait "$up_PID"; echo "coproc: $?"
find . -name 'thr*' -print0 | LC_ALL=C sort -z | xargs -0 -n 1 basename
seq 1 40 | xargs -n 7 -P 4 sh -c 'echo $#' sh | sort | uniq -c | sed 's/^ *//'
ulimit -n 64; (ulimit -n); umask 027; umask; mkdir made; stat -c '%A %n' made
dd if=/dev/zero bs=64k count=16 2>/dev/null | md5sum
sort -R /etc/passwd | sort | cmp - <(sort /etc/passwd) && echo sorted
timeout 0.2 sleep 10; echo "timeout: $?"
time -p true 2>/dev/null
kill -l 15
exit 5
