/* SPDX-License-Identifier: MIT
 * Futexes: who is woken, in which order, after requeues, sleeps and deaths. */
#include "../lib/kernel_rig.h"
#include "tap.h"

enum {
    A = 0, /* addresses of words */
    B = 4,
    MUTEX = 8,
    HEAD = 64, /* of a robust list */
    NODE = 96,
    NODE_2 = 128,
};
static const struct dz_futex on_a = {.at = A}, on_b = {.at = B};
static uint32_t order[16], orders;

static int64_t wait_on(struct fib *f, struct dz_futex on, uint32_t bits)
{
    return SYS(f, dz_sys_futex_wait(FK(f), on, 0, bits, INT64_MAX));
}
static int64_t wake_on(struct fib *f, struct dz_futex on, uint32_t n)
{
    return SYS(f, dz_sys_futex_wake(FK(f), on, n, UINT32_MAX));
}
/* Waits for A and notes that it came back. */
static int waiter(struct fib *f)
{
    int64_t r = wait_on(f, on_a, UINT32_MAX);
    order[orders++ % 16] = r == 0 ? (uint32_t)dz_sys_gettid(FK(f)) : 0;
    (void)SYS(f, dz_sys_exit_thread(FK(f), 0));
    return 97;
}
static int wakes(struct fib *f)
{
    int32_t tid[4];
    orders = 0;
    for (int i = 0; i < 4; i++)
        tid[i] = fib_thread(f, waiter);
    fib_sleep(f, 1);
    OK(f, wake_on(f, on_b, 9) == 0);
    for (f->r->space = 0; f->r->space < 1000; f->r->space++) /* other keys, some in its bucket */
        OK(f, wake_on(f, (struct dz_futex){A, true}, 9) == 0);
    OK(f, wake_on(f, on_a, 1) == 1);
    OK(f, wake_on(f, on_a, 2) == 2);
    fib_sleep(f, 1);
    OK(f, orders == 3 && order[0] == (uint32_t)tid[0] && order[2] == (uint32_t)tid[2]);
    OK(f, wake_on(f, on_a, 9) == 1 && wake_on(f, on_a, 9) == 0);
    f->r->words[A / 4] = 5;
    OK(f, wait_on(f, on_a, UINT32_MAX) == -EAGAIN);
    OK(f, wait_on(f, on_b, 0) == -EINVAL);
    OK(f, wait_on(f, (struct dz_futex){.at = 2}, 1) == -EINVAL);
    OK(f, wait_on(f, (struct dz_futex){.at = 4096}, 1) == -EFAULT);
    return 0;
}
TEST(futex_wakes_the_oldest_first_and_looks_at_the_word)
{
    struct krig r;
    CHECK_INT(krig_main_as(wakes, 0, &r), 0);
    CHECK_INT(krig_stop(&r), 0);
}

/* ---- bits, times, signals ------------------------------------------------------------ */

