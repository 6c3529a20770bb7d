# Files: links, times, modes, sparse files, archives, sorting, large directories, names.
set -e
echo text >a
ln a hard; ln -s a soft; ln -s missing dangling
stat -c '%n %h %F %s' a hard soft dangling
readlink soft dangling; readlink -f soft | sed 's,.*/,,'
touch -d '2001-02-03 04:05:06.789 UTC' a; stat -c '%Y %y' a | sed 's/ .*//'
chmod 4755 a; stat -c %A a; chmod u-s,g+w,o= a; stat -c %A a
cp -p a copy; [ copy -nt hard ] || [ copy -ot hard ] || echo same time
truncate -s 10M sparse; stat -c %s sparse; echo end >>sparse; tail -c 4 sparse
dd if=sparse of=part bs=1k skip=10239 count=2 2>/dev/null; wc -c <part
mkdir many; (cd many && seq -f 'name-%05g' 1 3000 | xargs touch); ls many | wc -l; ls many | tail -n 1
find many -name '*99' | wc -l; rm -r many; [ ! -e many ] && echo gone
mkdir -p 'with space/und so/ü'; touch "with space/und so/ü/'quote' \"double\""; find 'with space' | LC_ALL=C sort
rmdir 'with space' 2>&1 | sed 's/.*: //' || true
mkdir -p t/a/b; for i in $(seq 1 30); do seq $i 99 >t/a/b/$i; ln t/a/b/$i t/a/l$i; done; ln -s b t/a/s
tar cf t.tar --sort=name --owner=0 --group=0 --mtime=@0 t; tar tvf t.tar | awk '{ print $1, $3, $6, $7, $8, $9 }' | head -n 5
for z in gz bz2 xz; do tar caf t.tar.$z t && mkdir $z && tar xf t.tar.$z -C $z && diff -r t $z/t && echo $z; done
sort -t: -k3 -n /etc/passwd | cut -d: -f1,3 | head -n 5
seq 1 100000 | sort -R --random-source=/dev/zero | sort -n | tail -n 1
seq 1 300000 | split -l 100000 - piece.; wc -l piece.* | sed 's/^ *//'
cat piece.* | sha256sum
cmp t.tar t.tar && diff <(seq 1 9) <(seq 1 10) || true
install -m 640 a installed; stat -c %A installed
mv installed t/a/; [ -e t/a/installed ] && echo moved
cp -r t u; diff -r t u && echo copied; cp --sparse=always sparse sparse2; cmp sparse sparse2 && echo equal
mktemp -d ./tmp.XXXX | wc -c
echo old >x; echo new >y; mv -f y x; cat x
: >log; for i in 1 2 3; do (echo "line of $i" >>log) & done; wait; sort log
cd t && pwd -P | sed 's,.*/,,'; cd ..; du -s --apparent-size t | cut -f1 >/dev/null
getfacl a 2>/dev/null | wc -l
test -c /dev/null && test -r /dev/urandom && head -c 8 /dev/urandom | wc -c
