/* SPDX-License-Identifier: MIT
 *
 * linux_memory.c - calls on memory: mmap to madvise, brk, msync, mlock.
 *
 * mm/ decides the result; this file finds the backing of a descriptor, and accounts memory. A call
 * whose list the host refuses has broken its process, which the runner then kills.
 *
 * Locking is accepted within RLIMIT_MEMLOCK and changes nothing, because doze never swaps a
 * machine's memory; MAP_POPULATE is accepted and touches nothing.
 */
#include "linux/linux_run_int.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/shm.h>
#include <sys/stat.h>

enum {
    MCORE_PAGES = 4096, /* of mincore, at once */
    MREMAP_KNOWN = MREMAP_MAYMOVE | MREMAP_FIXED | MREMAP_DONTUNMAP,
};

static uint64_t page_up(uint64_t n)
{
    return (n + DZ_MM_PAGE - 1) & ~(uint64_t)(DZ_MM_PAGE - 1);
}

/* Before an operation of mm: returns its data, with the current limits. NULL: ENOSYS. */
static struct dz_mm *begin(const linux_call *c)
{
    if (!c->thread)
        return NULL;
    dz_linux_limits(c->thread);
    return linux_mm(c->thread);
}
/* After an operation: returns mm's result, once the host has executed the list. */
static int64_t end(const linux_call *c, int64_t r)
{
    return dz_linux_apply(c->thread) < 0 ? -ENOMEM : r;
}

/* ---- mmap ---------------------------------------------------------------------------- */

/* The backing for mapping a descriptor. *ret_inside: so many bytes of the mapping are pages of the
 * file. */
static int map_file(const linux_call *c, const struct dz_file *f, struct dz_mm_map *m,
                    uint64_t *ret_inside)
{
    const bool shared = (m->flags & MAP_TYPE) != MAP_PRIVATE;
    const int access = (int)f->flags & O_ACCMODE;
    struct dz_kstat st;
    const bool zero = f->kind == DZ_FILE_DEVICE && f->obj == DZ_DEVICE_ZERO;
    if (!zero && f->kind != DZ_FILE_DISK)
        return -ENODEV;
    m->may = (uint8_t)((access != O_WRONLY ? PROT_READ : 0) | (access == O_RDWR ? PROT_WRITE : 0) |
                       PROT_EXEC);
    if (!(m->may & PROT_READ) || (shared && (m->prot & PROT_WRITE) && !(m->may & PROT_WRITE)))
        return -EACCES; /* check this before a memory file is made in vain */
    if (zero) {         /* as anonymous memory, with the access of the descriptor */
        m->flags |= shared ? 0 : MAP_ANONYMOUS;
        return shared ? dz_linux_back_object(c->thread->l, page_up(m->size), &m->back) : 0;
    }
    if (dz_sys_fstatat(LINUX_K(c), dz_at_fd(arg_int(c, 4)), &st) < 0 || !S_ISREG(st.mode))
        return -ENODEV;
    const uint32_t seals = dz_kernel_seals(c->kernel, f->node.ino);
    if (shared && (seals & (F_SEAL_WRITE | F_SEAL_FUTURE_WRITE))) {
        if (m->prot & PROT_WRITE)
            return -EPERM;
        m->may &= (uint8_t)~PROT_WRITE;
    }
    const struct linux_back b = {.ino = f->node.ino,
                                 .shared = shared,
                                 .writable = shared && (m->may & PROT_WRITE),
                                 .offset = m->back.offset,
                                 .size = page_up(m->size)};
    const uint64_t end = page_up((uint64_t)st.size);
    *ret_inside = b.offset >= end ? 0 : end - b.offset < b.size ? end - b.offset : b.size;
    return dz_linux_back_file(c->thread->l, &b, &m->back);
}

/* Map a file. In the pack another file follows, so pages behind the file's end are mapped from
 * behind the end of the pack. */
static int64_t map(struct dz_mm *mm, const struct dz_mm_map *m, uint64_t inside,
                   struct dz_mm_calls *calls)
{
    if (m->back.kind != DZ_MM_PACK || inside >= page_up(m->size))
        return dz_mm_mmap(mm, m, calls);
    struct dz_mm_map all = *m, file = *m;
    all.back.offset = LINUX_PACK_BEYOND;
    const int64_t at = dz_mm_mmap(mm, &all, calls);
    if (at < 0 || inside == 0)
        return at;
    file.at = (uint64_t)at;
    file.size = inside;
    file.flags = (m->flags & ~MAP_FIXED_NOREPLACE) | MAP_FIXED;
    const int64_t rc = dz_mm_mmap(mm, &file, calls);
    if (rc < 0) {
        const int undone = dz_mm_munmap(mm, file.at, page_up(m->size), calls);
        return undone < 0 ? undone : rc;
    }
    return at;
}