static int waits_for_bit_1(struct fib *f)
{
    order[orders++ % 16] = wait_on(f, on_a, 1) == 0 ? 1 : 0;
    (void)SYS(f, dz_sys_exit_thread(FK(f), 0));
    return 97;
}
static int waits_for_bit_2(struct fib *f)
{
    order[orders++ % 16] = wait_on(f, on_a, 2) == 0 ? 2 : 0;
    (void)SYS(f, dz_sys_exit_thread(FK(f), 0));
    return 97;
}
static void nothing(struct fib *f, int signo)
{
    (void)f, (void)signo;
}
static int wakes_itself_later(struct fib *f)
{
    fib_sleep(f, 20);
    (void)wake_on(f, on_b, 1);
    (void)SYS(f, dz_sys_exit_thread(FK(f), 0));
    return 97;
}
static int bits(struct fib *f)
{
    const struct dz_sigact once = {.handler = 2}, again = {.handler = 2, .flags = SA_RESTART};
    const int64_t ten_ms[2] = {0, 10000000};
    orders = 0;
    (void)fib_thread(f, waits_for_bit_1);
    (void)fib_thread(f, waits_for_bit_2);
    fib_sleep(f, 1);
    OK(f, SYS(f, dz_sys_futex_wake(FK(f), on_a, 9, 0)) == -EINVAL);
    OK(f, SYS(f, dz_sys_futex_wake(FK(f), on_a, 9, 2)) == 1);
    OK(f, SYS(f, dz_sys_futex_wake(FK(f), on_a, 9, 2)) == 0);
    fib_sleep(f, 1);
    OK(f, orders == 1 && order[0] == 2);
    OK(f, wake_on(f, on_a, 9) == 1);
    int64_t now = dz_kernel_now(f->k);
    OK(f, SYS(f, dz_sys_futex_wait(FK(f), on_a, 0, 1, now + 5000000)) == -ETIMEDOUT);
    OK(f, dz_kernel_now(f->k) == now + 5000000 && wake_on(f, on_a, 9) == 0);
    f->handler[2] = nothing;
    OK(f, dz_sys_sigaction(FK(f), SIGALRM, &once, NULL) == 0);
    OK(f, dz_sys_setitimer(FK(f), ITIMER_REAL, ten_ms, NULL) == 0);
    OK(f, wait_on(f, on_b, 1) == -EINTR && wake_on(f, on_b, 9) == 0);
    OK(f, dz_sys_sigaction(FK(f), SIGALRM, &again, NULL) == 0);
    OK(f, dz_sys_setitimer(FK(f), ITIMER_REAL, ten_ms, NULL) == 0);
    (void)fib_thread(f, wakes_itself_later);
    OK(f, wait_on(f, on_b, 1) == 0);
    return 0;
}
TEST(futex_waits_end_by_bits_times_and_signals)
{
    struct krig r;
    CHECK_INT(krig_main_as(bits, 0, &r), 0);
    CHECK_INT(krig_stop(&r), 0);
}

/* ---- requeue, wake_op ------------------------------------------------------------------ */

static int requeues(struct fib *f)
{
    const struct dz_futex a_b[2] = {on_a, on_b}, b_a[2] = {on_b, on_a};
    const uint32_t one_two[2] = {1, 2}, none_all[2] = {0, 99}, one_one[2] = {1, 1}, six = 6;
    int32_t tid[4];
    orders = 0;
    for (int i = 0; i < 4; i++)
        tid[i] = fib_thread(f, waiter);
    fib_sleep(f, 1);
    OK(f, SYS(f, dz_sys_futex_requeue(FK(f), a_b, one_two, &six)) == -EAGAIN);
    f->r->words[A / 4] = 6;
    OK(f, SYS(f, dz_sys_futex_requeue(FK(f), a_b, one_two, &six)) == 3);
    fib_sleep(f, 1);
    OK(f, orders == 1 && order[0] == (uint32_t)tid[0]);
    OK(f, wake_on(f, on_b, 1) == 1);
    OK(f, SYS(f, dz_sys_futex_requeue(FK(f), b_a, none_all, NULL)) == 1); /* behind the fourth */
    OK(f, wake_on(f, on_b, 9) == 0 && wake_on(f, on_a, 1) == 1);
    fib_sleep(f, 1);
    OK(f, orders == 3 && order[1] == (uint32_t)tid[1] && order[2] == (uint32_t)tid[3]);
    /* FUTEX_OP_ADD 3, and wake the second if the old value was greater than 4 */
    const uint32_t op = 1u << 28 | 4u << 24 | 3u << 12 | 4;
    OK(f, SYS(f, dz_sys_futex_wake_op(FK(f), b_a, one_one, op)) == 1);
    OK(f, f->r->words[A / 4] == 9);
    f->r->words[B / 4] = 1;
    (void)SYS(f, dz_sys_futex_wake_op(FK(f), a_b, one_one, 0u << 28 | 0xffeu << 12)); /* -2 */
    OK(f, f->r->words[B / 4] == (uint32_t)-2);
    (void)SYS(f, dz_sys_futex_wake_op(FK(f), a_b, one_one, 1u << 31 | 3u << 28 | 1u << 12));
    OK(f, f->r->words[B / 4] == (uint32_t)-4); /* less the bit 1 << 1 */
    OK(f, SYS(f, dz_sys_futex_wake_op(FK(f), a_b, one_one, 5u << 28)) == -ENOSYS);
    OK(f, SYS(f, dz_sys_futex_wake_op(FK(f), a_b, one_one, 6u << 24)) == -ENOSYS);
    fib_sleep(f, 1);
    OK(f, orders == 4 && order[3] == (uint32_t)tid[2]);
    return 0;
}
TEST(futex_waiters_are_moved_and_words_changed)
{
    struct krig r;
    CHECK_INT(krig_main_as(requeues, 0, &r), 0);
    CHECK_INT(krig_stop(&r), 0);
}

