# Signals that a shell handles: traps, what children inherit, how ends are told.
trap 'echo usr1' USR1
trap 'echo at exit $?' EXIT
trap 'echo err at status $?' ERR
false
trap - ERR
kill -USR1 $$
(kill -USR1 $BASHPID; echo not here) ; echo "subshell: $?"
trap '' TERM
sh -c 'kill -TERM $$; echo survives'
trap - TERM
sh -c 'kill -TERM $$; echo not here'; echo "term: $?"
sh -c 'kill -KILL $$'; echo "kill: $?"
sh -c 'kill -SEGV $$' 2>/dev/null; echo "segv: $?"
sh -c 'kill -ABRT $$' 2>/dev/null; echo "abrt: $?"
sh -c 'echo began; exec sleep 100' >began & p=$!
until [ -s began ]; do sleep 0.05; done
rm began
kill -STOP $p; sleep 0.1; ps -o stat= -p $p | cut -c1
kill -CONT $p; sleep 0.1; ps -o stat= -p $p | cut -c1
kill $p; wait $p; echo "slept: $?"
trap 'echo int; exit 3' INT
(trap 'echo child int; exit 4' INT; kill -INT $BASHPID; sleep 5); echo "child: $?"
n=0
trap 'n=$((n + 1))' USR2
for i in 1 2 3 4 5; do kill -USR2 $$; done
echo "handled: $n"
trap 'echo alarm' ALRM
(sleep 0.1; kill -ALRM $$) & sleep 1 & wait $!; echo "wait: $?"
wait
trap 'echo child ended' CHLD
true & wait $!
trap - CHLD
seq 1 1000000 | (trap '' PIPE; head -n 1 >/dev/null); echo "pipe: ${PIPESTATUS[0]}"
set -m
sh -c 'echo began; exec sleep 100' >began & p=$!
until [ -s began ]; do sleep 0.05; done
kill -TSTP $p; wait $p; echo "stopped: $?"; jobs -s | sed 's/  */ /g; s/^.[0-9]*.//'
kill -CONT $p; kill -TERM $p
s=148; while [ $s = 148 ]; do wait $p; s=$?; done; echo "job: $s"
set +m
sh -c 'trap "echo bye" EXIT; exit 9'; echo "exit: $?"
bash -c 'trap "echo term; exit 6" TERM; kill $$; sleep 5'; echo "bash: $?"
kill -INT $$
echo not here