/* Would it need more private memory than the machine can ever have? */
static bool is_too_much(const linux_call *c, const struct dz_mm_map *m)
{
    struct dz_ksysinfo info;
    if ((m->flags & MAP_NORESERVE) || (m->flags & MAP_TYPE) != MAP_PRIVATE ||
        !(m->prot & PROT_WRITE))
        return false;
    return dz_sys_sysinfo(LINUX_K(c), &info) == 0 && m->size > info.total;
}

LINUX_CALL(mmap)
{
    struct dz_mm *mm = begin(c);
    struct dz_mm_map m = {.at = c->arg[0],
                          .size = c->arg[1],
                          .prot = arg_int(c, 2),
                          .flags = arg_int(c, 3),
                          .back = {.kind = DZ_MM_ANON, .offset = c->arg[5]}};
    if (!mm)
        return -ENOSYS;
    if (m.back.offset % DZ_MM_PAGE)
        return -EINVAL;
    const int type = m.flags & MAP_TYPE;
    int rc = 0;
    uint64_t inside = UINT64_MAX;
    if (!(m.flags & MAP_ANONYMOUS)) {
        const struct dz_fd *slot = dz_sys_fd(LINUX_K(c), arg_int(c, 4));
        const struct dz_file *f =
            slot ? dz_kernel_row(c->kernel, DZ_KERNEL_TABLE_FILE, slot->file) : NULL;
        if (!f || (f->flags & O_PATH))
            return -EBADF;
        if (m.size == 0 ||
            (type != MAP_PRIVATE && type != MAP_SHARED && type != MAP_SHARED_VALIDATE))
            return -EINVAL;
        if (page_up(m.size) < m.size)
            return -ENOMEM;
        if (m.back.offset > INT64_MAX || page_up(m.size) > INT64_MAX - m.back.offset)
            return -EOVERFLOW;
        rc = map_file(c, f, &m, &inside);
    }
    if (rc == 0 && is_too_much(c, &m))
        rc = -ENOMEM;
    if (rc == 0 && (m.flags & MAP_ANONYMOUS)) {
        m.back = (struct dz_mm_back){.kind = DZ_MM_ANON};
        if (type == MAP_SHARED && m.size > 0 && page_up(m.size) >= m.size)
            rc = dz_linux_back_object(c->thread->l, page_up(m.size), &m.back);
    }
    if (rc < 0)
        return rc;
    if (m.flags & MAP_FIXED) /* the old mapping is replaced */
        dz_linux_loosen(c->thread->l);
    const int64_t r = map(mm, &m, inside, &c->thread->l->calls);
    if (r < 0 && m.back.kind != DZ_MM_ANON)
        dz_linux_loosen(c->thread->l);
    return end(c, r);
}

LINUX_CALL(munmap)
{
    struct dz_mm *mm = begin(c);
    if (!mm)
        return -ENOSYS;
    dz_linux_loosen(c->thread->l);
    return end(c, dz_mm_munmap(mm, c->arg[0], c->arg[1], &c->thread->l->calls));
}

/* A list will change these pages, or move them. */
static void need(const linux_call *c, uint64_t at, uint64_t size)
{
    if (size)
        (void)dz_linux_need(c->thread, at, page_up(size));
}

LINUX_CALL(mprotect)
{
    struct dz_mm *mm = begin(c);
    if (!mm)
        return -ENOSYS;
    const struct dz_mm_vma *v =
        c->arg[2] & PROT_GROWSDOWN ? dz_mm_find(mm, c->arg[0]) : NULL; /* from its start on */
    const uint64_t more = v && v->start < c->arg[0] ? c->arg[0] - v->start : 0;
    need(c, c->arg[0] - more, c->arg[1] + more);
    return end(c, dz_mm_mprotect(mm, c->arg[0], c->arg[1], arg_int(c, 2), &c->thread->l->calls));
}

