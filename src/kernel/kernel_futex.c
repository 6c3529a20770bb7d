/* SPDX-License-Identifier: MIT
 *
 * kernel_futex.c - futexes of Linux: wait, wake, requeue, wake_op, robust lists.
 *
 * A thread's row records its wait: a key, which the runner makes from an address, its bits, and its
 * position in line. So a saved machine keeps it, and a thread that repeats its call after a thaw
 * still waits in its old position, even if it was requeued. The word itself is checked once, when
 * the wait begins. A wake clears the bits; the thread, made runnable, sees that and returns 0.
 *
 * A thread that waits for several futexes is not in the hash: its row names a blob with the keys. A
 * wake looks through such threads last. The wake frees the blob and leaves the index of the futex.
 *
 * A thread that waits for a lock (futex_pi) is in the line of its futex like others, but only an
 * unlock, the end of the owner or a requeue takes it out: they store its number in the word and
 * wake it, so that it returns as the owner. Other wakes refuse (EINVAL) or skip it.
 *
 * The runner does the atomic changes (struct dz_word). No wake can come between the check of a word
 * and the wait, because the kernel serves one call at a time.
 *
 * Invariants:
 *   1. a thread is in the hash exactly when its futex_bits are not 0 (dz_k_futex_drop when
 *      it leaves, assert_linked when it enters, dz_k_assert_all for all);
 *   2. a bucket is in the order of futex_order (assert_linked);
 *   3. only a thread inside of dz_sys_futex_wait() has futex_bits: some call of it is
 *      parked (dz_k_assert_all; a row does not say which call that is);
 *   4. a thread with futex_pi has futex_bits (dz_k_assert_all);
 *   5. k->futex_alls threads have futex_all, and these have no futex_bits (dz_k_assert_all).
 */
#include "kernel/kernel_int.h"

#include <linux/capability.h>
enum {
    WAITERS = (int)0x80000000,
    OWNER_DIED = 0x40000000,
    TID_MASK = 0x3fffffff,
    SWAPS_MAX = 1000, /* attempts to change a word that other threads change, too */
    CHAIN_MAX = 1024, /* owners that wait for other owners, as on Linux */
};

static uint32_t *bucket(struct dz_kernel *k, const uint64_t key[2])
{
    uint64_t h = (key[0] * 31 + key[1] / 4) * UINT64_C(0x9e3779b97f4a7c15);
    return &k->futex_hash[h >> 56];
}
_Static_assert(DZ_K_HASH == 256, "the hash is one byte");

static uint32_t *bucket_of(struct dz_kernel *k, const struct dz_thread *t)
{
    return bucket(k, (const uint64_t[2]){t->futex_space, t->futex_at});
}

static void drop_all(struct dz_kernel *k, struct dz_thread *t)
{
    if (t->futex_all == 0)
        return;
    dz_k_blob_free(k, t->futex_all);
    t->futex_all = 0;
    k->futex_alls--;
}

void dz_k_futex_drop(struct dz_kernel *k, struct dz_thread *t)
{
    drop_all(k, t);
    if (t->futex_bits == 0)
        return;
    uint32_t *at = bucket_of(k, t);
    while (*at != t->index) {
        assert(*at != 0); /* invariant 1 */
        at = &dz_k_thread(k, *at)->futex_next;
    }
    *at = t->futex_next;
    t->futex_next = 0;
    t->futex_bits = t->futex_pi = 0;
}

/* t has entered its bucket behind `before`, which may be NULL. */
static void assert_linked(const struct dz_kernel *k, const struct dz_thread *t,
                          const struct dz_thread *before)
{
    const struct dz_thread *after = dz_k_thread(k, t->futex_next);
    assert(t->futex_bits != 0);
    assert(!before || (before != t && before->futex_order <= t->futex_order));
    assert(!after || (after != t && after->futex_order > t->futex_order));
}

void dz_k_futex_link(struct dz_kernel *k, struct dz_thread *t)
{
    t->futex_next = 0;
    k->futex_alls += t->futex_all != 0;
    if (t->futex_bits == 0)
        return;
    uint32_t *at = bucket_of(k, t);
    const struct dz_thread *before = NULL;
    for (struct dz_thread *i; (i = dz_k_thread(k, *at)) && i->futex_order <= t->futex_order;
         before = i)
        at = &i->futex_next;
    t->futex_next = *at;
    *at = t->index;
    assert_linked(k, t, before);
    if (t->futex_order > k->next_futex)
        k->next_futex = t->futex_order;
}

