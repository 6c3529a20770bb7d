# Pipelines and redirections.
printf 'b\na\nc\n' | sort | tr a-z A-Z | head -n 2
echo one >f; echo two >>f; cat <f; wc -l <f
echo err 2>&1 >&2 2>/dev/null | cat
ls missing 2>/dev/null || echo no
{ echo out; echo err >&2; } 2>e | sed s/^/:/; cat e
exec 3>g; echo three >&3; exec 3>&-; cat g
echo x >&3 2>/dev/null || echo closed
exec 4<f; read a <&4; read b <&4; echo "$b $a"; exec 4<&-
seq 1 100000 | tail -n 1
yes | head -n 3 | wc -l
(exit 3) | true; echo $?
! true; echo $?
set -o pipefail; (exit 3) | true; echo $?; set +o pipefail
cat <<E | tr a b | { read x; echo "[$x]"; }
aaa
E
echo a | tee t1 t2 | cat - t1 t2 2>/dev/null | wc -c
: >empty; [ -s empty ] || echo empty; set -C; echo no 2>/dev/null >f || echo kept; echo yes >|f; cat f
dd if=/dev/zero bs=1k count=300 2>/dev/null | gzip | gunzip | wc -c
for i in 1 2 3; do echo $i; done | while read x; do echo "<$x>"; done >loop; cat loop
echo in | (cat; echo more) | sed 's/^/./' >&1
