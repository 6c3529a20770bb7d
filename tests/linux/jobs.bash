# Jobs without a terminal: background, wait -n, process groups, many children at once.
(sleep 0.2; exit 3) & a=$!
(sleep 0.1; exit 4) & b=$!
wait -n; echo "first: $?"
wait $a; echo "second: $?"
wait $b; echo "again: $?"
wait 99999 2>/dev/null; echo "none: $?"
for i in $(seq 1 50); do (exit $((i % 7))) & p[i]=$!; done
s=0; for i in $(seq 1 50); do wait "${p[i]}"; s=$((s + $?)); done; echo "statuses: $s"
set -m
sleep 100 | sleep 100 & a=$!
sleep 100 & b=$!
jobs | sed 's/  */ /g'
kill %1 $b; wait $a 2>/dev/null; echo "killed: $?"; wait $b; echo "killed: $?"
(sleep 100 & sleep 100 & echo started; wait) >began & g=$!
until [ -s began ]; do sleep 0.05; done
ps -e -o pgid= | grep -c "^ *$g\$"
kill -TERM -- -$g; wait $g 2>/dev/null; echo "group: $?"
set +m
nohup sh -c 'echo nohup' 2>/dev/null
setsid sh -c 'test $(ps -o sid= -p $$) -eq $$ && echo leader'
was=$(nice); nice -n 5 sh -c "echo nice \$((\$(nice) - $was))"
exec 9>lock; flock 9; (flock -n 9 || echo locked) 9>lock; flock -u 9
(flock -n 9 && echo free) 9>lock
fork() { if [ "$1" -gt 0 ]; then (fork $(($1 - 1))); else echo deep; fi; }; fork 20
x=$(for i in $(seq 1 20); do (echo $i & wait); done | paste -sd+ | bc 2>/dev/null || echo no bc); echo "$x" | tail -n 1 | grep -c .
ps -o comm= -p $$