/* Append to the line. */
static void join(struct dz_kernel *k, struct dz_thread *t, const uint64_t key[2], uint32_t bits)
{
    assert(t->futex_all == 0);
    t->futex_space = key[0];
    t->futex_at = key[1];
    t->futex_bits = bits;
    t->futex_order = ++k->next_futex;
    dz_k_futex_link(k, t);
}

static bool waits_for(const struct dz_thread *t, const uint64_t key[2])
{
    return t->futex_space == key[0] && t->futex_at == key[1];
}

/* The first thread in line; only_pi: of those that wait for a lock. NULL: none. */
static struct dz_thread *first_of(struct dz_kernel *k, const uint64_t key[2], bool only_pi)
{
    struct dz_thread *t = dz_k_thread(k, *bucket(k, key));
    while (t && (!waits_for(t, key) || (only_pi && !t->futex_pi)))
        t = dz_k_thread(k, t->futex_next);
    return t;
}

/* Wake threads that wait for this futex among several. */
static uint32_t wake_alls(struct dz_kernel *k, const uint64_t key[2], uint32_t n)
{
    uint32_t woken = 0;
    if (k->futex_alls == 0)
        return 0;
    DZ_K_FOREACH(dz_thread, t, k, DZ_KERNEL_TABLE_THREAD)
    {
        size_t size = 0;
        const uint64_t(*keys)[2] = dz_k_blob(k, t->futex_all, &size);
        size_t i = 0, count = size / sizeof *keys;
        while (i < count && (keys[i][0] != key[0] || keys[i][1] != key[1]))
            i++;
        if (woken == n || i >= count)
            continue;
        drop_all(k, t);
        t->futex_at = i;
        dz_k_ready(k, t);
        woken++;
    }
    return woken;
}

static uint32_t wake(struct dz_kernel *k, const uint64_t key[2], uint32_t n, uint32_t bits)
{
    uint32_t woken = 0, next;
    for (uint32_t i = *bucket(k, key); i != 0 && woken < n; i = next) {
        struct dz_thread *t = dz_k_thread(k, i);
        next = t->futex_next;
        if (!waits_for(t, key) || !(t->futex_bits & bits) || t->futex_pi)
            continue;
        dz_k_futex_drop(k, t);
        dz_k_ready(k, t);
        woken++;
    }
    return woken < n ? woken + wake_alls(k, key, n - woken) : woken;
}

static uint32_t requeue(struct dz_kernel *k, const uint64_t from[2], const uint64_t to[2],
                        uint32_t n)
{
    uint32_t moved = 0, next;
    if (from[0] == to[0] && from[1] == to[1])
        return 0;
    for (uint32_t i = *bucket(k, from); i != 0 && moved < n; i = next) {
        struct dz_thread *t = dz_k_thread(k, i);
        uint32_t bits = t->futex_bits;
        next = t->futex_next;
        if (!waits_for(t, from) || t->futex_pi)
            continue;
        dz_k_futex_drop(k, t);
        join(k, t, to, bits);
        moved++;
    }
    return moved;
}

static int64_t key_of(struct dz_kernel *k, const struct dz_thread *t, struct dz_futex f,
                      uint64_t ret_key[2])
{
    struct dz_task *task = k->task[t->index];
    if (!task || !task->runner->key)
        return -ENOSYS;
    if (f.at % 4)
        return -EINVAL;
    return task->runner->key(task->runner_arg, task, f.at, f.shared, ret_key);
}

static int do_word(struct dz_kernel *k, const struct dz_thread *t, const struct dz_word *w,
                   uint32_t *ret_was)
{
    struct dz_task *task = k->task[t->index];
    if (!task || !task->runner->word) /* a file may say that a WebAssembly program waits */
        return -EFAULT;
    return task->runner->word(task->runner_arg, task, w, ret_was);
}

static int64_t load(struct dz_kernel *k, const struct dz_thread *t, uint64_t at, uint32_t *ret_word)
{
    const struct dz_word w = {.at = at, .op = DZ_WORD_LOAD};
    return do_word(k, t, &w, ret_word);
}

