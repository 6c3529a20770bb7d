/* SPDX-License-Identifier: MIT
 *
 * Rules of address spaces that a comparison with the host cannot show: places, limits, stacks,
 * the heap, forks, reserved ranges, faults, rows, the text of maps, a heap that is short. */
#include "mm/mm.h"

#include "tap.h"

#include <errno.h>
#include <fcntl.h>

#define NONE    UINT64_MAX
#define K(n)    ((uint64_t)(n) * 1024)
#define AT      UINT64_C(0x200000000000)
#define RW      (PROT_READ | PROT_WRITE)
#define PRIVATE (MAP_PRIVATE | MAP_ANONYMOUS)

static const struct dz_mm_limits no_limits = {NONE, NONE, 8 << 20, DZ_MM_VMAS_MAX};
static const struct dz_mm_range ours[] = {{0x70000000, 0x70100000}};

struct rig {
    struct dz_mm mm;
    struct dz_mm_calls calls;
};

static void open_rig(struct rig *r, const struct dz_mm_limits *limits)
{
    r->calls = (struct dz_mm_calls)DZ_VEC_INIT(DZ_MM_CALLS_MAX);
    dz_mm_init(&r->mm, 7, limits, ours, 1);
}

static void close_rig(struct rig *r)
{
    dz_mm_assert(&r->mm);
    dz_vec_release(&r->calls);
    dz_mm_release(&r->mm);
}

static int64_t map(struct rig *r, uint64_t at, uint64_t size, int prot, int flags)
{
    const struct dz_mm_map m = {.at = at, .size = size, .prot = prot, .flags = flags};
    return dz_mm_mmap(&r->mm, &m, &r->calls);
}

static int64_t map_back(struct rig *r, uint64_t at, uint64_t size, int prot, int flags,
                        struct dz_mm_back back)
{
    const struct dz_mm_map m = {
        .at = at, .size = size, .prot = prot, .flags = flags, .may = RW | PROT_EXEC, .back = back};
    return dz_mm_mmap(&r->mm, &m, &r->calls);
}

TEST(places_go_down_from_a_base_that_the_seed_decides)
{
    struct rig r;
    struct dz_mm other;
    open_rig(&r, &no_limits);
    int64_t first = map(&r, 0, K(64), RW, PRIVATE), second = map(&r, 0, K(4), PROT_READ, PRIVATE);
    CHECK_INT(first, (int64_t)(r.mm.mmap_base - K(64)));
    CHECK_INT(second, first - (int64_t)K(4));
    CHECK_INT(dz_mm_munmap(&r.mm, (uint64_t)first, K(8), &r.calls), 0);
    CHECK_INT(map(&r, 0, K(12), RW, PRIVATE), second - (int64_t)K(12)); /* the hole is too small */
    CHECK_INT(map(&r, 0, K(8), PROT_READ, PRIVATE), first);
    CHECK_INT(r.mm.vmas.n, 3); /* of which one closed the hole below the first, two are alike */
    dz_mm_init(&other, 7, &no_limits, NULL, 0);
    CHECK(other.mmap_base == r.mm.mmap_base && other.stack_top == r.mm.stack_top);
    dz_mm_init(&other, 8, &no_limits, NULL, 0);
    CHECK(other.mmap_base != r.mm.mmap_base && other.stack_top != r.mm.stack_top);
    CHECK(other.stack_top - other.mmap_base >= (8 << 20) + DZ_MM_GUARD_GAP);
    close_rig(&r);
}