/* ---- the end of a thread ------------------------------------------------------------------ */

/* A list of two, of which it holds one; its number is cleared. */
static int dies_holding(struct fib *f)
{
    uint64_t head[3] = {NODE, (uint64_t)MUTEX - NODE, 0};
    uint64_t first = NODE_2, second = HEAD;
    uint32_t *w = f->r->words, tid = (uint32_t)dz_sys_gettid(FK(f));
    memcpy((char *)w + HEAD, head, sizeof head);
    memcpy((char *)w + NODE, &first, sizeof first);
    memcpy((char *)w + NODE_2, &second, sizeof second);
    w[MUTEX / 4] = tid | 0x80000000;
    w[(MUTEX + NODE_2 - NODE) / 4] = 1;
    w[B / 4] = tid;
    OK(f, dz_sys_set_robust_list(FK(f), HEAD, 8) == -EINVAL);
    OK(f, dz_sys_set_robust_list(FK(f), HEAD, 24) == 0);
    OK(f, dz_sys_set_tid_address(FK(f), B) == tid);
    fib_sleep(f, 5);
    (void)SYS(f, dz_sys_exit_thread(FK(f), 0));
    return 97;
}
static int joins(struct fib *f)
{
    uint32_t *w = f->r->words;
    uint32_t tid = (uint32_t)fib_thread(f, dies_holding);
    fib_sleep(f, 1);
    const struct dz_futex mutex = {.at = MUTEX, .shared = true};
    OK(f, SYS(f, dz_sys_futex_wait(FK(f), mutex, tid | 0x80000000, 1, INT64_MAX)) == 0);
    OK(f, w[MUTEX / 4] == (0x80000000 | 0x40000000)); /* its owner died */
    OK(f, w[(MUTEX + NODE_2 - NODE) / 4] == 1);       /* another's */
    OK(f, w[B / 4] == 0);
    tid = (uint32_t)fib_thread(f, dies_holding);
    fib_sleep(f, 1);
    OK(f, SYS(f, dz_sys_futex_wait(FK(f), on_b, tid, 1, INT64_MAX)) == 0); /* pthread_join */
    uint64_t round = NODE; /* a list that goes round */
    memcpy((char *)w + NODE, &round, sizeof round);
    OK(f, dz_sys_set_robust_list(FK(f), HEAD, 24) == 0);
    return 0;
}
TEST(futex_of_a_thread_that_ends_tells_who_waits)
{
    struct krig r;
    CHECK_INT(krig_main_as(joins, 0, &r), 0);
    CHECK_INT(krig_stop(&r), 0);
}

/* ---- locks ------------------------------------------------------------------------------- */