/* ---- calls ------------------------------------------------------------------------- */

static int64_t begin_wait(struct dz_kernel *k, struct dz_thread *t, struct dz_futex f,
                          uint32_t value, uint32_t bits)
{
    uint64_t key[2];
    uint32_t word;
    int64_t r = bits ? key_of(k, t, f, key) : -EINVAL;
    if (r == 0)
        r = load(k, t, f.at, &word);
    if (r)
        return r;
    if (word != value)
        return -EAGAIN;
    join(k, t, key, bits);
    return 0;
}

int64_t dz_sys_futex_wait(struct dz_kernel *k, struct dz_proc *p, struct dz_futex f, uint32_t value,
                          uint32_t bits, int64_t deadline)
{
    struct dz_call *c = dz_k_call(k, p);
    const struct dz_thread *t = dz_k_me(k, p);
    if (!(c->flags & DZ_CALL_BEGUN)) {
        int64_t r = begin_wait(k, dz_k_me(k, p), f, value, bits);
        if (r)
            return dz_k_end(k, p, r);
        c->flags = DZ_CALL_BEGUN | (deadline != INT64_MAX ? DZ_CALL_NORESTART : 0); /* as Linux */
        c->deadline = deadline;
    }
    if (t->futex_bits == 0)
        return dz_k_end(k, p, 0);
    if (dz_kernel_now(k) >= c->deadline)
        return dz_k_end(k, p, -ETIMEDOUT);
    if (c->intr)
        return dz_k_end(k, p, -EINTR);
    return dz_k_block(k, p);
}

static int64_t begin_all(struct dz_kernel *k, struct dz_thread *t, const struct dz_futex *f,
                         const uint32_t *values, size_t n)
{
    uint64_t keys[DZ_KERNEL_FUTEXES_MAX][2];
    for (size_t i = 0; i < n; i++) {
        uint32_t word;
        int64_t r = key_of(k, t, f[i], keys[i]);
        r = r ? r : load(k, t, f[i].at, &word);
        if (r || word != values[i])
            return r ? r : -EAGAIN;
    }
    t->futex_all = dz_k_blob_new(k, keys, n * sizeof keys[0]);
    k->futex_alls += t->futex_all != 0;
    return t->futex_all ? 0 : -ENOMEM;
}

int64_t dz_sys_futex_waitv(struct dz_kernel *k, struct dz_proc *p, const struct dz_futex *f,
                           const uint32_t *values, size_t n, int64_t deadline)
{
    struct dz_call *c = dz_k_call(k, p);
    const struct dz_thread *t = dz_k_me(k, p);
    if (!(c->flags & DZ_CALL_BEGUN)) {
        const int64_t r = n == 0 || n > DZ_KERNEL_FUTEXES_MAX
                              ? -EINVAL
                              : begin_all(k, dz_k_me(k, p), f, values, n);
        if (r)
            return dz_k_end(k, p, r);
        c->flags = DZ_CALL_BEGUN;
        c->deadline = deadline;
    }
    if (t->futex_all == 0)
        return dz_k_end(k, p, (int64_t)t->futex_at);
    if (dz_kernel_now(k) >= c->deadline)
        return dz_k_end(k, p, -ETIMEDOUT);
    if (c->intr)
        return dz_k_end(k, p, -EINTR);
    return dz_k_block(k, p);
}

bool dz_k_futex_ok(const struct dz_kernel *k, const struct dz_thread *t)
{
    size_t size = 0;
    if (t->futex_pi > DZ_FUTEX_COND || (t->futex_pi && t->futex_bits == 0))
        return false;
    if (t->futex_order > INT64_MAX || t->futex_all == 0)
        return t->futex_order <= INT64_MAX;
    return t->futex_bits == 0 && dz_k_blob(k, t->futex_all, &size) && size > 0 &&
           size % (2 * sizeof(uint64_t)) == 0 &&
           size <= DZ_KERNEL_FUTEXES_MAX * 2 * sizeof(uint64_t);
}

int64_t dz_sys_futex_wake(struct dz_kernel *k, struct dz_proc *p, struct dz_futex f, uint32_t n,
                          uint32_t bits)
{
    uint64_t key[2];
    if (bits == 0)
        return -EINVAL;
    int64_t r = key_of(k, dz_k_me(k, p), f, key);
    if (r == 0 && first_of(k, key, true))
        r = -EINVAL; /* it waits for a lock */
    return r ? r : wake(k, key, n, bits);
}

