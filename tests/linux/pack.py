# Files that are mapped: past their end, privately, shared, by several names. FILE is one of the
# system's that is larger than 64 KiB and not a whole number of pages.
import ctypes, mmap, os, signal, sys

libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
path, PAGE = sys.argv[1], 4096
size = os.stat(path).st_size
end = (size + PAGE - 1) // PAGE * PAGE
fd = os.open(path, os.O_RDONLY)
whole = open(path, "rb").read()
print("pages and a part:", size > 65536, size % PAGE != 0)


def touched(how, at, write=False, length=end + 4 * PAGE, offset=0):
    """How a child ends that touches one byte of a mapping."""
    pid = os.fork()
    if pid == 0:
        p = libc.mmap(None, length, 1 | 2 * (how == mmap.MAP_PRIVATE), how, fd, offset)
        if p in (None, ctypes.c_void_p(-1).value):
            os._exit(99)
        if write:
            ctypes.memset(p + at, 7, 1)
        os._exit(ctypes.string_at(p + at, 1)[0])
    status = os.waitpid(pid, 0)[1]
    return signal.Signals(os.WTERMSIG(status)).name if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)


for how in mmap.MAP_PRIVATE, mmap.MAP_SHARED:
    print("first", touched(how, 0) == whole[0], "last", touched(how, size - 1) == whole[-1])
    print("rest of the last page", touched(how, end - 1), "past it", touched(how, end), touched(how, end + 3 * PAGE))
    print("all of it past the end", touched(how, 0, length=PAGE, offset=end), touched(how, 0, length=PAGE, offset=end + 64 * PAGE))
    print("from the middle", touched(how, 0, length=end, offset=end - PAGE) == whole[end - PAGE], touched(how, PAGE, length=end, offset=end - PAGE))
print("private writes", touched(mmap.MAP_PRIVATE, 5, True), touched(mmap.MAP_PRIVATE, size - 1, True), touched(mmap.MAP_PRIVATE, end, True))
print("not in the file", open(path, "rb").read() == whole)

# at an address that is given, over what was there, and again in pieces
p = libc.mmap(None, end + 4 * PAGE, 3, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, -1, 0)
MAP_FIXED = 0x10
print("fixed", libc.mmap(p, end + PAGE, 1, mmap.MAP_PRIVATE | MAP_FIXED, fd, 0) == p, ctypes.string_at(p, size) == whole)
print("behind it", ctypes.string_at(p + end + PAGE, 1), libc.munmap(ctypes.c_void_p(p + PAGE), ctypes.c_size_t(PAGE)))
print("around a hole", ctypes.string_at(p, PAGE) == whole[:PAGE], ctypes.string_at(p + 2 * PAGE, PAGE) == whole[2 * PAGE : 3 * PAGE])

# what /proc says of it
for line in open("/proc/self/maps"):
    place, rights, offset, _, inode, *name = line.split(None, 5)
    start, stop = (int(x, 16) for x in place.split("-"))
    if start <= p < stop or start <= p + 2 * PAGE < stop:
        print(rights, offset, int(inode) == os.stat(path).st_ino, name[0].strip() == os.path.realpath(path))
