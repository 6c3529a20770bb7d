# Expansion: parameters, arithmetic, quotes, globs, splitting.
x=abc.tar.gz
echo ${x%.*} ${x%%.*} ${x#*.} ${x##*.} ${#x} ${y:-none} ${x:+set} ${y:=new} $y
echo ${x/a/A} ${x//a/A} ${x:2:3} ${x: -2}
echo $((2**10 % 7 + (3 << 2))) $((0x1f & ~3)) $((1 ? 2 : 3)) $((7 / 2 * 2)) $((010))
i=5; echo $((i++ + ++i)) $i $((i += 3, i * 2))
mkdir d; cd d; touch b.c a.c .h x.h 'sp ace'
echo *.c; echo *.?; echo [!a-w]*; echo *.none; echo .[!.]*; echo *' '*
for f in *; do echo "[$f]"; done
set -- one 'two three' ''; echo $#; echo "$*"; for a in "$@"; do echo "<$a>"; done; shift; echo $1
IFS=:; p=a:b::c; for q in $p; do echo "($q)"; done; echo "$p"; unset IFS
echo "a\$b" 'a$b' "a\\b" a\ b "$(echo "in $(echo deep)")" `echo \`echo old\``
case abc in a?c) echo one ;; *) echo no ;; esac
case x.h in *.c) echo c ;; *.[hx]) echo h ;; esac
case '*' in '*') echo star ;; esac
printf '%s|%5d|%-5s|%05.1f|%x|%c|%b\n' a 42 b 3.14159 255 xyz 'a\tb'
printf '%s\n' ~ ~root | head -n 1 | grep -c /
a=1 b=2; a=$b b=$a; echo $a $b
v='a  b'; echo $v "$v"; set -f; echo *; set +f
readonly r=1; (r=2) 2>/dev/null || echo readonly
export E=val; sh -c 'echo $E'; env -i A=1 sh -c 'echo ${E-none} $A'
unset x; echo ${x-unset} ${x+set}; (: ${x?msg}) 2>&1 | sed 's/.*: //'
getopts ab: o -a -b val; echo $o $OPTIND; echo "$(printf 'a\nb\n\n\n')"