int64_t dz_sys_futex_requeue(struct dz_kernel *k, struct dz_proc *p, const struct dz_futex f[2],
                             const uint32_t n[2], const uint32_t *expect)
{
    const struct dz_thread *t = dz_k_me(k, p);
    uint64_t from[2], to[2];
    uint32_t word;
    int64_t r = key_of(k, t, f[0], from);
    if (r == 0)
        r = key_of(k, t, f[1], to);
    if (r == 0 && expect)
        r = load(k, t, f[0].at, &word);
    if (r)
        return r;
    if (expect && word != *expect)
        return -EAGAIN;
    if (first_of(k, from, true))
        return -EINVAL;
    uint32_t woken = wake(k, from, n[0], UINT32_MAX);
    return (int64_t)woken + requeue(k, from, to, n[1]);
}

/* A field of 12 bits with a sign. */
static int32_t argument(uint32_t bits)
{
    return (int32_t)(bits & 0xfff) - (bits & 0x800 ? 0x1000 : 0);
}

/* Does a <cmp> b, of the comparisons that FUTEX_WAKE_OP knows? */
static bool compares(uint32_t cmp, int32_t a, int32_t b)
{
    switch (cmp) {
    case 0:
        return a == b;
    case 1:
        return a != b;
    case 2:
        return a < b;
    case 3:
        return a <= b;
    case 4:
        return a > b;
    default:
        return a >= b;
    }
}

int64_t dz_sys_futex_wake_op(struct dz_kernel *k, struct dz_proc *p, const struct dz_futex f[2],
                             const uint32_t n[2], uint32_t op)
{
    static const enum dz_word_op ops[] = {DZ_WORD_SET, DZ_WORD_ADD, DZ_WORD_OR, DZ_WORD_ANDN,
                                          DZ_WORD_XOR};
    const struct dz_thread *t = dz_k_me(k, p);
    uint32_t what = op >> 28 & 7, cmp = op >> 24 & 15, was;
    uint64_t first[2], second[2];
    int64_t r = key_of(k, t, f[0], first);
    if (r == 0)
        r = key_of(k, t, f[1], second);
    if (r)
        return r;
    if (what >= sizeof ops / sizeof ops[0] || cmp > 5)
        return -ENOSYS;
    int32_t value = argument(op >> 12);
    if (op >> 31) /* FUTEX_OP_OPARG_SHIFT */
        value = (int32_t)(UINT32_C(1) << (value & 31));
    const struct dz_word w = {.at = f[1].at, .op = ops[what], .value = (uint32_t)value};
    r = do_word(k, t, &w, &was);
    if (r)
        return r;
    uint32_t woken = wake(k, first, n[0], UINT32_MAX);
    if (compares(cmp, (int32_t)was, argument(op)))
        woken += wake(k, second, n[1], UINT32_MAX);
    return woken;
}

/* ---- locks ---------------------------------------------------------------------------- */

/* Replace the word if it is still `old`: 1, or 0 and the word in *ret_was; -EFAULT. */
static int swap(struct dz_kernel *k, const struct dz_thread *t, uint64_t at, uint32_t old,
                uint32_t value, uint32_t *ret_was)
{
    const struct dz_word w = {.at = at, .op = DZ_WORD_SWAP_IF, .old = old, .value = value};
    const int e = do_word(k, t, &w, ret_was);
    return e ? e : *ret_was == old;
}

/* Would a wait for this owner end in a wait for `me`? The words are in guests' memory. */
static bool deadlocks(struct dz_kernel *k, const struct dz_thread *me,
                      const struct dz_thread *owner)
{
    for (int i = 0; owner && i < CHAIN_MAX; i++) {
        uint32_t word;
        if (owner == me)
            return true;
        if (owner->futex_pi != DZ_FUTEX_LOCK || load(k, owner, owner->lock_word, &word) != 0)
            return false;
        owner = dz_k_thread_find(k, (int32_t)(word & TID_MASK));
    }
    return owner != NULL;
}

/* Lock it for `to`, or note in the word that `to` waits. 1: locked; 0: its owner is to be waited
 * for. `me` makes the changes. */