TEST(a_hint_is_taken_where_there_is_room)
{
    struct rig r;
    open_rig(&r, &no_limits);
    CHECK_INT(map(&r, AT + 5, K(8), RW, PRIVATE), (int64_t)AT);
    CHECK_INT(map(&r, AT + K(4), K(4), RW, PRIVATE), (int64_t)(r.mm.mmap_base - K(4)));
    CHECK_INT(map(&r, AT + K(4), K(4), RW, PRIVATE | MAP_FIXED_NOREPLACE), -EEXIST);
    CHECK_INT(map(&r, K(4), K(4), RW, PRIVATE), (int64_t)DZ_MM_ADDRESS_MIN);
    CHECK_INT(map(&r, K(4), K(4), RW, PRIVATE | MAP_FIXED), -EPERM);
    CHECK_INT(map(&r, DZ_MM_ADDRESS_MAX, K(4), RW, PRIVATE | MAP_FIXED), -ENOMEM);
    CHECK_INT(map(&r, 0, UINT64_MAX, RW, PRIVATE), -ENOMEM);
    int64_t low = map(&r, 0, K(4), RW, PRIVATE | MAP_32BIT);
    CHECK_INT(low, 0x80000000 - (int64_t)K(4));
    CHECK_INT(map(&r, 0, 0x10000000 - K(4), PROT_NONE, PRIVATE | MAP_32BIT), 0x60001000);
    close_rig(&r);
}

TEST(reserved_ranges_are_refused)
{
    struct rig r;
    const uint64_t at = ours[0].start;
    open_rig(&r, &no_limits);
    const struct dz_mm_remap onto = {AT, K(4), K(4), MREMAP_MAYMOVE | MREMAP_FIXED, at};
    const struct dz_mm_remap grow = {at - K(4), K(4), K(8), 0, 0};
    CHECK_INT(map(&r, at, K(4), RW, PRIVATE | MAP_FIXED), -ENOMEM);
    CHECK_INT(map(&r, at - K(4), K(8), RW, PRIVATE | MAP_FIXED_NOREPLACE), -EEXIST);
    CHECK(map(&r, at, K(4), RW, PRIVATE) != (int64_t)at);
    CHECK_INT(map(&r, 0, 0x80000000 - ours[0].end + K(4), RW, PRIVATE | MAP_32BIT),
              (int64_t)(at - (0x80000000 - ours[0].end + K(4)))); /* below ours */
    CHECK_INT(dz_mm_munmap(&r.mm, 0x40000000, 0x20000000, &r.calls), 0);
    CHECK_INT(dz_mm_munmap(&r.mm, 0x60000000, at - 0x60000000, &r.calls), 0);
    CHECK_INT(dz_mm_munmap(&r.mm, at - K(4), K(8), &r.calls), -EINVAL);
    CHECK_INT(dz_mm_mprotect(&r.mm, at, K(4), RW, &r.calls), -ENOMEM);
    CHECK_INT(dz_mm_madvise(&r.mm, at, K(4), MADV_DONTNEED, &r.calls), -ENOMEM);
    CHECK_INT(map(&r, AT, K(4), RW, PRIVATE | MAP_FIXED), (int64_t)AT);
    CHECK_INT(dz_mm_mremap(&r.mm, &onto, &r.calls), -EINVAL);
    CHECK_INT(map(&r, at - K(4), K(4), RW, PRIVATE | MAP_FIXED), (int64_t)(at - K(4)));
    CHECK_INT(dz_mm_mremap(&r.mm, &grow, &r.calls), -ENOMEM);
    close_rig(&r);
}

