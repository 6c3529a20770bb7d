/* SPDX-License-Identifier: MIT
 *
 * cell_users.c - see cell_users.h.
 */
#include "cell/cell_users.h"

#include <assert.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>

static struct {
    pthread_mutex_t lock;
    struct dz_os_users range;
    uint32_t holders[DZ_USERS_HELPERS];
    uint32_t next; /* where the search for a free one begins */
} users = {.lock = PTHREAD_MUTEX_INITIALIZER};

void dz_cell_users_set(const struct dz_os_users *range)
{
    (void)pthread_mutex_lock(&users.lock);
    users.range = range && range->count ? *range : (struct dz_os_users){0, 0};
    memset(users.holders, 0, sizeof users.holders);
    users.next = 0;
    (void)pthread_mutex_unlock(&users.lock);
}

struct dz_os_users dz_cell_users(void)
{
    (void)pthread_mutex_lock(&users.lock);
    struct dz_os_users range = users.range;
    (void)pthread_mutex_unlock(&users.lock);
    return range;
}

int dz_cell_user_acquire(uint32_t *ret_user, struct dz_err *err)
{
    uint32_t found = DZ_USER_NONE;
    (void)pthread_mutex_lock(&users.lock);
    bool none = users.range.count == 0;
    for (uint32_t i = 0; !none && i < DZ_USERS_HELPERS && found == DZ_USER_NONE; i++) {
        uint32_t at = (users.next + i) % DZ_USERS_HELPERS;
        if (users.holders[at])
            continue;
        users.holders[at] = 1;
        users.next = at + 1;
        found = users.range.first + at;
    }
    (void)pthread_mutex_unlock(&users.lock);
    if (!none && found == DZ_USER_NONE)
        return dz_fail(err, DZ_EBUSY, "all %d user ids for zygotes and calls are in use",
                       DZ_USERS_HELPERS);
    *ret_user = found;
    return 0;
}

static void count(uint32_t user, bool more)
{
    (void)pthread_mutex_lock(&users.lock);
    uint32_t at = user - users.range.first;
    if (user != DZ_USER_NONE && user >= users.range.first && at < DZ_USERS_HELPERS &&
        users.holders[at] > 0)
        users.holders[at] += more ? 1 : UINT32_MAX;
    (void)pthread_mutex_unlock(&users.lock);
}

void dz_cell_user_hold(uint32_t user)
{
    count(user, true);
}

void dz_cell_user_release(uint32_t user)
{
    count(user, false);
}

int64_t dz_cell_users_tenants(void)
{
    struct dz_os_users range = dz_cell_users();
    return range.count ? (int64_t)range.count - DZ_USERS_HELPERS : INT64_MAX;
}

uint32_t dz_cell_user_of_tenant(int64_t number)
{
    struct dz_os_users range = dz_cell_users();
    if (range.count == 0)
        return DZ_USER_NONE;
    assert(number >= 0 && number < (int64_t)range.count - DZ_USERS_HELPERS);
    return range.first + DZ_USERS_HELPERS + (uint32_t)number;
}