static int64_t take(struct dz_kernel *k, const struct dz_thread *me, uint64_t at,
                    const uint64_t key[2], const struct dz_thread *to, bool try)
{
    uint32_t was;
    int64_t r = load(k, me, at, &was);
    for (int i = 0; r == 0 && i < SWAPS_MAX; i++) {
        const uint32_t word = was, owner = word & TID_MASK;
        uint32_t value = word | (uint32_t)WAITERS;
        if (owner == (uint32_t)to->tid)
            return -EDEADLK;
        if (owner == 0) {
            value = (word & OWNER_DIED) | (uint32_t)to->tid;
            if (first_of(k, key, true))
                value |= (uint32_t)WAITERS;
        } else {
            const struct dz_thread *has = dz_k_thread_find(k, (int32_t)owner);
            if (!has)
                return -ESRCH;
            if (try)
                return -EAGAIN;
            if (deadlocks(k, to, has))
                return -EDEADLK;
        }
        r = swap(k, me, at, word, value, &was);
        if (r == 1)
            return owner == 0;
    }
    return r < 0 ? r : -EAGAIN; /* other threads change it all the time */
}

/* Make t wait for the lock, behind all others. */
static void join_lock(struct dz_kernel *k, struct dz_thread *t, const uint64_t key[2],
                      uint64_t word)
{
    join(k, t, key, UINT32_MAX);
    t->futex_pi = DZ_FUTEX_LOCK;
    t->lock_space = key[0];
    t->lock_at = key[1];
    t->lock_word = word;
}

static int64_t begin_lock(struct dz_kernel *k, struct dz_thread *t, struct dz_futex f, bool try)
{
    uint64_t key[2];
    int64_t r = key_of(k, t, f, key);
    if (r)
        return r;
    r = take(k, t, f.at, key, t, try);
    if (r == 0)
        join_lock(k, t, key, f.at);
    return r;
}

/* Continue a wait that ends with a lock. */
static int64_t wait_for_lock(struct dz_kernel *k, struct dz_proc *p, const struct dz_call *c)
{
    const struct dz_thread *t = dz_k_me(k, p);
    if (t->futex_bits == 0)
        return dz_k_end(k, p, 0); /* it is the owner */
    if (dz_kernel_now(k) >= c->deadline)
        return dz_k_end(k, p, -ETIMEDOUT);
    return c->intr ? dz_k_end(k, p, -EINTR) : dz_k_block(k, p);
}

int64_t dz_sys_futex_lock(struct dz_kernel *k, struct dz_proc *p, struct dz_futex f, bool try,
                          int64_t deadline)
{
    struct dz_call *c = dz_k_call(k, p);
    if (!(c->flags & DZ_CALL_BEGUN)) {
        const int64_t r = begin_lock(k, dz_k_me(k, p), f, try);
        if (r)
            return dz_k_end(k, p, r > 0 ? 0 : r);
        c->flags = DZ_CALL_BEGUN | DZ_CALL_RESTART;
        c->deadline = deadline;
    }
    return wait_for_lock(k, p, c);
}

/* Give the lock, whose word is `was`, to the first that waits for it: 1; 0 if nobody does. -EAGAIN:
 * the word has changed. flags: more bits of the word. */
static int64_t hand_over(struct dz_kernel *k, const struct dz_thread *me, uint64_t at,
                         const uint64_t key[2], uint32_t was, uint32_t flags)
{
    struct dz_thread *to = first_of(k, key, true), *more = to;
    uint32_t now;
    do /* is there another one? */
        more = more ? dz_k_thread(k, more->futex_next) : NULL;
    while (more && (!waits_for(more, key) || !more->futex_pi));
    const uint32_t value =
        to ? (uint32_t)to->tid | flags | (more ? (uint32_t)WAITERS : 0) : flags & OWNER_DIED;
    const int r = swap(k, me, at, was, value, &now);
    if (r != 1)
        return r < 0 ? r : -EAGAIN;
    if (!to)
        return 0;
    dz_k_futex_drop(k, to);
    dz_k_ready(k, to);
    return 1;
}