TEST(limits_hold)
{
    struct rig r;
    const struct dz_mm_limits limits = {K(64), K(16), K(1024), 6};
    open_rig(&r, &limits);
    CHECK_INT(map(&r, AT, K(20), RW, PRIVATE | MAP_FIXED), -ENOMEM); /* data */
    CHECK_INT(map(&r, AT, K(20), PROT_READ, PRIVATE | MAP_FIXED), (int64_t)AT);
    CHECK_INT(dz_mm_mprotect(&r.mm, AT, K(20), RW, &r.calls), -ENOMEM);
    CHECK_INT(dz_mm_mprotect(&r.mm, AT, K(16), RW, &r.calls), 0);
    CHECK_INT(r.mm.data, K(16));
    CHECK_INT(map(&r, AT, K(48), PROT_READ, PRIVATE), -ENOMEM);                 /* 20 + 48 > 64 */
    CHECK_INT(map(&r, AT, K(64), PROT_READ, PRIVATE | MAP_FIXED), (int64_t)AT); /* replaces */
    CHECK_INT(r.mm.total, K(64));
    for (uint64_t i = 1; i < 4; i += 2)
        CHECK_INT(dz_mm_mprotect(&r.mm, AT + K(4) * i, K(4), PROT_NONE, &r.calls), 0);
    CHECK_INT(r.mm.vmas.n, 5);
    CHECK_INT(dz_mm_munmap(&r.mm, AT + K(32), K(4), &r.calls), 0);
    CHECK_INT(r.mm.vmas.n, 6);
    CHECK_INT(dz_mm_munmap(&r.mm, AT + K(40), K(4), &r.calls), -ENOMEM); /* would cut one in two */
    CHECK_INT(dz_mm_madvise(&r.mm, AT + K(40), K(4), MADV_DONTFORK, &r.calls), -EAGAIN);
    CHECK_INT(dz_mm_mprotect(&r.mm, AT + K(40), K(4), PROT_NONE, &r.calls), -ENOMEM);
    const struct dz_mm_remap m = {AT, K(4), K(4), MREMAP_MAYMOVE | MREMAP_FIXED, AT + K(1024)};
    CHECK_INT(dz_mm_mremap(&r.mm, &m, &r.calls), -ENOMEM);
    CHECK_INT(map(&r, AT + K(1024), K(4), PROT_READ, PRIVATE),
              (int64_t)(AT + K(1024))); /* one over */
    CHECK_INT(map(&r, AT + K(2048), K(4), PROT_READ, PRIVATE), -ENOMEM);
    close_rig(&r);
}

TEST(what_a_fixed_mapping_replaces_does_not_count)
{
    struct rig r;
    const struct dz_mm_limits limits = {K(64), NONE, K(1024), 100};
    open_rig(&r, &limits);
    CHECK_INT(map(&r, AT, K(56), PROT_READ, PRIVATE | MAP_FIXED), (int64_t)AT);
    CHECK_INT(map(&r, AT + K(48), K(20), PROT_READ, PRIVATE | MAP_FIXED), -ENOMEM);
    CHECK_INT(map(&r, AT + K(48), K(16), PROT_READ, PRIVATE | MAP_FIXED), (int64_t)(AT + K(48)));
    CHECK_INT(dz_mm_munmap(&r.mm, AT + K(60), K(4), &r.calls), 0);
    CHECK_INT(map(&r, AT - K(8), K(12), PROT_READ, PRIVATE | MAP_FIXED), -ENOMEM);
    CHECK_INT(map(&r, AT - K(4), K(8), PROT_READ, PRIVATE | MAP_FIXED), (int64_t)(AT - K(4)));
    CHECK_INT(r.mm.total, K(64));
    close_rig(&r);
}

TEST(a_descriptor_decides_what_may_be)
{
    struct rig r;
    struct dz_mm_map m = {.at = AT,
                          .size = K(8),
                          .prot = PROT_READ,
                          .flags = MAP_PRIVATE | MAP_FIXED,
                          .may = PROT_READ,
                          .back = {DZ_MM_FILE, 0, 9, 0}};
    open_rig(&r, &no_limits);
    m.prot = PROT_READ | PROT_EXEC; /* on a mount that forbids it */
    CHECK_INT(dz_mm_mmap(&r.mm, &m, &r.calls), -EPERM);
    m.prot = PROT_READ;
    CHECK_INT(dz_mm_mmap(&r.mm, &m, &r.calls), (int64_t)AT);
    CHECK_INT(dz_mm_mprotect(&r.mm, AT, K(8), PROT_EXEC, &r.calls), -EACCES);
    m.at = AT + K(8);
    m.may = PROT_READ | PROT_EXEC;
    m.back.offset = K(8);
    CHECK_INT(dz_mm_mmap(&r.mm, &m, &r.calls), (int64_t)m.at); /* the same but for may */
    CHECK_INT(r.mm.vmas.n, 2);
    m.flags = MAP_SHARED | MAP_FIXED;
    CHECK_INT(dz_mm_mmap(&r.mm, &m, &r.calls), (int64_t)m.at);
    CHECK_INT(dz_mm_madvise(&r.mm, m.at, K(4), MADV_REMOVE, &r.calls), -EACCES);
    m.may = PROT_READ | PROT_WRITE;
    CHECK_INT(dz_mm_mmap(&r.mm, &m, &r.calls), (int64_t)m.at);
    CHECK_INT(dz_mm_madvise(&r.mm, m.at, K(4), MADV_REMOVE, &r.calls), 0);
    CHECK_INT(r.calls.p[r.calls.n - 1].advice, MADV_REMOVE);
    CHECK_INT(dz_mm_madvise(&r.mm, AT, K(4), MADV_REMOVE, &r.calls), -EACCES);
    m.may = PROT_WRITE;
    CHECK_INT(dz_mm_mmap(&r.mm, &m, &r.calls), -EACCES);
    m.may = RW;
    m.flags = MAP_SHARED_VALIDATE | MAP_FIXED | MAP_SYNC;
    CHECK_INT(dz_mm_mmap(&r.mm, &m, &r.calls), -EOPNOTSUPP);
    close_rig(&r);
}

