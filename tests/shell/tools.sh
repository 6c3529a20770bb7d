# What is usually done with files.
mkdir -p t/a/b t/c; echo alpha >t/a/one.txt; echo beta >t/a/b/two.txt; echo alpha >t/c/three.log; ln -s a t/link
find t -type f | sort; find t -name '*.txt' -exec cat {} \; | sort; find t -type l; find t -newer t/a -o -size -1 | head -n 1 | wc -l
find t -type f | xargs cat | sort | uniq -c | sort -rn | sed 's/^ *//'
find t -type f -print0 | xargs -0 -n 1 basename | sort
tar cf t.tar t && mkdir x && tar xf t.tar -C x && diff -r t x/t && echo same; tar tf t.tar | wc -l
tar czf t.tgz t && tar tzf t.tgz | sort | head -n 2; tar cjf t.tbz t 2>/dev/null && tar tjf t.tbz | wc -l
seq 1 20000 >n; gzip -k n; zcat n.gz | cmp - n && echo gzip; bzip2 -k n; bunzip2 -c n.bz2 | cmp - n && echo bzip2; ls n* | tr '\n' ' '; echo
sed -i 's/alpha/ALPHA/; $a\
last' t/a/one.txt; cat t/a/one.txt; sed -n '2,4p;6q' n; sed 's/\(.\)\(.\)/\2\1/g' <<E
abcd
E
awk '{ s += $1 } END { print s, NR }' n; awk -F: -v u=root '$1 == u { print $3, toupper($1) }' /etc/passwd
awk 'BEGIN { while (i++ < 3) a[i] = i * i; for (k = 1; k <= 3; k++) printf "%d ", a[k]; print length("xyz"), substr("hello", 2, 3), index("abc", "c"); "echo piped" | getline x; print x }'
awk '{ n[$1 % 3]++ } END { for (i = 0; i < 3; i++) print i, n[i] }' n
sort -rn n | head -n 2; sort -t, -k2,2n -k1,1 <<E
b,2
a,10
c,2
E
cut -d: -f1,3 /etc/passwd | head -n 1; paste -d- n n | head -n 1; tr -d '\n' <n | wc -c; head -c 5 n | od -An -c
grep -c 9 n; grep -n '^1.*9$' n | head -n 2; grep -rl ALPHA t; echo aXb | grep -o '[A-Z]'; grep -E '^(1|2)0+$' n | wc -l
diff n <(true) >/dev/null 2>&1; printf 'a\nb\n' >l; printf 'a\nc\n' >m; diff l m; diff -u l m | tail -n +4 >p; cp l q; diff -u l m | sed 's/^--- l/--- q/; s/^+++ m/+++ q/' >pp; patch q <pp; cat q
md5sum l; sha256sum l | cut -c1-16; cksum l; wc l; nl l; rev l; tac l; fold -w 1 l | wc -l; expand l; comm l m
cp -a t y; diff -r t y && echo copied; mv y z; rm -r z; [ -e z ] || echo gone; ln l hard; stat -c %h l; touch -d '2020-01-02 03:04:05' l; stat -c %Y l; date -u -d @86400 +%F
dd if=n of=part bs=10 skip=1 count=2 2>/dev/null; cat part; truncate -s 5 part; wc -c <part; du -a t | wc -l
expr 3 + 4 \* 2; expr abc : 'a\(.\)'; echo '2^64' | bc; echo '5 3 * p' | dc; seq -s, 5; printf 'x%.0s' 1 2 3; echo
xxd -p l; hexdump -C l | head -n 1; base64 l; echo aGk= | base64 -d; echo; uuencode l l | head -n 1; factor 360; shuf -n 0 l
cpio -o -H newc <<E 2>/dev/null | cpio -t 2>/dev/null
l
m
E
split -l 5000 n part.; ls part.* | wc -l; cat part.?? | cmp - n && echo joined; readlink t/link; realpath t/../t/a | sed 's,.*/t,t,'; mktemp -d /tmp/x.XXXXXX | wc -c; id -u; basename /a/b.c .c; dirname /a/b.c