int64_t dz_sys_futex_unlock(struct dz_kernel *k, struct dz_proc *p, struct dz_futex f)
{
    const struct dz_thread *t = dz_k_me(k, p);
    uint64_t key[2];
    int64_t r = key_of(k, t, f, key);
    for (int i = 0; i < SWAPS_MAX && (r == 0 || r == -EAGAIN); i++) {
        uint32_t word;
        r = load(k, t, f.at, &word);
        if (r)
            return r;
        if ((word & TID_MASK) != (uint32_t)t->tid)
            return -EPERM;
        r = hand_over(k, t, f.at, key, word, 0);
        if (r >= 0)
            return 0;
    }
    return r;
}

static int64_t begin_cond(struct dz_kernel *k, struct dz_thread *t, const struct dz_futex f[2],
                          uint32_t value)
{
    uint64_t lock[2];
    if (f[0].at == f[1].at)
        return -EINVAL;
    int64_t r = key_of(k, t, f[1], lock);
    if (r == 0)
        r = begin_wait(k, t, f[0], value, UINT32_MAX);
    if (r)
        return r;
    t->futex_pi = DZ_FUTEX_COND;
    t->lock_space = lock[0];
    t->lock_at = lock[1];
    t->lock_word = f[1].at;
    return 0;
}

int64_t dz_sys_futex_wait_requeue(struct dz_kernel *k, struct dz_proc *p,
                                  const struct dz_futex f[2], uint32_t value, int64_t deadline)
{
    struct dz_call *c = dz_k_call(k, p);
    const struct dz_thread *t = dz_k_me(k, p);
    if (!(c->flags & DZ_CALL_BEGUN)) {
        const int64_t r = begin_cond(k, dz_k_me(k, p), f, value);
        if (r)
            return dz_k_end(k, p, r);
        c->flags = DZ_CALL_BEGUN | DZ_CALL_RESTART;
        c->deadline = deadline;
    }
    /* Once it has been moved, the call cannot be repeated: the word has changed. */
    if (c->intr && t->futex_pi == DZ_FUTEX_LOCK)
        return dz_k_end(k, p, -EAGAIN);
    return wait_for_lock(k, p, c);
}

int64_t dz_sys_futex_requeue_lock(struct dz_kernel *k, struct dz_proc *p,
                                  const struct dz_futex f[2], uint32_t n, uint32_t expect)
{
    const struct dz_thread *me = dz_k_me(k, p);
    uint64_t from[2], lock[2];
    uint32_t word;
    int64_t r = key_of(k, me, f[0], from), done = 0;
    if (r == 0)
        r = key_of(k, me, f[1], lock);
    if (r == 0)
        r = load(k, me, f[0].at, &word);
    if (r)
        return r;
    if (word != expect)
        return -EAGAIN;
    for (struct dz_thread *t; done <= (int64_t)n && (t = first_of(k, from, false)); done++) {
        if (t->futex_pi != DZ_FUTEX_COND || t->lock_space != lock[0] || t->lock_at != lock[1])
            return done ? done : -EINVAL;
        r = take(k, me, f[1].at, lock, t, false);
        if (r < 0)
            return done ? done : r;
        const uint64_t at = t->lock_word;
        dz_k_futex_drop(k, t);
        if (r == 1)
            dz_k_ready(k, t);
        else
            join_lock(k, t, lock, at);
    }
    return done;
}

int64_t dz_sys_set_tid_address(struct dz_kernel *k, struct dz_proc *p, uint64_t at)
{
    struct dz_thread *t = dz_k_me(k, p);
    t->clear_tid = at;
    return t->tid;
}

int64_t dz_sys_set_robust_list(struct dz_kernel *k, struct dz_proc *p, uint64_t head, size_t size)
{
    if (size != 3 * sizeof(uint64_t)) /* next, offset of the word, the one being locked */
        return -EINVAL;
    dz_k_me(k, p)->robust = head;
    return 0;
}

int64_t dz_sys_get_robust_list(struct dz_kernel *k, struct dz_proc *p, int tid, uint64_t *ret_head)
{
    const struct dz_thread *t = tid == 0 ? dz_k_me(k, p) : dz_k_thread_find(k, tid);
    if (!t) /* process 1 has no thread */
        return dz_k_find(k, tid) ? -EPERM : -ESRCH;
    const struct dz_proc *of = dz_k_proc_of(k, t);
    const bool own = p->uid == of->uid && p->uid == of->euid && p->uid == of->suid;
    if (of != p && !own && !dz_k_capable(p, CAP_SYS_PTRACE))
        return -EPERM;
    *ret_head = t->robust;
    return 0;
}