TEST(a_copy_over_its_own_source_leaves_a_hole)
{
    struct rig r;
    const struct dz_mm_back object = {DZ_MM_OBJECT, 0, 5, 0};
    const struct dz_mm_remap onto = {AT, 0, K(8), MREMAP_MAYMOVE | MREMAP_FIXED, AT};
    const struct dz_mm_remap copy = {AT + K(8), 0, K(8), MREMAP_MAYMOVE | MREMAP_FIXED, AT};
    open_rig(&r, &no_limits);
    (void)map_back(&r, AT, K(16), RW, MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED, object);
    r.calls.n = 0;
    CHECK_INT(dz_mm_mremap(&r.mm, &onto, &r.calls), -EFAULT);
    CHECK_INT(r.mm.total, K(8));
    CHECK_INT(r.calls.n, 1);
    CHECK(r.calls.p[0].op == DZ_MM_MUNMAP && r.calls.p[0].at == AT && r.calls.p[0].size == K(8));
    CHECK_INT(dz_mm_mremap(&r.mm, &copy, &r.calls), (int64_t)AT);
    CHECK_INT(r.mm.vmas.p[0].back.offset, K(8));
    CHECK_INT(r.calls.p[1].back.offset, K(8));
    close_rig(&r);
}

TEST(an_allocation_that_failed_once_is_forgotten)
{
    struct rig r;
    open_rig(&r, &no_limits);
    dz_mem_fail_at(0, false);
    CHECK_INT(map(&r, AT, K(4), RW, PRIVATE | MAP_FIXED), -ENOMEM);
    dz_mem_fail_at(-1, false);
    CHECK(dz_mem_failed());
    CHECK_INT(map(&r, AT, K(4), RW, PRIVATE | MAP_FIXED), (int64_t)AT);
    close_rig(&r);
}

TEST(the_heap_moves_by_brk)
{
    struct rig r;
    const struct dz_mm_limits limits = {NONE, K(64), 8 << 20, DZ_MM_VMAS_MAX};
    open_rig(&r, &limits);
    CHECK_INT(dz_mm_brk(&r.mm, K(512), &r.calls), 0); /* no heap yet */
    dz_mm_set_brk(&r.mm, 0x400001, K(4), 0);
    CHECK_INT(dz_mm_brk(&r.mm, 0, &r.calls), 0x401000);
    CHECK_INT(dz_mm_brk(&r.mm, 0x403001, &r.calls), 0x403001);
    CHECK_INT(r.mm.total, K(12));
    CHECK_INT(dz_mm_brk(&r.mm, 0x403fff, &r.calls), 0x403fff); /* in the same page */
    CHECK_INT(r.calls.n, 1);
    CHECK_INT(map(&r, 0x406000, K(4), PROT_READ, PRIVATE | MAP_FIXED), 0x406000);
    CHECK_INT(dz_mm_brk(&r.mm, 0x406000, &r.calls), 0x403fff); /* a page stays free */
    CHECK_INT(dz_mm_brk(&r.mm, 0x405000, &r.calls), 0x405000);
    CHECK_INT(dz_mm_munmap(&r.mm, 0x406000, K(4), &r.calls), 0);
    CHECK_INT(dz_mm_brk(&r.mm, 0x401000 + K(64), &r.calls), 0x405000); /* with the data segment */
    CHECK_INT(dz_mm_brk(&r.mm, 0x401000, &r.calls), 0x401000);
    CHECK_INT(r.mm.total, 0);
    dz_mm_set_brk(&r.mm, 0x400001, 0, 99);
    CHECK(r.mm.brk_start > 0x401000 && r.mm.brk_start % K(4) == 0);
    close_rig(&r);
}

