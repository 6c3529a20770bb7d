/* SPDX-License-Identifier: MIT
 *
 * linux_pages.c - the backing of mappings: files in memory, shared memory, the image's pack.
 *
 *     mmap of a file ── the image's, unchanged ──> the pack: one descriptor for all of them
 *                    ├─ MAP_PRIVATE ───────────> a snapshot: (inode, generation)
 *                    └─ MAP_SHARED ────────────> the shared file: (inode, 0)
 *     MAP_SHARED | MAP_ANONYMOUS ──────────────> an object
 *
 * All but the pack are memory files (memfd) of this process, which has them mapped, too. Their
 * content can always be restored: a snapshot is filled from the disk, a shared file is written back
 * to it, and an object's pages are the machine's (struct dz_mm_back names it).
 *
 * A file is filled by granules, where it is mapped. A snapshot is valid for the file's ctime and
 * size when it was made: a mapping after a change gets a new snapshot, with the next generation.
 * Programs cannot write to it (F_SEAL_FUTURE_WRITE).
 *
 * A shared file also holds the content that read(2) and write(2) use (struct dz_kernel_pages), up
 * to the size on the disk. Changes by programs are found by checksums of chunks, because the host
 * does not report which pages of such a file were written: a chunk whose checksum differs from the
 * disk's is written back. Before output is delivered, only files up to SYNC_BYTES are checked.
 *
 * A walk over all VMAs (sweep) finds files that are no longer mapped. It runs now and then after
 * something was unmapped, and when there is no room. Snapshots are kept for the next program, up to
 * CACHE_BYTES.
 *
 * INVARIANTS
 * 1. A granule that a VMA maps, and that the file has, is filled.
 * 2. files.bytes is the memory of all granules and objects (assert_bytes at the end).
 */
#include "linux/linux_run_int.h"

#include "vfs/vfs.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    GRANULE = 256 << 10,
    CHUNK = DZ_VFS_CHUNK, /* of a shared file: the unit of a checksum */
    FILES_MAX = 2048,
    PACKED_MAX = 4096,
    CACHE_FILES = 128,       /* unmapped snapshots that are kept, at most, */
    CACHE_BYTES = 64 << 20,  /* and their bytes */
    SYNC_BYTES = 8 << 20,    /* largest file that is checked before each output */
    SWEEP_NS = 100 * 1000000 /* between two sweeps */
};
_Static_assert(GRANULE % CHUNK == 0, "granules are whole chunks");

struct linux_file {
    struct linux_file *next; /* of its hash */
    struct dz_mm_back back;  /* kind, id, generation */
    int64_t ctime_ns;        /* of a snapshot */
    uint64_t size;           /* bytes of fd */
    uint64_t mapped_end;     /* nothing above was ever mapped */
    int fd;
    uint32_t number; /* the stub's */
    bool has_number;
    bool mapped;  /* of a sweep */
    bool written; /* programs may have written to it */
    bool alone;   /* a snapshot that the disk no longer has: a saved machine includes it */
    uint64_t used;
    uint64_t bytes; /* in files.bytes */
    uint8_t *map;   /* NULL: size is 0, or an object */
    uint64_t *sums; /* of a shared file, for each chunk */
    uint8_t *filled;
    size_t granules; /* entries of filled */
};