/* ---- the end of a thread -------------------------------------------------------------- */

static void wake_at(struct dz_kernel *k, const struct dz_thread *t, uint64_t at)
{
    uint64_t key[2]; /* the other waiters may or may not use FUTEX_PRIVATE_FLAG */
    for (int shared = 0; shared < 2; shared++)
        if (key_of(k, t, (struct dz_futex){at, shared != 0}, key) == 0 &&
            wake(k, key, 1, UINT32_MAX) != 0)
            return;
}

/* One futex of the list: if the thread holds it, mark it so that its next owner learns of the
 * death. pending: it was being unlocked, perhaps after its word was set to 0 and before anyone was
 * woken. */
static int bury(struct dz_kernel *k, const struct dz_thread *t, uint64_t at, bool pending, bool pi)
{
    struct dz_word w = {.at = at, .op = DZ_WORD_SWAP_IF};
    uint32_t was;
    if (at % 4 || load(k, t, at, &w.old) != 0)
        return -EFAULT;
    for (;; w.old = was) {
        if (pending && !pi && w.old == 0)
            wake_at(k, t, at);
        if ((w.old & TID_MASK) != (uint32_t)t->tid)
            return 0;
        w.value = (w.old & (uint32_t)WAITERS) | OWNER_DIED;
        if (do_word(k, t, &w, &was) != 0)
            return -EFAULT;
        if (was == w.old)
            break;
    }
    if (!pi && (w.old & (uint32_t)WAITERS))
        wake_at(k, t, at);
    return 0;
}

/* Hand on the locks that the thread holds and others wait for, in a list of its own or not. Their
 * words are read where the waiting threads have them. */
static void hand_on(struct dz_kernel *k, const struct dz_thread *t)
{
    for (uint32_t b = 0; b < DZ_K_HASH; b++) {
        for (struct dz_thread *w = dz_k_thread(k, k->futex_hash[b]), *next; w; w = next) {
            uint32_t word;
            next = dz_k_thread(k, w->futex_next);
            const uint64_t key[2] = {w->lock_space, w->lock_at};
            if (w->futex_pi != DZ_FUTEX_LOCK || first_of(k, key, true) != w ||
                load(k, w, w->lock_word, &word) != 0)
                continue;
            const uint32_t owner = word & TID_MASK;
            if (owner == (uint32_t)t->tid || owner == 0)
                (void)hand_over(k, w, w->lock_word, key, word, OWNER_DIED);
        }
    }
}

/* The list is in the guest's memory: it may hold anything, or be cyclic. */
static void bury_all(struct dz_kernel *k, const struct dz_thread *t)
{
    struct dz_task *task = k->task[t->index];
    uint64_t head[3], entry, next = 0;
    if (task->runner->read(task->runner_arg, task, t->robust, head, sizeof head) != 0)
        return;
    uint64_t pending = head[2] & ~UINT64_C(1); /* bit 0 of each: with priority inheritance */
    entry = head[0] & ~UINT64_C(1);
    bool pi = head[0] & 1;
    for (int i = 0; entry != t->robust && i < DZ_KERNEL_ROBUST_MAX; i++) {
        bool more = task->runner->read(task->runner_arg, task, entry, &next, sizeof next) == 0;
        if (entry != pending && bury(k, t, entry + head[1], false, pi) != 0)
            return;
        if (!more)
            return;
        entry = next & ~UINT64_C(1);
        pi = next & 1;
    }
    if (pending)
        (void)bury(k, t, pending + head[1], true, head[2] & 1);
}

void dz_k_futex_exit(struct dz_kernel *k, struct dz_thread *t)
{
    struct dz_task *task = k->task[t->index];
    uint32_t was;
    if (!task || !task->runner->word)
        return;
    dz_k_futex_drop(k, t); /* no lock is handed to it */
    if (t->robust)
        bury_all(k, t);
    hand_on(k, t);
    const struct dz_word zero = {.at = t->clear_tid, .op = DZ_WORD_SET};
    if (t->clear_tid && do_word(k, t, &zero, &was) == 0)
        wake_at(k, t, t->clear_tid);
    t->robust = t->clear_tid = 0;
}