TEST(stacks_grow_by_faults)
{
    struct rig r;
    const struct dz_mm_limits limits = {NONE, NONE, K(1024), DZ_MM_VMAS_MAX};
    open_rig(&r, &limits);
    const uint64_t top = AT + K(8192), start = top - K(128);
    CHECK_INT(map(&r, start, K(128), RW, PRIVATE | MAP_FIXED | MAP_GROWSDOWN), (int64_t)start);
    r.calls.n = 0;
    CHECK_INT(dz_mm_fault(&r.mm, top, PROT_READ, &r.calls), -EFAULT);
    CHECK_INT(dz_mm_fault(&r.mm, start, PROT_WRITE, &r.calls), 1);
    CHECK_INT(dz_mm_fault(&r.mm, start, PROT_EXEC, &r.calls), -EACCES);
    CHECK_INT(dz_mm_fault(&r.mm, start - 1, PROT_WRITE, &r.calls), 0);
    CHECK_INT(dz_mm_find(&r.mm, 0)->start, start - K(64));
    CHECK_INT(r.calls.n, 1);
    CHECK_INT(r.calls.p[0].at, start - K(64));
    CHECK_INT(r.calls.p[0].flags & MAP_GROWSDOWN, 0); /* the host must not grow it by itself */
    CHECK_INT(dz_mm_fault(&r.mm, top - K(1024), PROT_READ, &r.calls), 0);
    CHECK_INT(dz_mm_fault(&r.mm, top - K(1024) - 1, PROT_READ, &r.calls), -EFAULT);
    /* a gap to what lies below; not to a guard page of the program's own */
    CHECK_INT(dz_mm_munmap(&r.mm, AT, K(8192) - K(64), &r.calls), 0);
    const uint64_t low = top - K(64);
    CHECK_INT(map(&r, low - K(1024), K(4), PROT_NONE, PRIVATE), (int64_t)(r.mm.mmap_base - K(4)));
    CHECK_INT(map(&r, low - K(8), K(4), PROT_READ, PRIVATE | MAP_FIXED), (int64_t)(low - K(8)));
    CHECK_INT(dz_mm_fault(&r.mm, low - 1, PROT_READ, &r.calls), -EFAULT);
    CHECK_INT(dz_mm_mprotect(&r.mm, low - K(8), K(4), PROT_NONE, &r.calls), 0);
    CHECK_INT(dz_mm_fault(&r.mm, low - 1, PROT_READ, &r.calls), 0);
    CHECK_INT(dz_mm_find(&r.mm, low)->start, low - K(4)); /* the page alone */
    close_rig(&r);
}