static const struct dz_futex on_lock = {.at = MUTEX}, a_lock[2] = {{.at = A}, {.at = MUTEX}};
static uint32_t *lock_of(struct fib *f)
{
    return &f->r->words[MUTEX / 4];
}
static int64_t lock_it(struct fib *f, bool try, int64_t deadline)
{
    return SYS(f, dz_sys_futex_lock(FK(f), on_lock, try, deadline));
}
static int64_t unlock_it(struct fib *f)
{
    return SYS(f, dz_sys_futex_unlock(FK(f), on_lock));
}
/* Notes that it got the lock, and ends as its owner or not. */
static int locker(struct fib *f)
{
    OK(f, lock_it(f, false, INT64_MAX) == 0);
    order[orders++ % 16] = *lock_of(f);
    if (f->note[0] == 0 && orders < 3)
        OK(f, unlock_it(f) == 0);
    (void)SYS(f, dz_sys_exit_thread(FK(f), 0));
    return 97;
}
/* Has the lock B and waits for the other one. */
static int crosser(struct fib *f)
{
    OK(f, SYS(f, dz_sys_futex_lock(FK(f), on_b, false, INT64_MAX)) == 0);
    OK(f, lock_it(f, false, INT64_MAX) == 0 && unlock_it(f) == 0);
    OK(f, SYS(f, dz_sys_futex_unlock(FK(f), on_b)) == 0);
    (void)SYS(f, dz_sys_exit_thread(FK(f), 0));
    return 97;
}
static int cond_waiter(struct fib *f)
{
    OK(f, SYS(f, dz_sys_futex_wait_requeue(FK(f), a_lock, 0, INT64_MAX)) == 0);
    order[orders++ % 16] = *lock_of(f);
    (void)SYS(f, dz_sys_exit_thread(FK(f), 0));
    return 97;
}
static int locks(struct fib *f)
{
    const uint32_t me = (uint32_t)dz_sys_gettid(FK(f));
    uint32_t tid[3], one[2] = {1, 1};
    orders = 0;
    OK(f, lock_it(f, false, INT64_MAX) == 0 && *lock_of(f) == me);
    OK(f, lock_it(f, false, INT64_MAX) == -EDEADLK && lock_it(f, true, INT64_MAX) == -EDEADLK);
    for (int i = 0; i < 3; i++)
        tid[i] = (uint32_t)fib_thread(f, locker);
    fib_sleep(f, 1);
    OK(f, *lock_of(f) == (me | 0x80000000) && orders == 0);
    OK(f, wake_on(f, on_lock, 1) == -EINVAL);
    OK(f, SYS(f, dz_sys_futex_requeue(FK(f), (struct dz_futex[]){on_lock, on_b}, one, NULL)) ==
              -EINVAL);
    OK(f, unlock_it(f) == 0);
    OK(f, *lock_of(f) == (tid[0] | 0x80000000) && unlock_it(f) == -EPERM);
    OK(f, lock_it(f, true, INT64_MAX) == -EAGAIN);
    OK(f, lock_it(f, false, INT64_MAX) == 0 && orders == 3); /* the third ended as its owner */
    OK(f, order[0] == (tid[0] | 0x80000000) && (order[2] & 0xffff) == tid[2]);
    OK(f, *lock_of(f) == (me | 0x40000000) && unlock_it(f) == 0);
    *lock_of(f) = 9999;
    OK(f, lock_it(f, false, INT64_MAX) == -ESRCH);
    *lock_of(f) = 0x40000000;
    OK(f, lock_it(f, true, INT64_MAX) == 0 && *lock_of(f) == (me | 0x40000000));
    OK(f, unlock_it(f) == 0 && *lock_of(f) == 0);

    f->r->words[B / 4] = 0;
    OK(f, lock_it(f, false, INT64_MAX) == 0);
    (void)fib_thread(f, crosser);
    fib_sleep(f, 1);
    OK(f, SYS(f, dz_sys_futex_lock(FK(f), on_b, false, INT64_MAX)) == -EDEADLK);
    OK(f, unlock_it(f) == 0);
    fib_sleep(f, 1);
    OK(f, *lock_of(f) == 0 && f->r->words[B / 4] == 0);

    /* An owner that ends hands the lock on, and says how. */
    orders = 8;
    f->r->words[A / 4] = 0;
    tid[0] = (uint32_t)fib_thread(f, cond_waiter);
    tid[1] = (uint32_t)fib_thread(f, cond_waiter);
    fib_sleep(f, 1);
    *lock_of(f) = tid[0];
    OK(f, lock_it(f, false, dz_kernel_now(f->k) + 1000) == -ETIMEDOUT);
    *lock_of(f) = 0;
    OK(f, SYS(f, dz_sys_futex_requeue_lock(FK(f), a_lock, 9, 5)) == -EAGAIN);
    OK(f, wake_on(f, on_a, 1) == -EINVAL);
    OK(f,
       SYS(f, dz_sys_futex_requeue_lock(FK(f), (struct dz_futex[]){on_a, on_b}, 9, 0)) == -EINVAL);
    OK(f, SYS(f, dz_sys_futex_requeue_lock(FK(f), a_lock, 9, 0)) == 2);
    fib_sleep(f, 1);
    OK(f, orders == 10 && (order[8] & 0x3fffffff) == tid[0]);
    OK(f, (order[9] & 0x3fffffff) == tid[1] && (order[9] & 0x40000000));
    return 0;
}
TEST(futex_locks_are_handed_from_thread_to_thread)
{
    struct krig r;
    CHECK_INT(krig_main_as(locks, 0, &r), 0);
    CHECK_INT(krig_stop(&r), 0);
}