LINUX_CALL(mremap)
{
    struct dz_mm *mm = begin(c);
    const struct dz_mm_remap r = {c->arg[0], c->arg[1], c->arg[2], (int)c->arg[3], c->arg[4]};
    if (!mm)
        return -ENOSYS;
    if (c->arg[3] & ~(uint64_t)MREMAP_KNOWN)
        return -EINVAL;
    const struct dz_mm_vma *v = dz_mm_find(mm, r.at);
    if (v && v->start <= r.at && v->back.kind == DZ_MM_PACK &&
        page_up(r.new_size) > page_up(r.old_size))
        return -ENOMEM; /* another file follows in the pack */
    need(c, r.at, r.old_size);
    dz_linux_loosen(c->thread->l);
    return end(c, dz_mm_mremap(mm, &r, &c->thread->l->calls));
}

LINUX_CALL(brk)
{
    struct dz_mm *mm = begin(c);
    struct dz_ksysinfo info;
    if (!mm)
        return -ENOSYS;
    uint64_t to = c->arg[0];
    if (to > mm->brk && dz_sys_sysinfo(LINUX_K(c), &info) == 0 && to - mm->brk > info.total)
        to = 0; /* more than the machine can ever have, as for mmap: leave the break */
    const int64_t r = (int64_t)dz_mm_brk(mm, to, &c->thread->l->calls);
    return end(c, r);
}

LINUX_CALL(madvise)
{
    struct dz_mm *mm = begin(c);
    if (!mm)
        return -ENOSYS;
    need(c, c->arg[0], c->arg[1]);
    return end(c, dz_mm_madvise(mm, c->arg[0], c->arg[1], arg_int(c, 2), &c->thread->l->calls));
}

LINUX_CALL(msync)
{
    struct dz_mm *mm = begin(c);
    if (!mm)
        return -ENOSYS;
    struct dz_linux *l = c->thread->l;
    int rc = dz_mm_msync(mm, c->arg[0], c->arg[1], arg_int(c, 2), &l->calls);
    for (size_t i = 0; i < l->calls.n; i++) {
        const struct dz_mm_call *q = &l->calls.p[i];
        const int e = q->op == DZ_MM_SYNC ? dz_linux_file_sync(l, q->back.id) : 0;
        rc = rc == 0 ? e : rc;
    }
    return end(c, rc);
}

/* Every page of a VMA is reported as present, because only the host knows, and it may change. */
LINUX_CALL(mincore)
{
    const struct dz_mm *mm = begin(c);
    static const uint8_t present[MCORE_PAGES] = {[0 ... MCORE_PAGES - 1] = 1};
    uint64_t at = c->arg[0], pages = page_up(c->arg[1]) / DZ_MM_PAGE, to = c->arg[2];
    if (!mm)
        return -ENOSYS;
    if (at % DZ_MM_PAGE)
        return -EINVAL;
    if (at > DZ_MM_ADDRESS_MAX || c->arg[1] > DZ_MM_ADDRESS_MAX - at)
        return -ENOMEM;
    if (c->mem->room(c->mem->arg, to, pages) != pages)
        return -EFAULT;
    while (pages > 0) {
        const struct dz_mm_vma *v = dz_mm_find(mm, at);
        if (!v || v->start > at)
            return -ENOMEM;
        uint64_t n = (v->end - at) / DZ_MM_PAGE;
        n = n < pages ? n : pages;
        n = n < MCORE_PAGES ? n : MCORE_PAGES;
        if (dz_linux_put(c, to, present, n) < 0)
            return -EFAULT;
        at += n * DZ_MM_PAGE;
        to += n;
        pages -= n;
    }
    return 0;
}

/* ---- System V shared memory -------------------------------------------------------------- */

/* The address for shmat; 0: any. 0 or -EINVAL. */
static int shm_place(const linux_call *c, const struct dz_mm *mm, uint64_t size, uint64_t *ret_at)
{
    const int flags = arg_int(c, 2);
    uint64_t at = c->arg[1];
    if (at % DZ_MM_PAGE) {
        if (!(flags & SHM_RND))
            return -EINVAL;
        at -= at % DZ_MM_PAGE;
        if (at == 0 && (flags & SHM_REMAP))
            return -EINVAL;
    }
    if (c->arg[1] == 0 && (flags & SHM_REMAP))
        return -EINVAL;
    if (at != 0 && !(flags & SHM_REMAP)) {
        const struct dz_mm_vma *v = dz_mm_find(mm, at);
        if (size > DZ_MM_ADDRESS_MAX - at || (v && v->start < at + size))
            return -EINVAL;
    }
    *ret_at = at;
    return 0;
}