TEST(fork_copies_what_it_should)
{
    struct rig r;
    struct dz_mm child;
    open_rig(&r, &no_limits);
    (void)map(&r, AT, K(64), RW, PRIVATE | MAP_FIXED);
    CHECK_INT(dz_mm_madvise(&r.mm, AT + K(8), K(8), MADV_DONTFORK, &r.calls), 0);
    CHECK_INT(dz_mm_madvise(&r.mm, AT + K(32), K(8), MADV_WIPEONFORK, &r.calls), 0);
    const struct dz_mm_call *last = &r.calls.p[r.calls.n - 1];
    CHECK(last->op == DZ_MM_MADVISE && last->advice == MADV_WIPEONFORK && last->size == K(8));
    CHECK_INT(dz_mm_fork(&r.mm, &child), 0);
    dz_mm_assert(&child);
    CHECK_INT(child.total, K(56));
    CHECK_INT(child.vmas.n, 4);
    CHECK_INT(r.mm.vmas.n, 5);
    /* what grows at the end of such a VMA must have its advice on the host, too */
    CHECK_INT(dz_mm_munmap(&r.mm, AT + K(16), K(48), &r.calls), 0);
    const struct dz_mm_remap grow = {AT + K(8), K(8), K(16), 0, 0};
    r.calls.n = 0;
    CHECK_INT(dz_mm_mremap(&r.mm, &grow, &r.calls), (int64_t)(AT + K(8)));
    CHECK_INT(r.calls.n, 2);
    CHECK(r.calls.p[1].op == DZ_MM_MADVISE && r.calls.p[1].advice == MADV_DONTFORK);
    dz_mm_release(&child);
    close_rig(&r);
}

static void name(void *arg, const struct dz_mm_back *back, struct dz_mm_name *ret_name)
{
    (void)arg;
    *ret_name = (struct dz_mm_name){"/lib/a\nb", 8, 1, back->id, back->offset};
}

static void map_some(struct rig *r)
{
    const struct dz_mm_back file = {DZ_MM_FILE, 3, 77, K(4)}, object = {DZ_MM_OBJECT, 0, 5, 0};
    const struct dz_mm_back pack = {DZ_MM_PACK, 0, 1, K(512)};
    dz_mm_set_brk(&r->mm, 0x400000, 0, 0);
    (void)dz_mm_brk(&r->mm, 0x402001, &r->calls);
    (void)map_back(r, AT, K(8), PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_FIXED, pack);
    (void)map_back(r, AT + K(8), K(8), PROT_READ, MAP_SHARED | MAP_FIXED, file);
    (void)map_back(r, AT + K(64), K(8), RW, MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED, object);
    (void)map(r, r->mm.stack_top - K(132), K(132), RW, PRIVATE | MAP_FIXED | MAP_GROWSDOWN);
}

TEST(msync_names_the_shared_pages_of_files)
{
    struct rig r;
    open_rig(&r, &no_limits);
    map_some(&r);
    r.calls.n = 0;
    CHECK_INT(dz_mm_msync(&r.mm, AT, K(12), MS_SYNC, &r.calls), 0);
    CHECK_INT(r.calls.n, 1);
    CHECK(r.calls.p[0].op == DZ_MM_SYNC && r.calls.p[0].back.id == 77);
    CHECK(r.calls.p[0].size == K(4) && r.calls.p[0].back.offset == K(4));
    struct dz_mm_back private = {DZ_MM_FILE, 0, 78, 0};
    (void)map_back(&r, AT + K(16), K(4), RW, MAP_PRIVATE | MAP_FIXED, private);
    r.calls.n = 1;
    CHECK_INT(dz_mm_msync(&r.mm, AT + K(16), K(4), MS_SYNC, &r.calls), 0);
    CHECK_INT(dz_mm_msync(&r.mm, AT, K(12), MS_ASYNC, &r.calls), 0);
    CHECK_INT(r.calls.n, 1);
    close_rig(&r);
}

TEST(maps_reads_as_linux_writes_it)
{
    struct rig r;
    struct dz_buf text = DZ_BUF_INIT(DZ_MM_TEXT_MAX);
    const struct dz_mm_limits limits = no_limits;
    r.calls = (struct dz_mm_calls)DZ_VEC_INIT(DZ_MM_CALLS_MAX);
    dz_mm_init(&r.mm, 0, &limits, NULL, 0);
    map_some(&r);
    (void)map(&r, AT + K(128), K(4), PROT_NONE, PRIVATE | MAP_FIXED);
    (void)map(&r, 0x300000, K(4), PROT_READ | PROT_WRITE, PRIVATE | MAP_FIXED); /* below the heap */
    dz_mm_maps(&r.mm, name, NULL, &text);
    CHECK_STR(
        text.p,
        "00300000-00301000 rw-p 00000000 00:00 0 \n"
        "00400000-00403000 rw-p 00000000 00:00 0                                  [heap]\n"
        "200000000000-200000002000 r-xp 00080000 08:01 1                          /lib/a\\012b\n"
        "200000002000-200000004000 r--s 00001000 08:01 77                         /lib/a\\012b\n"
        "200000010000-200000012000 rw-s 00000000 08:01 5                          /lib/a\\012b\n"
        "200000020000-200000021000 ---p 00000000 00:00 0 \n"
        "7ffffffde000-7ffffffff000 rw-p 00000000 00:00 0                          [stack]\n");
    dz_buf_release(&text);
    close_rig(&r);
}

