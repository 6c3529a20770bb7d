# Background jobs, wait, signals, traps, FIFOs.
sleep 0.05 & p=$!
(exit 7) & wait $!; echo $?
wait $p; echo $?
wait; echo done
sleep 100 & kill $!; wait $! 2>/dev/null; echo $?
sh -c 'kill -9 $$' 2>/dev/null; echo $?
for i in 1 2 3 4 5 6; do (sleep 0.$i; echo $i) & done; wait
mkfifo p; (for i in 1 2 3; do echo $i; done >p) & while read x; do echo got $x; done <p
trap 'echo usr' USR1; kill -USR1 $$; echo after
(trap 'echo int; exit 3' INT; sh -c 'kill -INT $PPID'; echo no); echo $?
trap '' TERM; kill $$; echo ignored; trap - TERM
(trap 'echo term; exit 1' TERM; kill -TERM $(sh -c 'echo $PPID'); echo no); echo $?
timeout 0.1 sleep 10; echo $?
timeout -s KILL 0.1 sleep 10 2>/dev/null; echo $?
seq 1 6 | xargs -P 3 -n 2 echo | sort
(sleep 0.1; echo late) | cat
x=$(sleep 0.05 & echo started); echo $x
sh -c 'trap "echo bye" EXIT; exit 5'; echo $?
(cat <p >out) & echo through >p; wait; cat out
sh -c 'sleep 0.1; echo orphan >o' & disowned=$!; wait $disowned; cat o
kill -0 $$ && echo alive; kill -0 999999 2>/dev/null || echo none
kill -l 15; trap 'echo hup' HUP; trap | grep -c hup
nice -n 5 sh -c 'nice'; (ulimit -n 50; ulimit -n); umask 027; touch m; stat -c %a m
while :; do :; done & b=$!; sleep 0.05; kill $b; wait $b 2>/dev/null; echo $?
echo a | { read x; (echo b; kill -STOP $(sh -c 'echo $PPID'); echo c) & sleep 0.1; kill -CONT $!; wait; }
