#!/bin/bash
# Files of the image's pack as Linux programs have them: mapped, read, changed and removed.
. "$(dirname "$0")/lib.sh"
. "$LIB_ROOT/tests/integration/linux.sh"
export LIBC=/usr/lib/x86_64-linux-gnu/libc.so.6
# only in the sandbox: what changes a file of the system
changed() { [ -z "$LINUX_SKIP" ] || skip "$LINUX_SKIP"; run 0 in_sandbox "$@"; }

test_that 'a library that is mapped: its bytes, the page of its end, SIGBUS behind it, /proc/PID/maps' '
    same /usr/bin/python3 pack.py $LIBC && has out SIGBUS && ! grep -q False out && same /usr/bin/python3 pack.py /usr/bin/bash
'
test_that 'a file that is written to: mapped before and afterwards, by another name, cut, grown, replaced' '
    changed /usr/bin/python3 -c "
import mmap, os, time
path = \"$LIBC\"
was = open(path, \"rb\").read()
os.link(path, \"/tmp/other\")
private = mmap.mmap(os.open(path, os.O_RDONLY), 0, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ)
f = open(\"/tmp/other\", \"r+b\")
f.seek(100000); f.write(b\"CHANGED\"); f.flush()
now = was[:100000] + b\"CHANGED\" + was[100007:]
again = mmap.mmap(os.open(path, os.O_RDONLY), 0, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ)
print(\"read\", open(path, \"rb\").read() == now, \"mapped\", again[:] == now, \"before\", private[:100000] == was[:100000])
shared = mmap.mmap(f.fileno(), 0)
shared[7:9] = b\"xy\"
print(\"shared\", open(path, \"rb\").read()[:10] == was[:7] + b\"xy\" + was[9:10])
shared.close()
f.truncate(5000)
print(\"cut\", os.stat(path).st_size, len(mmap.mmap(os.open(path, os.O_RDONLY), 0, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ)[:]))
f.truncate(200000)
grown = open(path, \"rb\").read()
mmap.mmap(-1, 4096).close(); time.sleep(0.3); mmap.mmap(-1, 4096).close() # the shared file is no longer in memory
print(\"kept\", open(path, \"rb\").read(10) == was[:7] + b\"xy\" + was[9:10])
print(\"grown\", grown[5000:] == bytes(195000), mmap.mmap(os.open(path, os.O_RDONLY), 0, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ)[4999:5001] == grown[4999:5001])
open(\"/tmp/new\", \"wb\").write(was); os.rename(\"/tmp/new\", path)
print(\"replaced\", open(path, \"rb\").read() == was, open(\"/tmp/other\", \"rb\").read() == grown)
" && printf "%s\n" "read True mapped True before True" "shared True" "cut 5000 5000" "kept True" "grown True True" "replaced True True" | cmp - out
'
test_that 'a program runs on after its file is removed, and with another mode and owner' '
    changed /bin/bash -c "chmod 700 /usr/bin/perl && chown 5:6 /usr/bin/perl && /usr/bin/perl -e \"print qq(up\\n)\" &&
        rm /usr/bin/python3.11 && ls /usr/bin/python3.11; /usr/bin/perl -e \"unlink q(/usr/bin/perl) or die; require POSIX; print qq(on\\n)\"; rm /bin/bash && echo end" &&
    printf "%s\n" up on end | cmp - out && has err "No such file"
'
test_that 'sandboxes of the image do not see each others changes' '
    changed /bin/bash -c "echo x >>$LIBC.copy; printf XXXX | dd of=/usr/bin/git bs=1 conv=notrunc 2>/dev/null; head -c 4 /usr/bin/git" && has out XXXX &&
    same head -c 4 /usr/bin/git && same git --version
'

test_done