/* Row `from` with n bytes of VMA `vma` replaced, at `at` of it: what is said of it? */
static int spoiled(const struct dz_buf *from, size_t vma, size_t at, const void *bytes, size_t n)
{
    struct dz_mm mm;
    struct dz_buf row = DZ_BUF_INIT(DZ_MM_ROW_MAX);
    dz_buf_add(&row, from->p, from->len);
    memcpy(row.p + 104 + 56 * vma + at, bytes, n);
    int rc = dz_mm_decode((uint8_t *)row.p, row.len, ours, 1, &mm, NULL);
    if (rc == 0)
        dz_mm_release(&mm);
    dz_buf_release(&row);
    return rc;
}

TEST(rows_that_lie_are_refused)
{
    struct rig r;
    struct dz_buf row = DZ_BUF_INIT(DZ_MM_ROW_MAX);
    open_rig(&r, &no_limits);
    map_some(&r); /* 0 heap, 1 pack, 2 file, 3 object, 4 stack */
    dz_mm_encode(&r.mm, &row);
    const uint64_t start = AT, last = UINT64_MAX - K(4) + 1, odd = K(4) + 1;
    CHECK_INT(spoiled(&row, 0, 0, "", 0), 0);
    CHECK_INT(spoiled(&row, 2, 0, &start, 8), DZ_ECORRUPT); /* overlaps the one below */
    CHECK_INT(spoiled(&row, 1, 24, &last, 8), DZ_ECORRUPT); /* an offset that wraps around */
    CHECK_INT(spoiled(&row, 1, 24, &odd, 8), DZ_ECORRUPT);
    CHECK_INT(spoiled(&row, 0, 16, &start, 8), DZ_ECORRUPT); /* zeros of an inode */
    const uint64_t ids[2] = {1, K(520)};
    const uint32_t words[3] = {0, DZ_MM_PACK, 0};
    struct dz_buf joined = DZ_BUF_INIT(DZ_MM_ROW_MAX);
    dz_buf_add(&joined, row.p, row.len);
    memcpy(joined.p + 104 + 56 * 2 + 16, ids, 16);
    memcpy(joined.p + 104 + 56 * 2 + 32, words, 12);
    CHECK_INT(spoiled(&joined, 2, 44, "\1\7", 2), 0);
    CHECK_INT(spoiled(&joined, 2, 44, "\5\7", 2), DZ_ECORRUPT); /* one VMA as two */
    dz_buf_release(&joined);
    dz_buf_release(&row);
    close_rig(&r);
}

