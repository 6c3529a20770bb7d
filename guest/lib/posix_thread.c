/* SPDX-License-Identifier: MIT
 *
 * posix_thread.c - the part of pthreads that makes sense for one thread.
 *
 * Locks never wait: their holder can only be the caller, so plain mutexes count, like
 * recursive ones, where they would wait for ever. Destructors of keys never run, as none do in a
 * process's last thread that calls exit. Conditions are left out: waiting for one could never end.
 */
#include "posix_int.h"

#include <pthread.h>

enum {
    KEYS_MAX = 128
};

static const void *values[KEYS_MAX];
static unsigned char used[KEYS_MAX];

int pthread_create(pthread_t *ret, const pthread_attr_t *at, void *(*run)(void *), void *arg)
{
    (void)ret;
    (void)at;
    (void)run;
    (void)arg;
    return EAGAIN;
}

pthread_t pthread_self(void)
{
    return (pthread_t)1;
}

int pthread_equal(pthread_t a, pthread_t b)
{
    return a == b;
}

int pthread_once(pthread_once_t *once, void (*run)(void))
{
    if (!*once) {
        *once = 1;
        run();
    }
    return 0;
}

int pthread_key_create(pthread_key_t *ret, void (*destroy)(void *))
{
    (void)destroy;
    for (unsigned k = 0; k < KEYS_MAX; k++)
        if (!used[k]) {
            used[k] = 1;
            values[k] = NULL;
            *ret = k;
            return 0;
        }
    return EAGAIN;
}

int pthread_key_delete(pthread_key_t key)
{
    if (key >= KEYS_MAX || !used[key])
        return EINVAL;
    used[key] = 0;
    return 0;
}

void *pthread_getspecific(pthread_key_t key)
{
    return key < KEYS_MAX && used[key] ? (void *)values[key] : NULL;
}

int pthread_setspecific(pthread_key_t key, const void *value)
{
    if (key >= KEYS_MAX || !used[key])
        return EINVAL;
    values[key] = value;
    return 0;
}

/* In a mutex: how often it is held, and its type. */
enum {
    HELD,
    TYPE
};

int pthread_mutex_init(pthread_mutex_t *m, const pthread_mutexattr_t *at)
{
    m->__u.__i[HELD] = 0;
    m->__u.__i[TYPE] = at ? (int)at->__attr : PTHREAD_MUTEX_NORMAL;
    return 0;
}

int pthread_mutex_destroy(pthread_mutex_t *m)
{
    return m->__u.__i[HELD] ? EBUSY : 0;
}

int pthread_mutex_lock(pthread_mutex_t *m)
{
    if (m->__u.__i[HELD] && m->__u.__i[TYPE] == PTHREAD_MUTEX_ERRORCHECK)
        return EDEADLK;
    m->__u.__i[HELD]++;
    return 0;
}

int pthread_mutex_trylock(pthread_mutex_t *m)
{
    if (m->__u.__i[HELD] && m->__u.__i[TYPE] != PTHREAD_MUTEX_RECURSIVE)
        return EBUSY;
    m->__u.__i[HELD]++;
    return 0;
}

int pthread_mutex_unlock(pthread_mutex_t *m)
{
    if (!m->__u.__i[HELD])
        return EPERM;
    m->__u.__i[HELD]--;
    return 0;
}

int pthread_mutexattr_init(pthread_mutexattr_t *at)
{
    at->__attr = PTHREAD_MUTEX_NORMAL;
    return 0;
}

int pthread_mutexattr_destroy(pthread_mutexattr_t *at)
{
    (void)at;
    return 0;
}

int pthread_mutexattr_settype(pthread_mutexattr_t *at, int type)
{
    if (type < PTHREAD_MUTEX_NORMAL || type > PTHREAD_MUTEX_ERRORCHECK)
        return EINVAL;
    at->__attr = (unsigned)type;
    return 0;
}

int pthread_mutexattr_gettype(const pthread_mutexattr_t *at, int *ret)
{
    *ret = (int)at->__attr;
    return 0;
}

int pthread_sigmask(int how, const sigset_t *set, sigset_t *old)
{
    return sigprocmask(how, set, old) < 0 ? errno : 0;
}