static uint64_t page_up(uint64_t n)
{
    return (n + DZ_MM_PAGE - 1) & ~(uint64_t)(DZ_MM_PAGE - 1);
}
static uint64_t min64(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static struct linux_file **bucket(struct dz_linux *l, const struct dz_mm_back *b)
{
    const uint64_t h =
        (b->id * 31 + b->generation * 7 + (uint64_t)b->kind) * UINT64_C(0x9e3779b97f4a7c15);
    return &l->files.hash[h >> 56];
}
_Static_assert(LINUX_FILES_HASH == 256, "the hash is one byte");

static struct linux_file *file_find(struct dz_linux *l, const struct dz_mm_back *b)
{
    for (struct linux_file *f = *bucket(l, b); f; f = f->next)
        if (f->back.kind == b->kind && f->back.id == b->id && f->back.generation == b->generation)
            return f;
    return NULL;
}
static struct linux_file *shared_find(struct dz_linux *l, uint64_t ino)
{
    const struct dz_mm_back b = {.kind = DZ_MM_FILE, .id = ino};
    return file_find(l, &b);
}

static bool is_shared(const struct linux_file *f)
{
    return f->back.kind == DZ_MM_FILE && f->back.generation == 0;
}

static void file_drop(struct dz_linux *l, struct linux_file *f)
{
    struct linux_file **at = bucket(l, &f->back);
    while (*at != f) {
        assert(*at);
        at = &(*at)->next;
    }
    *at = f->next;
    assert(l->files.count > 0 && l->files.bytes >= f->bytes);
    l->files.count--;
    l->files.bytes -= f->bytes;
    if (f->has_number)
        linux_ops(l)->file_close(l->o.stub, f->number);
    if (f->map)
        (void)munmap(f->map, page_up(f->size));
    if (f->fd >= 0)
        (void)close(f->fd);
    if (f->back.kind == DZ_MM_FILE)
        dz_vfs_unref(l->o.vfs, f->back.id);
    dz_free(f->sums);
    dz_free(f->filled);
    dz_free(f);
}

/* ---- sums --------------------------------------------------------------------------------- */

/* A program that constructs two contents with the same sum loses only its own changes. */
static uint64_t sum_of(const uint8_t *p, uint64_t n)
{
    uint64_t lane[4] = {1, 2, 3, n}, words[4];
    while (n >= sizeof words) {
        memcpy(words, p, sizeof words);
        for (int i = 0; i < 4; i++)
            lane[i] = (lane[i] ^ words[i]) * UINT64_C(0x9e3779b97f4a7c15) + (lane[i] >> 29);
        p += sizeof words;
        n -= sizeof words;
    }
    memset(words, 0, sizeof words);
    memcpy(words, p, n);
    uint64_t sum = n;
    for (int i = 0; i < 4; i++)
        sum = (sum ^ (lane[i] ^ words[i]) * UINT64_C(0xbf58476d1ce4e5b9)) * UINT64_C(31) +
              (sum >> 31);
    return sum;
}

static void sums_take(struct linux_file *f, uint64_t from, uint64_t to)
{
    for (uint64_t at = from / CHUNK * CHUNK; f->sums && at < to; at += CHUNK)
        f->sums[at / CHUNK] = sum_of(f->map + at, min64(CHUNK, f->size - at));
}

/* Write chunks that programs have changed to the disk. */
static int write_back(struct dz_linux *l, struct linux_file *f)
{
    struct dz_vfs_attr a;
    int rc = dz_vfs_getattr(l->o.vfs, f->back.id, &a);
    const uint64_t end = rc == 0 ? min64(f->size, a.size) : 0;
    for (uint64_t at = 0; at < end && rc == 0; at += CHUNK) {
        if (!f->filled[at / GRANULE]) {
            at += GRANULE - CHUNK; /* granules begin at one */
            continue;
        }
        uint64_t n = min64(CHUNK, f->size - at);
        const uint64_t sum = sum_of(f->map + at, n);
        if (sum == f->sums[at / CHUNK])
            continue;
        n = min64(n, end - at);
        for (uint64_t done = 0; done < n && rc == 0;) {
            const ssize_t r =
                dz_vfs_write(l->o.vfs, f->back.id, at + done, f->map + at + done, n - done);
            rc = r > 0 ? 0 : r < 0 ? (int)r : -EIO;
            done += r > 0 ? (uint64_t)r : 0;
        }
        if (rc == 0)
            f->sums[at / CHUNK] = sum;
    }
    return rc;
}

/* ---- room --------------------------------------------------------------------------------- */

static void mark_mapped(struct dz_linux *l)
{
    for (int i = 0; i < LINUX_FILES_HASH; i++)
        for (struct linux_file *f = l->files.hash[i]; f; f = f->next)
            f->mapped = false;
    for (const struct dz_linux_space *s = l->spaces; s; s = s->next)
        for (size_t i = 0; i < s->mm.vmas.n; i++) {
            const struct dz_mm_back *b = &s->mm.vmas.p[i].back;
            struct linux_file *f =
                b->kind == DZ_MM_FILE || b->kind == DZ_MM_OBJECT ? file_find(l, b) : NULL;
            if (f)
                f->mapped = true;
        }
}

/* May this snapshot be kept for the next program? */
static bool is_kept(struct dz_linux *l, const struct linux_file *f)
{
    struct dz_vfs_attr a;
    return f->back.kind == DZ_MM_FILE && f->back.generation > 0 &&
           dz_vfs_getattr(l->o.vfs, f->back.id, &a) == 0 && a.nlink > 0 &&
           a.ctime_ns == f->ctime_ns;
}

static struct linux_file *oldest_unmapped(struct dz_linux *l, uint32_t *ret_count,
                                          uint64_t *ret_bytes)
{
    struct linux_file *found = NULL;
    *ret_count = 0;
    *ret_bytes = 0;
    for (int i = 0; i < LINUX_FILES_HASH; i++)
        for (struct linux_file *f = l->files.hash[i]; f; f = f->next) {
            if (f->mapped)
                continue;
            ++*ret_count;
            *ret_bytes += f->bytes;
            if (!found || f->used < found->used)
                found = f;
        }
    return found;
}

/* Drop unmapped files; some of the snapshots are kept. `but`: is about to be mapped.
 */
static void sweep(struct dz_linux *l, uint32_t keep_files, uint64_t keep_bytes,
                  const struct linux_file *but)
{
    mark_mapped(l);
    for (int i = 0; i < LINUX_FILES_HASH; i++)
        for (struct linux_file *f = l->files.hash[i], *next; f; f = next) {
            next = f->next;
            if (f == but)
                f->mapped = true;
            if (f->mapped || is_kept(l, f))
                continue;
            if (is_shared(f) && write_back(l, f) < 0)
                f->mapped = true; /* the disk is full: try again later */
            else
                file_drop(l, f);
        }
    uint32_t count;
    uint64_t bytes;
    for (struct linux_file *f;
         (f = oldest_unmapped(l, &count, &bytes)) && (count > keep_files || bytes > keep_bytes);)
        file_drop(l, f);
    l->files.loose = false;
}

void dz_linux_sweep(struct dz_linux *l, int64_t now)
{
    if (!l->files.loose || now - l->files.swept < SWEEP_NS)
        return;
    l->files.swept = now;
    sweep(l, CACHE_FILES, CACHE_BYTES, NULL);
}

/* Reserve room for so many bytes of f in total. */
static int charge(struct dz_linux *l, struct linux_file *f, uint64_t bytes)
{
    if (bytes > f->bytes && l->files.bytes - f->bytes + bytes > l->o.file_bytes) {
        sweep(l, 0, 0, f);
        if (l->files.bytes - f->bytes + bytes > l->o.file_bytes)
            return -ENOMEM;
    }
    l->files.bytes = l->files.bytes - f->bytes + bytes;
    f->bytes = bytes;
    return 0;
}

/* The bytes of granule g of f. */
static uint64_t granule_bytes(const struct linux_file *f, uint64_t g)
{
    return min64(GRANULE, page_up(f->size) - g * GRANULE);
}

/* ---- files in memory ------------------------------------------------------------------------ */

static int set_map(struct linux_file *f, uint64_t size)
{
    const uint64_t old = page_up(f->size), new = page_up(size);
    if (ftruncate(f->fd, (off_t)size) < 0)
        return -ENOMEM;
    if (old == new || f->back.kind == DZ_MM_OBJECT)
        return 0;
    void *map = NULL;
    if (new == 0)
        (void)munmap(f->map, old);
    else if (old == 0)
        map = mmap(NULL, new, PROT_READ | PROT_WRITE, MAP_SHARED, f->fd, 0);
    else
        map = mremap(f->map, old, new, MREMAP_MAYMOVE);
    if (map == MAP_FAILED)
        return -ENOMEM;
    f->map = map;
    return 0;
}

/* Make its tables for so many bytes; new granules are not filled. */
static int set_tables(struct linux_file *f, uint64_t size)
{
    const size_t granules = (size_t)((size + GRANULE - 1) / GRANULE);
    if (granules <= f->granules)
        return 0;
    uint8_t *filled = dz_realloc(f->filled, granules);
    if (!filled)
        return -ENOMEM;
    memset(filled + f->granules, 0, granules - f->granules);
    f->filled = filled;
    if (is_shared(f)) {
        uint64_t *sums = dz_realloc(f->sums, granules * (GRANULE / CHUNK) * sizeof *sums);
        if (!sums)
            return -ENOMEM;
        f->sums = sums;
    }
    f->granules = granules;
    return 0;
}

static struct linux_file *file_new(struct dz_linux *l, const struct dz_mm_back *back, uint64_t size)
{
    struct linux_file *f = NULL;
    if (l->files.count >= FILES_MAX)
        sweep(l, FILES_MAX / 2, CACHE_BYTES, NULL);
    if (l->files.count < FILES_MAX)
        f = dz_zalloc(sizeof *f);
    if (!f)
        return NULL;
    f->back = *back;
    f->back.offset = 0;
    for (int again = 0; again < 2; again++) {
        f->fd = memfd_create("doze-pages", MFD_CLOEXEC | MFD_ALLOW_SEALING);
        if (f->fd >= 0)
            break;
        sweep(l, 0, 0, NULL);
    }
    const bool ok = f->fd >= 0 && set_map(f, size) == 0 &&
                    (back->kind == DZ_MM_OBJECT || set_tables(f, size) == 0) &&
                    (back->kind != DZ_MM_FILE || dz_vfs_ref(l->o.vfs, back->id) == 0);
    f->size = size;
    if (!ok) {
        if (f->map)
            (void)munmap(f->map, page_up(size));
        if (f->fd >= 0)
            (void)close(f->fd);
        dz_free(f->sums);
        dz_free(f->filled);
        dz_free(f);
        return NULL;
    }
    if (!is_shared(f) && back->kind == DZ_MM_FILE) /* the mapping here may still write */
        (void)fcntl(f->fd, F_ADD_SEALS,
                    F_SEAL_FUTURE_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
    struct linux_file **at = bucket(l, back);
    f->next = *at;
    *at = f;
    l->files.count++;
    return f;
}

/* Give it to the stubs, which can map it from now on. */
static int give_number(struct dz_linux *l, struct linux_file *f)
{
    f->used = ++l->files.tick;
    if (f->has_number)
        return 0;
    int rc = linux_ops(l)->file(l->o.stub, f->fd, &f->number);
    if (rc == -EMFILE) {
        sweep(l, 0, 0, f);
        rc = linux_ops(l)->file(l->o.stub, f->fd, &f->number);
    }
    f->has_number = rc == 0;
    return rc < 0 ? -ENOMEM : 0;
}

static int fill(struct dz_linux *l, struct linux_file *f, uint64_t from, uint64_t to)
{
    to = min64(to, f->size);
    for (uint64_t g = from / GRANULE; g * GRANULE < to; g++) {
        const uint64_t start = g * GRANULE, end = min64(start + GRANULE, f->size);
        if (f->filled[g])
            continue;
        int rc = charge(l, f, f->bytes + granule_bytes(f, g));
        for (uint64_t at = start; at < end && rc == 0;) {
            const ssize_t r =
                dz_vfs_read(l->o.vfs, f->back.id, at, f->map + at, (size_t)(end - at));
            if (r == 0)
                break; /* shorter than before: zeros */
            rc = r < 0 ? (int)r : 0;
            at += r > 0 ? (uint64_t)r : 0;
        }
        if (rc < 0)
            return rc;
        f->filled[g] = true;
        sums_take(f, start, end);
    }
    return 0;
}

static struct linux_file *snapshot_find(struct dz_linux *l, const struct dz_vfs_attr *a)
{
    /* the hash includes the generation, which is unknown here */
    for (int i = 0; i < LINUX_FILES_HASH; i++)
        for (struct linux_file *f = l->files.hash[i]; f; f = f->next)
            if (f->back.kind == DZ_MM_FILE && f->back.generation > 0 && f->back.id == a->ino &&
                f->ctime_ns == a->ctime_ns && f->size == a->size)
                return f;
    return NULL;
}

static bool give_pack(struct dz_linux *l)
{
    if (!l->files.has_pack)
        l->files.has_pack = linux_ops(l)->file(l->o.stub, l->o.pack.fd, &l->files.pack) >= 0;
    l->files.pack_fd = l->o.pack.fd;
    return l->files.has_pack;
}

void dz_linux_ready(struct dz_linux *l, struct dz_stub *stub, int pack_fd)
{
    struct dz_mm_back vdso;
    assert(!l->o.stub);
    l->o.stub = stub;
    l->o.pack.fd = pack_fd;
    if (pack_fd >= 0)
        (void)give_pack(l);
    (void)dz_linux_back_vdso(l, &vdso); /* what fails here is tried again when it is needed */
    l->o = (struct dz_linux_opts){.stub = NULL};
}

void dz_linux_files_begin(struct dz_linux *l)
{
    if (!l->files.has_pack || l->files.pack_fd == l->o.pack.fd)
        return;
    linux_ops(l)->file_close(l->o.stub, l->files.pack);
    l->files.has_pack = false;
}

static bool in_pack(struct dz_linux *l, const struct linux_back *b, const struct dz_vfs_attr *a,
                    struct dz_mm_back *ret_back)
{
    const struct dz_linux_pack *pack = &l->o.pack;
    uint64_t at;
    if (!pack->find || pack->fd < 0 || (b->shared && b->writable) || shared_find(l, b->ino) ||
        !dz_vfs_pristine(l->o.vfs, b->ino) || !pack->find(pack->arg, b->ino, &at))
        return false;
    if (!give_pack(l))
        return false;
    *ret_back = (struct dz_mm_back){.kind = DZ_MM_PACK, .offset = at + b->offset};
    for (size_t i = 0; i < l->files.packed.n; i++)
        if (l->files.packed.p[i].start == at)
            return true;
    /* names the mapping in /proc/PID/maps and in a saved machine; if this fails, use a snapshot */
    if (dz_vec_push(&l->files.packed, ((struct linux_packed){at, at + page_up(a->size), b->ino})) ==
        0)
        return true;
    l->files.packed.err = 0;
    return false;
}

uint64_t dz_linux_back_ino(const struct dz_linux *l, const struct dz_mm_back *back,
                           uint64_t *ret_offset)
{
    *ret_offset = back->offset;
    if (back->kind == DZ_MM_FILE)
        return back->id;
    for (size_t i = 0; back->kind == DZ_MM_PACK && i < l->files.packed.n; i++) {
        const struct linux_packed *p = &l->files.packed.p[i];
        if (back->offset >= p->start && back->offset < p->end) {
            *ret_offset = back->offset - p->start;
            return p->ino;
        }
    }
    return 0;
}

static uint32_t next_generation(struct dz_linux *l)
{
    if (++l->files.generation == 0) /* that is a shared file's generation */
        l->files.generation = 1;
    return l->files.generation;
}

int dz_linux_back_file(struct dz_linux *l, const struct linux_back *b, struct dz_mm_back *ret_back)
{
    struct dz_vfs_attr a;
    int rc = dz_vfs_getattr(l->o.vfs, b->ino, &a);
    if (rc < 0)
        return rc;
    if (in_pack(l, b, &a, ret_back))
        return 0;
    struct linux_file *f = shared_find(l, b->ino);
    if (!f && !b->shared)
        f = snapshot_find(l, &a);
    if (!f) {
        const struct dz_mm_back back = {
            .kind = DZ_MM_FILE, .id = b->ino, .generation = b->shared ? 0 : next_generation(l)};
        f = file_new(l, &back, a.size);
        if (!f)
            return -ENOMEM;
        f->ctime_ns = a.ctime_ns;
    }
    const uint64_t end = b->offset + b->size; /* mm/ refuses what overflows */
    f->mapped_end = end >= b->offset && end > f->mapped_end ? end : f->mapped_end;
    f->written = f->written || (b->shared && b->writable);
    l->files.shares += b->shared && b->writable;
    rc = fill(l, f, b->offset, end < b->offset ? UINT64_MAX : end);
    if (rc == 0)
        rc = give_number(l, f);
    if (rc < 0)
        return rc;
    *ret_back = f->back;
    ret_back->offset = b->offset;
    return 0;
}

int dz_linux_back_object(struct dz_linux *l, uint64_t size, struct dz_mm_back *ret_back)
{
    const struct dz_mm_back back = {.kind = DZ_MM_OBJECT, .id = l->files.object + 1};
    if (size > l->o.file_bytes)
        return -ENOMEM;
    struct linux_file *f = file_new(l, &back, size);
    if (!f)
        return -ENOMEM;
    l->files.object++;
    int rc = charge(l, f, page_up(size));
    if (rc == 0)
        rc = give_number(l, f);
    if (rc < 0) {
        file_drop(l, f);
        return rc;
    }
    *ret_back = back;
    return 0;
}

int dz_linux_back_more(struct dz_linux *l, const struct dz_mm_back *back, uint64_t size)
{
    struct linux_file *f = file_find(l, back);
    const uint64_t end = back->offset + size;
    if (!f)
        return -ENOMEM;
    f->mapped_end = end > f->mapped_end ? end : f->mapped_end;
    return fill(l, f, back->offset, end);
}

int dz_linux_back_vdso(struct dz_linux *l, struct dz_mm_back *ret_back)
{
    if (!l->files.has_vdso && linux_ops(l)->file(l->o.stub, l->vdso.fd, &l->files.vdso) < 0)
        return -ENOMEM;
    l->files.has_vdso = true;
    *ret_back = (struct dz_mm_back){.kind = DZ_MM_OBJECT, .id = DZ_LINUX_VDSO_OBJECT};
    return 0;
}

int dz_linux_back_number(void *arg, const struct dz_mm_back *back, uint32_t *ret_number,
                         uint64_t *ret_offset)
{
    struct dz_linux *l = arg;
    const struct linux_files *files = &l->files;
    if (back->kind == DZ_MM_PACK) {
        if (!files->has_pack)
            return -EBADF;
        *ret_number = files->pack;
    } else if (back->kind == DZ_MM_OBJECT && back->id == DZ_LINUX_VDSO_OBJECT) {
        if (!files->has_vdso)
            return -EBADF;
        *ret_number = files->vdso;
    } else {
        const struct linux_file *f = file_find(l, back);
        if (!f || !f->has_number)
            return -EBADF;
        *ret_number = f->number;
    }
    *ret_offset = back->offset;
    return 0;
}

int64_t dz_linux_file_read(struct dz_linux *l, uint64_t ino, uint64_t offset, void *to, size_t n)
{
    struct linux_file *f = shared_find(l, ino);
    if (!f)
        return dz_vfs_read(l->o.vfs, ino, offset, to, n);
    if (offset >= f->size)
        return 0;
    n = (size_t)min64(n, f->size - offset);
    const int rc = l->pages.read(l, ino, offset, to, n);
    return rc < 0 ? rc : (int64_t)n;
}

/* ---- struct dz_kernel_pages ------------------------------------------------------------------ */

static bool pages_cover(void *arg, uint64_t ino)
{
    return shared_find(arg, ino) != NULL;
}

/* A granule that is not filled is not mapped: there the disk is current. */
static int pages_read(void *arg, uint64_t ino, uint64_t off, void *buf, size_t n)
{
    struct dz_linux *l = arg;
    const struct linux_file *f = shared_find(l, ino);
    for (size_t done = 0; done < n;) {
        const uint64_t at = off + done;
        uint64_t part = min64(n - done, GRANULE - at % GRANULE);
        uint8_t *to = (uint8_t *)buf + done;
        if (at < f->size && f->filled[at / GRANULE]) {
            part = min64(part, f->size - at);
            memcpy(to, f->map + at, part);
        } else {
            const ssize_t r = dz_vfs_read(l->o.vfs, ino, at, to, part);
            if (r <= 0)
                return r < 0 ? (int)r : -EIO;
            part = (uint64_t)r;
        }
        done += part;
    }
    return 0;
}

static void pages_resize(struct dz_linux *l, struct linux_file *f, uint64_t size)
{
    const uint64_t old = f->size, least = min64(size, old), cut = least / CHUNK;
    uint64_t bytes = 0;
    /* in the chunk that is cut or grows, a program's changes may not be on the disk yet */
    const bool clean =
        least % CHUNK == 0 || !f->filled[least / GRANULE] ||
        f->sums[cut] == sum_of(f->map + cut * CHUNK, min64(CHUNK, old - cut * CHUNK));
    if (size == old || set_tables(f, size) < 0 || set_map(f, size) < 0)
        return; /* above the old size, pages then fault or are written to the disk alone */
    f->size = size;
    for (size_t g = 0; g < f->granules; g++) {
        f->filled[g] = f->filled[g] && g * GRANULE < size;
        bytes += f->filled[g] ? granule_bytes(f, g) : 0;
    }
    l->files.bytes = l->files.bytes - f->bytes + bytes; /* at most a granule more than that */
    f->bytes = bytes;
    if (least % GRANULE && f->filled[least / GRANULE]) /* the disk has zeros there, too */
        sums_take(f, least, min64(size, (least / GRANULE + 1) * GRANULE) + (least == size));
    if (!clean)
        f->sums[cut] = ~f->sums[cut];
    if (size > old)
        (void)fill(l, f, old, min64(size, f->mapped_end));
}

static int pages_write(void *arg, uint64_t ino, uint64_t off, const void *buf, size_t n)
{
    struct dz_linux *l = arg;
    struct linux_file *f = shared_find(l, ino);
    if (off + n > f->size)
        pages_resize(l, f, off + n);
    for (size_t done = 0; done < n && off + done < f->size;) {
        const uint64_t at = off + done;
        const uint64_t part = min64(min64(n - done, CHUNK - at % CHUNK), f->size - at);
        if (f->filled[at / GRANULE]) {
            const uint64_t chunk = at / CHUNK;
            /* a program's other changes in the chunk are not on the disk yet */
            const uint64_t size = min64(CHUNK, f->size - chunk * CHUNK);
            const bool clean = f->sums[chunk] == sum_of(f->map + chunk * CHUNK, size);
            memcpy(f->map + at, (const uint8_t *)buf + done, part);
            f->sums[chunk] = clean ? sum_of(f->map + chunk * CHUNK, size) : ~f->sums[chunk];
        }
        done += part;
    }
    return 0;
}

static void pages_truncate(void *arg, uint64_t ino, uint64_t size)
{
    struct linux_file *f = shared_find(arg, ino);
    pages_resize(arg, f, size);
}

int dz_linux_file_sync(struct dz_linux *l, uint64_t ino)
{
    struct linux_file *f = shared_find(l, ino);
    return f && f->written ? write_back(l, f) : 0;
}

/* ino UINT64_MAX: write back all files; 0: those with at most SYNC_BYTES in memory. If the disk has
 * no room for some, their content stays in memory and the commit goes on. The next msync or fsync
 * of such a file reports it, as on Linux. */
static int pages_sync(void *arg, uint64_t ino)
{
    struct dz_linux *l = arg;
    int rc = 0;
    if (ino && ino != UINT64_MAX)
        return dz_linux_file_sync(l, ino);
    for (int i = 0; i < LINUX_FILES_HASH && l->files.count; i++)
        for (struct linux_file *f = l->files.hash[i]; f; f = f->next)
            if (is_shared(f) && f->written && (ino || f->bytes <= SYNC_BYTES) && rc == 0) {
                rc = write_back(l, f);
                rc = rc == -ENOSPC || rc == -EDQUOT ? 0 : rc;
            }
    return rc;
}

static uint32_t pages_maps(void *arg, uint64_t ino)
{
    const struct dz_linux *l = arg;
    uint32_t n = 0;
    for (const struct dz_linux_space *s = l->spaces; s; s = s->next)
        for (size_t i = 0; i < s->mm.vmas.n; i++) {
            const struct dz_mm_vma *v = &s->mm.vmas.p[i];
            n += v->back.kind == DZ_MM_FILE && v->back.id == ino && (v->flags & DZ_MM_SHARED);
        }
    return n;
}

/* ---- in a saved machine -----------------------------------------------------------------------
 */

/* Which files are mapped, and which of them does the disk no longer have? */
static void mark_saved(struct dz_linux *l)
{
    mark_mapped(l);
    for (int i = 0; i < LINUX_FILES_HASH; i++)
        for (struct linux_file *f = l->files.hash[i]; f; f = f->next) {
            struct dz_vfs_attr a;
            if (f->mapped && f->back.kind == DZ_MM_FILE && f->back.generation > 0)
                f->alone = f->alone || dz_vfs_getattr(l->o.vfs, f->back.id, &a) < 0 ||
                           a.ctime_ns != f->ctime_ns || a.size != f->size;
        }
}

int dz_linux_files_save(struct dz_linux *l, struct dz_buf *files, struct dz_buf *packed,
                        struct dz_err *err)
{
    for (int i = 0; i < LINUX_FILES_HASH; i++)
        for (struct linux_file *f = l->files.hash[i]; f; f = f->next) {
            const int rc = is_shared(f) && f->written ? write_back(l, f) : 0;
            if (rc < 0)
                return dz_fail_sys(err, -rc, "write a mapped file to the disk");
        }
    mark_saved(l); /* now, because writing back changes files of which there are snapshots */
    for (int i = 0; i < LINUX_FILES_HASH; i++)
        for (struct linux_file *f = l->files.hash[i]; f; f = f->next) {
            if (!f->mapped)
                continue;
            const struct linux_file_row row = {.kind = f->back.kind,
                                               .generation = f->back.generation,
                                               .id = f->back.id,
                                               .size = f->size,
                                               .alone = f->alone};
            dz_buf_add(files, &row, sizeof row);
        }
    dz_buf_add(packed, l->files.packed.p, l->files.packed.n * sizeof *l->files.packed.p);
    return 0;
}

static int restore_file(struct dz_linux *l, const struct linux_file_row *row, struct dz_err *err)
{
    const struct dz_mm_back back = {
        .kind = (enum dz_mm_kind)row->kind, .generation = row->generation, .id = row->id};
    const bool object = row->kind == DZ_MM_OBJECT;
    struct dz_vfs_attr a = {.size = row->size};
    if ((!object && row->kind != DZ_MM_FILE) || row->alone > 1 || row->pad ||
        (object && (row->generation || row->id == 0 || row->id > l->files.object || row->alone)) ||
        (row->alone && row->generation == 0) || row->generation > l->files.generation ||
        file_find(l, &back))
        return dz_fail(err, DZ_ECORRUPT, "a saved mapped file is not valid");
    if (!object && (dz_vfs_getattr(l->o.vfs, row->id, &a) < 0 || !S_ISREG(a.mode)))
        return dz_fail(err, DZ_ECORRUPT, "inode %llu, which a saved program has mapped, is gone",
                       (unsigned long long)row->id);
    const uint64_t size = object || row->alone ? row->size : a.size;
    if ((object || row->alone) && size > l->o.file_bytes)
        return dz_fail(err, DZ_ELIMIT, "saved shared memory has %llu bytes, which is too much",
                       (unsigned long long)size);
    struct linux_file *f = file_new(l, &back, size);
    int rc = f ? 0 : -ENOMEM;
    if (rc == 0 && object)
        rc = charge(l, f, page_up(size));
    if (rc == 0)
        rc = give_number(l, f);
    if (rc < 0)
        return dz_fail_sys(err, -rc, "make the memory of a saved mapped file");
    f->ctime_ns = a.ctime_ns;
    f->alone = row->alone;
    return 0;
}

int dz_linux_files_restore(struct dz_linux *l, const uint8_t *bytes, size_t size,
                           struct dz_err *err)
{
    struct linux_file_row row;
    int rc = 0;
    if (size % sizeof row)
        return dz_fail(err, DZ_ECORRUPT, "the saved mapped files have %zu bytes", size);
    for (size_t at = 0; at < size && rc == 0; at += sizeof row) {
        memcpy(&row, bytes + at, sizeof row);
        rc = restore_file(l, &row, err);
    }
    struct dz_mm_back vdso;
    return rc < 0                             ? rc
           : dz_linux_back_vdso(l, &vdso) < 0 ? dz_fail(err, DZ_ENOMEM, "give the vDSO to programs")
                                              : 0;
}

/* A file of the pack: where this host's pack has it, else a snapshot. */
static int packed_again(struct dz_linux *l, const struct linux_packed *was,
                        struct dz_mm_back *ret_back)
{
    const struct dz_linux_pack *pack = &l->o.pack;
    struct dz_vfs_attr a;
    uint64_t at;
    if (dz_vfs_getattr(l->o.vfs, was->ino, &a) < 0 || !S_ISREG(a.mode))
        return -ENOENT;
    if (pack->find && pack->fd >= 0 && pack->find(pack->arg, was->ino, &at) && give_pack(l)) {
        *ret_back = (struct dz_mm_back){.kind = DZ_MM_PACK, .offset = at};
        const struct linux_packed is = {at, at + (was->end - was->start), was->ino};
        return dz_vec_push(&l->files.packed, is) == 0 ? 0 : -ENOMEM;
    }
    if (!dz_vfs_pristine(l->o.vfs, was->ino))
        return -ENOENT;
    const struct linux_back whole = {.ino = was->ino, .size = 0};
    const int rc = dz_linux_back_file(l, &whole, ret_back);
    struct linux_file *f = rc == 0 ? file_find(l, ret_back) : NULL;
    if (f)
        f->mapped_end = 0;
    return rc;
}

int dz_linux_packed_restore(struct dz_linux *l, const uint8_t *bytes, size_t size,
                            struct linux_moved_list *moves, struct dz_err *err)
{
    struct linux_packed was;
    if (size % sizeof was || size / sizeof was > PACKED_MAX)
        return dz_fail(err, DZ_ECORRUPT, "the saved files of an image have %zu bytes", size);
    for (size_t at = 0; at < size; at += sizeof was) {
        struct linux_moved m;
        memcpy(&was, bytes + at, sizeof was);
        if (was.start >= was.end || was.start % DZ_MM_PAGE || was.end % DZ_MM_PAGE ||
            was.end > LINUX_PACK_BEYOND)
            return dz_fail(err, DZ_ECORRUPT, "a saved file of an image is not valid");
        m = (struct linux_moved){.start = was.start, .end = was.end};
        const int rc = packed_again(l, &was, &m.to);
        if (rc < 0)
            return dz_fail(err, rc == -ENOENT ? DZ_EUNSUPPORTED : DZ_ENOMEM,
                           "a program has mapped inode %llu of its image, which is no longer in "
                           "the image",
                           (unsigned long long)was.ino);
        if (dz_vec_push(moves, m) != 0)
            return dz_fail(err, DZ_ENOMEM, "no memory for the saved files of an image");
    }
    return 0;
}

int dz_linux_back_restore(struct dz_linux *l, const struct dz_mm_vma *v)
{
    const struct dz_mm_back *b = &v->back;
    if (b->kind == DZ_MM_ANON || (b->kind == DZ_MM_OBJECT && b->id == DZ_LINUX_VDSO_OBJECT))
        return 0;
    if (b->kind == DZ_MM_PACK)
        return l->files.has_pack ? 0 : -EBADF;
    struct linux_file *f = file_find(l, b);
    if (!f)
        return -EBADF;
    if (b->kind == DZ_MM_OBJECT)
        return 0;
    f->written = f->written || (is_shared(f) && (v->flags & DZ_MM_SHARED) && (v->may & PROT_WRITE));
    return dz_linux_back_more(l, b, v->end - v->start);
}

int dz_linux_objects_each(struct dz_linux *l, int (*fn)(void *arg, uint64_t id), void *arg)
{
    int rc = 0;
    mark_saved(l);
    for (int i = 0; i < LINUX_FILES_HASH && rc == 0; i++)
        for (const struct linux_file *f = l->files.hash[i]; f && rc == 0; f = f->next)
            if (f->mapped && f->back.kind == DZ_MM_OBJECT)
                rc = fn(arg, f->back.id);
            else if (f->mapped && f->alone)
                rc = fn(arg, LINUX_OBJECT_SNAPSHOT + f->back.generation);
    return rc;
}

static struct linux_file *object_find(struct dz_linux *l, uint64_t id)
{
    const struct dz_mm_back back = {.kind = DZ_MM_OBJECT, .id = id};
    if (id < LINUX_OBJECT_SNAPSHOT)
        return file_find(l, &back);
    for (int i = 0; i < LINUX_FILES_HASH; i++)
        for (struct linux_file *f = l->files.hash[i]; f; f = f->next)
            if (f->alone && f->back.generation == id - LINUX_OBJECT_SNAPSHOT)
                return f;
    return NULL;
}

int dz_linux_object_runs(struct dz_linux *l, uint64_t id, struct dz_stub_runs *runs)
{
    const struct linux_file *f = object_find(l, id);
    if (!f)
        return -ENOENT;
    for (size_t g = 0; f->alone && g < f->granules; g++)
        if (f->filled[g])
            dz_vec_push(runs,
                        ((struct dz_mm_range){g * GRANULE, g * GRANULE + granule_bytes(f, g)}));
    for (off_t at = 0; !f->alone && (at = lseek(f->fd, at, SEEK_DATA)) >= 0;) {
        const off_t end = lseek(f->fd, at, SEEK_HOLE);
        if (end <= at)
            return -EIO;
        dz_vec_push(runs, ((struct dz_mm_range){(uint64_t)at, page_up((uint64_t)end)}));
        at = end;
    }
    return runs->err ? -ENOMEM : 0;
}

int dz_linux_object_read(struct dz_linux *l, uint64_t id, uint64_t at, void *to, size_t n)
{
    const struct linux_file *f = object_find(l, id);
    if (!f || at % DZ_MM_PAGE || at > page_up(f->size) || n > page_up(f->size) - at)
        return -EFAULT;
    if (f->alone) { /* mapped in whole pages */
        memcpy(to, f->map + at, n);
        return 0;
    }
    memset(to, 0, n);
    return pread(f->fd, to, n, (off_t)at) >= 0 ? 0 : -EIO;
}

int dz_linux_object_write(struct dz_linux *l, uint64_t id, uint64_t at, const void *from, size_t n)
{
    struct linux_file *f = object_find(l, id);
    if (!f || at % DZ_MM_PAGE || at > page_up(f->size) || n > page_up(f->size) - at)
        return -EFAULT;
    if (f->alone) {
        const int rc = fill(l, f, at, at + n);
        if (rc == 0)
            memcpy(f->map + at, from, n);
        return rc;
    }
    n = (size_t)min64(n, f->size - min64(at, f->size)); /* the last page may be a part */
    return pwrite(f->fd, from, n, (off_t)at) == (ssize_t)n ? 0 : -EIO;
}

void dz_linux_pages_init(struct dz_linux *l)
{
    l->pages = (struct dz_kernel_pages){.covers = pages_cover,
                                        .read = pages_read,
                                        .write = pages_write,
                                        .truncate = pages_truncate,
                                        .sync = pages_sync,
                                        .maps = pages_maps,
                                        .arg = l};
    l->files.packed.max = PACKED_MAX;
}

void dz_linux_files_free(struct dz_linux *l)
{
    for (int i = 0; i < LINUX_FILES_HASH; i++)
        while (l->files.hash[i]) {
            struct linux_file *f = l->files.hash[i];
            if (is_shared(f) && f->written)
                (void)write_back(l, f);
            file_drop(l, f);
        }
    assert(l->files.count == 0 && l->files.bytes == 0);
    if (l->files.has_pack)
        linux_ops(l)->file_close(l->o.stub, l->files.pack);
    dz_vec_release(&l->files.packed);
    if (l->files.has_vdso)
        linux_ops(l)->file_close(l->o.stub, l->files.vdso);
}