TEST(rows_come_back_and_hostile_ones_do_not)
{
    struct rig r;
    struct dz_mm back;
    struct dz_err err = {0};
    struct dz_buf row = DZ_BUF_INIT(DZ_MM_ROW_MAX), again = DZ_BUF_INIT(DZ_MM_ROW_MAX);
    int refused = 0;
    open_rig(&r, &no_limits);
    map_some(&r);
    dz_mm_encode(&r.mm, &row);
    CHECK_INT(row.len, 104 + 56 * r.mm.vmas.n);
    CHECK_INT(dz_mm_decode((uint8_t *)row.p, row.len, ours, 1, &back, &err), 0);
    CHECK(back.total == r.mm.total && back.data == r.mm.data && back.brk == r.mm.brk);
    dz_mm_encode(&back, &again);
    CHECK(again.len == row.len && memcmp(again.p, row.p, row.len) == 0);
    dz_mm_release(&back);
    const char *corpus =
        getenv("DZ_MM_CORPUS"); /* where to write the row that fuzzers begin with */
    FILE *f = corpus ? fopen(corpus, "w") : NULL;
    if (f && (fwrite(row.p, 1, row.len, f) != row.len || fclose(f) != 0))
        CHECK(false);
    /* each bit wrong: an error with a sentence, or a sound space that is written the same */
    for (size_t bit = 0; bit < row.len * 8; bit++) {
        row.p[bit / 8] ^= (char)(1 << bit % 8);
        int rc = dz_mm_decode((uint8_t *)row.p, row.len, ours, 1, &back, &err);
        if (rc == 0) {
            dz_mm_assert(&back);
            dz_buf_reset(&again);
            dz_mm_encode(&back, &again);
            CHECK(again.len == row.len && memcmp(again.p, row.p, row.len) == 0);
            dz_mm_release(&back);
        } else {
            CHECK_INT(rc, DZ_ECORRUPT);
            CHECK(strstr(err.msg, "saved address space") != NULL);
            refused++;
        }
        row.p[bit / 8] ^= (char)(1 << bit % 8);
    }
    CHECK(refused > 800);
    for (size_t n = 0; n < row.len; n++)
        CHECK_INT(dz_mm_decode((uint8_t *)row.p, n, ours, 1, &back, &err), DZ_ECORRUPT);
    const struct dz_mm_range other = {AT, AT + K(4)};
    CHECK_INT(dz_mm_decode((uint8_t *)row.p, row.len, &other, 1, &back, &err), DZ_ECORRUPT);
    dz_buf_release(&row);
    dz_buf_release(&again);
    close_rig(&r);
}

/* Whatever fails, the space is sound, and an operation that failed has changed nothing. */
TORTURE(memory_is_short)
{
    struct rig r;
    struct dz_mm child = {0};
    struct dz_err err;
    open_rig(&r, &no_limits);
    map_some(&r);
    for (uint64_t i = 0; i < 12; i++) {
        const uint64_t before = r.mm.total;
        const size_t calls = r.calls.n;
        int64_t rc = map(&r, AT + K(1024) * (i + 1), K(16), RW, PRIVATE | MAP_FIXED);
        CHECK(rc > 0 || rc == -ENOMEM);
        CHECK_INT(r.mm.total, before + (rc > 0 ? K(16) : 0));
        CHECK_INT(r.calls.n, calls + (rc > 0 ? 1 : 0));
        r.calls.err = 0;
        rc = dz_mm_mprotect(&r.mm, AT + K(1024) * (i + 1) + K(4), K(4), PROT_READ, &r.calls);
        CHECK(rc == 0 || rc == -ENOMEM);
        rc = dz_mm_madvise(&r.mm, AT + K(1024) * (i + 1), K(4), MADV_DONTFORK, &r.calls);
        CHECK(rc == 0 || rc == -ENOMEM);
        const struct dz_mm_remap grow = {AT + K(1024) * (i + 1), K(4), K(32), MREMAP_MAYMOVE, 0};
        rc = dz_mm_mremap(&r.mm, &grow, &r.calls);
        CHECK(rc > 0 || rc == -ENOMEM || rc == -EFAULT);
        r.calls.err = 0;
        dz_mm_assert(&r.mm);
    }
    (void)dz_mm_msync(&r.mm, AT, K(64), MS_SYNC, &r.calls);
    if (dz_mm_fork(&r.mm, &child) == 0)
        dz_mm_assert(&child);
    dz_mm_release(&child);
    struct dz_buf row = DZ_BUF_INIT(DZ_MM_ROW_MAX);
    dz_mm_encode(&r.mm, &row);
    if (!row.err) {
        int rc = dz_mm_decode((uint8_t *)row.p, row.len, ours, 1, &child, &err);
        CHECK(rc == 0 || rc == DZ_ENOMEM);
        if (rc == 0)
            dz_mm_release(&child);
    }
    dz_buf_release(&row);
    close_rig(&r);
}
