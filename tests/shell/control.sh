# Loops, functions, here-documents, substitution.
f() { local x=$1; [ $x -le 1 ] && echo 1 && return; echo $((x * $(f $((x - 1))))); }
f 7
for i in 1 2 3 4; do [ $i = 2 ] && continue; [ $i = 4 ] && break; echo $i; done
for i in 1 2; do for j in 1 2; do [ $j = 2 ] && continue 2; echo $i$j; done; done
n=0; while :; do n=$((n + 1)); [ $n -ge 5 ] && break; done; echo $n
until [ $n -le 2 ]; do n=$((n - 1)); done; echo $n
while read a b; do echo "$b-$a"; done <<E
x y z
1 2
E
v=7
cat <<E; cat <<'E'; cat <<-E
$v $(echo sub) $((v + 1)) \$v "quoted"
E
$v $(echo no)
E
	tab $v
		two
	E
a=$(cd /tmp; pwd; exit 3); echo $a $?
(x=1; cd /; exec true); echo ${x-unset}
echo "$(seq 1 5000 | while read n; do echo $n; done | tail -n 1)"
g() { return 5; }; g; echo $?
h() { echo "$#:$1:$2"; shift; echo $1; }; h 'a b' c
if false; then echo no; elif true; then echo elif; else echo no; fi
[ a = a -a b != c ] && [ 1 -lt 2 ] && test ! -e none && echo tests
[[ abc = a* ]] && echo double
{ echo group; } ; ( echo sub ); eval 'echo "ev$((1+1))"'
. /dev/stdin <<'E'
sourced=yes
E
echo $sourced
command -v f; command -v cd; type true | sed 's/.* is/true is/'
alias ll='echo aliased'; eval ll
s=; for i in $(seq 1 300); do s="$s$i,"; done; echo ${#s}
i=0; while [ $i -lt 2000 ]; do i=$((i+1)); done; echo $i
sh -c 'trap "echo at exit \$?" EXIT; (exit 4)'; echo $?
