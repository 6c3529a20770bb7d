/* SPDX-License-Identifier: MIT
 *
 * stub_patch.c - patched call sites: calls that need no signal.
 *
 * A signal with its frame is 1.7 to 2.1 µs of each call. Code of C libraries makes most calls by
 *
 *     b8 nr nr nr nr   mov $nr, %eax          ff 24 25 ss ss   jmp *0x050fssss
 *     0f 05            syscall                0f 05            (the rest of the address)
 *
 * and its function syscall() by `4c 8b 4c 24 08` (mov 8(%rsp), %r9) and the same second
 * instruction: there eax has the number, and the stub loads r9.
 *
 * Where such a site has trapped PATCH_HOT times, its first five bytes become a jump to an entry of
 * the stub (stub_guest.c), which saves the registers in the ctx, and answers the call from what the
 * ctx has, or reports it. The address
 * of the jump is taken from PATCH_TABLE; it is chosen so that the `syscall` instruction stays where
 * it was. So code that jumps to it, and a call that starts again (rip 2 bytes back), work as
 * before, by a trap.
 *
 * All sites of a machine share entries and table: entry N is site N of an address space. Which
 * address that is, is known here (struct stub_sites). The ctx has a copy, from which the stub knows
 * which calls it answers and where these return; a guest that changes it deceives only itself. A
 * guest that jumps to an entry at will makes the call of a site, or one that does not exist.
 *
 * A call by a site is "light": there is no frame, and so no extended registers, and no way to load
 * all registers. Most calls change rax only, and the stub goes back. Otherwise this side has the
 * stub raise a signal (STUB_FRAME); then the thread is like any other (dz_stub_whole).
 *
 * A patch is derived state. It is not shown by read(), so it is not saved, and not inherited by
 * exec. A list that changes a patched page, or the page of the table, restores the bytes first.
 *
 * gs_base of threads with sites is the address of their ctx. A guest that sets gs_base itself keeps
 * its own: the entry finds that this is no ctx, and traps.
 */
#include "stub/stub_int.h"

#include "base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
    SITE_SIZE = PATCH_SIZE, /* bytes of both instructions */
    CHANGED = 5,            /* of them are changed */
};
static const uint8_t loads[CHANGED] = {0x4c, 0x8b, 0x4c, 0x24, PATCH_LOADS};

/* ---- the sites of an address space -------------------------------------------------------- */

struct stub_sites *dz_stub_sites_new(const struct stub_sites *from)
{
    struct stub_sites *s = dz_zalloc(sizeof *s);
    if (!s)
        return NULL;
    if (from)
        *s = *from;
    s->refs = 1;
    return s;
}

void dz_stub_sites_unref(struct stub_sites *s)
{
    if (s && --s->refs == 0)
        dz_free(s);
}

static struct stub_site *site_of(struct stub_sites *s, uint32_t number)
{
    return s && number > 0 && number <= s->count ? &s->sites[number] : NULL;
}

/* The bytes that a site has without its patch. */
static void original(const struct stub_site *site, uint8_t ret_bytes[CHANGED])
{
    const uint8_t mov[CHANGED] = {0xb8, (uint8_t)site->number, (uint8_t)(site->number >> 8), 0, 0};
    memcpy(ret_bytes, site->number == PATCH_ANY ? loads : mov, CHANGED);
}
/* Is it a site? Then its number is set. */
static bool recognized(const uint8_t code[SITE_SIZE], struct stub_site *site)
{
    uint8_t same[CHANGED];
    site->number = memcmp(code, loads, CHANGED) == 0 ? PATCH_ANY : code[1] | (uint32_t)code[2] << 8;
    original(site, same);
    return memcmp(code, same, CHANGED) == 0 && code[CHANGED] == 0x0f && code[CHANGED + 1] == 0x05;
}

/* Overwrite the bytes of live patches in what was read from `at`. */
void dz_stub_patch_hide(const struct stub_sites *s, uint64_t at, void *bytes, size_t n)
{
    if (!s || s->live == 0 || at >= s->high || at + n <= s->low)
        return;
    for (uint32_t i = 1; i <= s->count; i++) {
        const struct stub_site *site = &s->sites[i];
        uint8_t bytes_of[CHANGED];
        original(site, bytes_of);
        for (uint64_t k = 0; site->live && k < CHANGED; k++)
            if (site->at + k >= at && site->at + k < at + n)
                ((uint8_t *)bytes)[site->at + k - at] = bytes_of[k];
    }
}

/* ---- changing bytes ----------------------------------------------------------------------- */

/* Another thread may execute the site meanwhile: its first byte is `int3` until the rest is there,
 * and dz_stub_patch_trapped() makes a thread that finds this try again. */