LINUX_CALL(shmat)
{
    struct dz_mm *mm = begin(c);
    const int flags = arg_int(c, 2);
    uint64_t size, at = 0;
    struct linux_back b = {.shared = true, .writable = !(flags & SHM_RDONLY)};
    if (!mm)
        return -ENOSYS;
    int64_t r = dz_sys_shmat(LINUX_K(c), arg_int(c, 0), flags, &b.ino, &size);
    b.size = page_up(size);
    if (r == 0)
        r = shm_place(c, mm, b.size, &at);
    struct dz_mm_map m = {.at = at,
                          .size = b.size,
                          .prot = PROT_READ | (b.writable ? PROT_WRITE : 0) |
                                  (flags & SHM_EXEC ? PROT_EXEC : 0),
                          .flags = MAP_SHARED | (at ? MAP_FIXED : 0),
                          .may = (uint8_t)(PROT_READ | PROT_EXEC | (b.writable ? PROT_WRITE : 0))};
    if (r == 0)
        r = dz_linux_back_file(c->thread->l, &b, &m.back);
    if (r < 0)
        return r;
    dz_linux_loosen(c->thread->l);
    r = dz_mm_mmap(mm, &m, &c->thread->l->calls);
    return end(c, r);
}

/* Unmap everything that shmat mapped there, even if it is in pieces now. */
LINUX_CALL(shmdt)
{
    struct dz_mm *mm = begin(c);
    const uint64_t at = c->arg[0];
    uint64_t ino = 0, size = 0;
    if (!mm)
        return -ENOSYS;
    if (at % DZ_MM_PAGE)
        return -EINVAL;
    for (uint64_t next = at; ino == 0 || next < at + page_up(size);) {
        const struct dz_mm_vma *v = dz_mm_find(mm, next);
        if (!v)
            break;
        const struct dz_mm_vma one = *v;
        next = one.end;
        if (one.back.kind != DZ_MM_FILE || !(one.flags & DZ_MM_SHARED) ||
            one.start - at != one.back.offset || (ino && one.back.id != ino) ||
            !dz_sys_shm_is(LINUX_K(c), one.back.id, &size, false)) {
            if (ino == 0)
                break; /* another object begins there */
            continue;
        }
        ino = one.back.id;
        const int rc = dz_mm_munmap(mm, one.start, one.end - one.start, &c->thread->l->calls);
        if (rc < 0)
            return end(c, rc);
    }
    if (ino == 0)
        return -EINVAL;
    dz_linux_loosen(c->thread->l);
    (void)dz_sys_shm_is(LINUX_K(c), ino, &size, true);
    return end(c, 0);
}

/* ---- locking ----------------------------------------------------------------------------- */

static bool may_lock(const linux_call *c, uint64_t bytes)
{
    return c->proc->euid == 0 || bytes <= c->proc->rlimit[RLIMIT_MEMLOCK][0];
}

static int64_t lock(const linux_call *c, bool locks)
{
    const struct dz_mm *mm = begin(c);
    if (!mm)
        return -ENOSYS;
    const uint64_t start = c->arg[0] & ~(uint64_t)(DZ_MM_PAGE - 1);
    const uint64_t size = page_up(c->arg[1] + (c->arg[0] - start)), stop = start + size;
    if (locks && c->proc->euid != 0 && c->proc->rlimit[RLIMIT_MEMLOCK][0] == 0)
        return -EPERM;
    if (locks && !may_lock(c, size))
        return -ENOMEM;
    if (stop < start)
        return -EINVAL;
    for (uint64_t at = start; at < stop;) {
        const struct dz_mm_vma *v = dz_mm_find(mm, at);
        if (!v || v->start > at)
            return -ENOMEM;
        at = v->end;
    }
    return 0;
}
LINUX_CALL(mlock)
{
    return lock(c, true);
}
LINUX_CALL(mlock2)
{
    return arg_u32(c, 2) & ~1u ? -EINVAL : lock(c, true); /* MLOCK_ONFAULT */
}
LINUX_CALL(munlock)
{
    return lock(c, false);
}
LINUX_CALL(mlockall)
{
    const struct dz_mm *mm = begin(c);
    const int flags = arg_int(c, 0);
    if (!mm)
        return -ENOSYS;
    if (flags == 0 || (flags & ~(MCL_CURRENT | MCL_FUTURE | MCL_ONFAULT)) || flags == MCL_ONFAULT)
        return -EINVAL;
    if (c->proc->euid != 0 && c->proc->rlimit[RLIMIT_MEMLOCK][0] == 0)
        return -EPERM;
    return (flags & MCL_CURRENT) && !may_lock(c, mm->total) ? -ENOMEM : 0;
}
LINUX_CALL(munlockall)
{
    return begin(c) ? 0 : -ENOSYS;
}
