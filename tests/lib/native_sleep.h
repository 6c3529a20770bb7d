/* SPDX-License-Identifier: MIT
 *
 * native_sleep.h - put the machine of native_rig.h to sleep and wake it in another kernel, another
 * runner and other processes, in the middle of a command. Include it once.
 */
#ifndef DZ_TESTS_NATIVE_SLEEP_H
#define DZ_TESTS_NATIVE_SLEEP_H

#include "linux_asleep.h"
#include "native_rig.h"

/* Locks belong to the disk, which stays. */
DZ_VEC(nrig_locks, struct dz_vfs_lock);

/* Pages that are left out come from here, until the next move. */
static struct asleep nrig_asleep[2] = {{.pages = {.max = 1}, .state = {.p = dz_buf_empty}},
                                       {.pages = {.max = 1}, .state = {.p = dz_buf_empty}}};
static uint64_t nrig_left; /* how many were left out */

/* The machine has ended, or has other pages now. */
static inline void nrig_forget(int i)
{
    asleep_release(&nrig_asleep[i]);
    nrig_asleep[i] = (struct asleep){.pages = {.max = 1}, .state = {.p = dz_buf_empty}};
}

/* The old machine ends when the new one is complete, before it runs. */
static inline int nrig_move(struct nrig *r, struct dz_err *err)
{
    static int turn;
    struct asleep *s = &nrig_asleep[turn];
    struct dz_kernel *old = r->k;
    struct dz_linux *old_linux = r->l;
    struct dz_stub *old_stub = r->stub;
    struct nrig_locks locks = {.max = 1 << 16};
    struct dz_vfs_lock lock;
    int rc = asleep_save(s, r->l, r->k, err);
    if (rc == 0) {
        nrig_machine(r);
        s->by_need = true;
        rc = asleep_wake(s, old, r->k, r->l, err);
        for (size_t i = 0; dz_vfs_lock_at(r->disk.v, i, &lock); i++)
            dz_vec_push(&locks, lock);
        dz_kernel_free(old);
        for (size_t i = 0; i < locks.n; i++)
            (void)dz_vfs_lock(r->disk.v, &locks.p[i]);
        dz_linux_free(old_linux);
        old_stub->ops->close(old_stub);
        dz_linux_release(r->l);
    }
    dz_vec_release(&locks);
    nrig_left += s->left;
    turn = !turn;
    nrig_forget(turn);
    return rc;
}

#endif