static int change(struct host *h, uint32_t thread, uint64_t at, const uint8_t *bytes)
{
    const struct dz_stub_ops *ops = h->stub.ops;
    const uint64_t page = at & ~(uint64_t)(DZ_MM_PAGE - 1);
    const uint8_t int3 = 0xcc;
    struct stub_call open = {
        SYS_mprotect, {page, DZ_MM_PAGE, PROT_READ | PROT_WRITE | PROT_EXEC}, 0};
    struct stub_call shut = {SYS_mprotect, {page, DZ_MM_PAGE, PROT_READ | PROT_EXEC}, 0};
    if (dz_stub_calls(h, thread, &open, 1) < 0)
        return -ESRCH;
    if (open.result != 0)
        return -EACCES;
    const bool done = ops->write(&h->stub, thread, at, &int3, 1) == 1 &&
                      ops->write(&h->stub, thread, at + 1, bytes + 1, CHANGED - 1) == CHANGED - 1 &&
                      ops->write(&h->stub, thread, at, bytes, 1) == 1;
    if (dz_stub_calls(h, thread, &shut, 1) < 0 || shut.result != 0 || !done) {
        dz_stub_kill(h, h->threads[thread].group); /* its code is not as it was */
        return -ESRCH;
    }
    return 0;
}

static void restore(struct host *h, uint32_t thread, struct stub_sites *s, struct stub_site *site)
{
    if (dz_stub_flush(h, thread) < 0) /* its list is where that of change() will be */
        return;
    uint8_t bytes[CHANGED];
    original(site, bytes);
    site->live = false; /* from here on read() shows what is there */
    s->live--;
    (void)change(h, thread, site->at, bytes);
}

void dz_stub_patch_leave(struct host *h, uint32_t thread, uint64_t start, uint64_t end)
{
    struct stub_sites *s = h->threads[thread].sites;
    if (!s || !s->mapped)
        return;
    const bool table = start < PATCH_TABLE + DZ_MM_PAGE && end > PATCH_TABLE;
    for (uint32_t i = 1; i <= s->count && s->live; i++) {
        const uint64_t page = s->sites[i].at & ~(uint64_t)(DZ_MM_PAGE - 1);
        if (s->sites[i].live && (table || (page < end && page + DZ_MM_PAGE > start)))
            restore(h, thread, s, &s->sites[i]);
    }
    s->off = s->off || table;
}

/* The table, as a file that stubs map: the addresses of the entries. */
static int table_make(struct host *h)
{
    uint64_t entries[PATCH_SITES];
    if (h->table)
        return 0;
    const int fd = memfd_create("doze-entries", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0)
        return -ENOMEM;
    for (uint32_t i = 0; i < PATCH_SITES; i++)
        entries[i] = h->entries_at + i * PATCH_ENTRY_SIZE;
    int rc = write(fd, entries, sizeof entries) == (ssize_t)sizeof entries &&
                     fcntl(fd, F_ADD_SEALS,
                           F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0
                 ? 0
                 : -ENOMEM;
    if (rc == 0)
        rc = h->stub.ops->file(&h->stub, fd, &h->table);
    (void)close(fd);
    return rc;
}

static int table_map(struct host *h, uint32_t thread, struct stub_sites *s)
{
    int rc = s->mapped ? 0 : table_make(h);
    if (rc < 0 || s->mapped)
        return rc;
    struct stub_call map = {
        SYS_mmap, {PATCH_TABLE, DZ_MM_PAGE, PROT_READ, MAP_SHARED | MAP_FIXED, h->table, 0}, 0};
    rc = dz_stub_calls(h, thread, &map, 1);
    s->mapped = rc == 0 && map.result == (int64_t)PATCH_TABLE;
    return s->mapped ? 0 : rc < 0 ? rc : -ENOMEM;
}

static int patch(struct dz_stub *stub, uint32_t thread, uint64_t at)
{
    struct host *h = host_of(stub);
    struct thread *t = stopped_of(h, thread);
    struct stub_sites *s = t->sites;
    uint8_t code[SITE_SIZE];
    if (!h->direct || !s || s->off || s->count + 1 >= PATCH_SITES || t->state == T_DEAD)
        return -EOPNOTSUPP;
    if (at % DZ_MM_PAGE > DZ_MM_PAGE - SITE_SIZE || t->regs.gs_base)
        return -EINVAL;
    for (uint32_t i = 1; i <= s->count; i++)
        if (s->sites[i].at == at && s->sites[i].live)
            return -EEXIST;
    struct stub_site site = {.at = at};
    if (stub->ops->read(stub, thread, at, code, sizeof code) != sizeof code ||
        !recognized(code, &site))
        return -EINVAL;
    const uint32_t number = s->count + 1, slot = number * 8;
    const uint8_t jmp[CHANGED] = {0xff, 0x24, 0x25, (uint8_t)slot, (uint8_t)(slot >> 8)};
    int rc = table_map(h, thread, s);
    if (rc < 0)
        return rc;
    s->sites[number] = site;
    rc = change(h, thread, at, jmp);
    if (rc < 0)
        return rc;
    s->count = number;
    s->sites[number].live = true;
    s->live++;
    s->low = s->low && s->low < at ? s->low : at;
    s->high = s->high > at + CHANGED ? s->high : at + CHANGED;
    return 0;
}

/* ---- calls -------------------------------------------------------------------------------- */

/* The registers of a call at this site; a site that is none: a call that is none, to nowhere. Flags
 * that the key does not have are in t->regs. eax: of the guest. */
static void regs_at_site(struct thread *t, uint32_t key, uint32_t eax)
{
    const struct stub_site *site = site_of(t->sites, patch_key_site(key));
    struct dz_stub_regs *r = &t->regs;
    r->rax = !site ? UINT64_MAX : site->number == PATCH_ANY ? eax : site->number;
    r->rip = site ? site->at + SITE_SIZE : 0;
    r->rflags = (r->rflags & ~PATCH_FLAGS) | patch_key_flags(key);
    r->rcx = r->rip;
    r->r11 = r->rflags;
}

bool dz_stub_patch_light(struct host *h, uint32_t number)
{
    struct thread *t = &h->threads[number];
    struct stub_ctx *c = ctx_of(h, number);
    if (atomic_load_explicit(&c->light, memory_order_relaxed) != LIGHT_CALL)
        return false;
    memcpy(&t->regs, c->back, 18 * 8);
    regs_at_site(t, *(volatile uint32_t *)&c->key, (uint32_t)t->regs.rax);
    return true;
}

/* The thread jumped to an entry, whose code trapped at once, because gs_base is the guest's, or the
 * direction flag is set. What the stub loads elsewhere is loaded here. */
static void at_bare(struct host *h, struct thread *t, struct dz_stub_event *e)
{
    const uint32_t key = (uint32_t)t->regs.rax;
    const struct stub_site *site = site_of(t->sites, patch_key_site(key));
    if (!site)
        return;
    regs_at_site(t, key, (uint32_t)(t->regs.rax >> 32));
    const uint64_t from = t->regs.rsp + PATCH_LOADS;
    if (site->number != PATCH_ANY ||
        h->stub.ops->read(&h->stub, e->thread, from, &t->regs.r9, 8) == 8)
        return;
    t->regs.rip = site->at;
    *e = (struct dz_stub_event){.kind = DZ_STUB_FAULT,
                                .thread = e->thread,
                                .signo = SIGSEGV,
                                .code = SEGV_MAPERR,
                                .addr = from,
                                .trap = 14,
                                .error = 4 /* a read by the guest */};
}

/* Did the thread find the `int3` of change(), which is gone by now? */
static bool was_changing(struct host *h, uint32_t number, const struct stub_sites *s)
{
    const uint64_t at = h->threads[number].regs.rip - 1;
    uint8_t now = 0xcc;
    for (uint32_t i = 1; i <= s->count; i++)
        if (s->sites[i].at == at)
            return h->stub.ops->read(&h->stub, number, at, &now, 1) == 1 && now != 0xcc;
    return false;
}

void dz_stub_patch_trapped(struct host *h, struct thread *t, struct dz_stub_event *e)
{
    struct stub_sites *s = t->sites;
    if (e->kind == DZ_STUB_FAULT && e->signo == SIGTRAP && s && was_changing(h, e->thread, s)) {
        t->regs.rip--;
        e->kind = DZ_STUB_STOPPED;
    }
    if (e->kind != DZ_STUB_CALL || e->arch != STUB_ARCH || !s || !h->direct)
        return;
    if (t->regs.rip == h->bare_at) {
        at_bare(h, t, e);
        return;
    }
    e->hot = *(volatile uint32_t *)&ctx_of(h, e->thread)->hot != 0;
}

void dz_stub_patch_tell(struct host *h, uint32_t number)
{
    struct thread *t = &h->threads[number];
    const struct stub_sites *s = t->sites;
    for (; s && t->told < s->count; t->told++) {
        const struct stub_site *site = &s->sites[t->told + 1];
        ctx_of(h, number)->sites[t->told + 1] = patch_site(site->at + SITE_SIZE, site->number);
    }
}

bool dz_stub_patch_back(struct host *h, uint32_t number)
{
    struct thread *t = &h->threads[number];
    struct stub_ctx *c = ctx_of(h, number);
    struct dz_stub_regs same = t->called;
    same.rax = t->regs.rax;
    if (!t->light || memcmp(&same, &t->regs, sizeof same) != 0) {
        dz_stub_whole(h, number);
        return false;
    }
    t->light = false;
    c->back[REG_RAX] = t->regs.rax;
    c->back[REG_RIP] = t->regs.rip;
    return true;
}

void dz_stub_whole(struct host *h, uint32_t number)
{
    struct thread *t = &h->threads[number];
    const bool light = t->light;
    t->light = false;
    if (light && t->state != T_DEAD)
        (void)dz_stub_order(h, number, STUB_FRAME); /* if it dies, an event reports that */
}

void dz_stub_ops_patch(struct dz_stub_ops *ops)
{
    ops->patch = patch;
}
