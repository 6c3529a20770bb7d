/* SPDX-License-Identifier: MIT
 * pthread.h - for programs that lock although they have one thread. A guest has one
 * thread: locks are free, keys are variables, pthread_create fails with EAGAIN. */
#ifndef _PTHREAD_H
#define _PTHREAD_H
#include <signal.h>
#include <time.h>
/* libc's header of basic types has these, on demand */
#define __NEED_pthread_t
#define __NEED_pthread_key_t
#define __NEED_pthread_once_t
#define __NEED_pthread_attr_t
#define __NEED_pthread_mutex_t
#define __NEED_pthread_mutexattr_t
#include <bits/alltypes.h>
#ifdef __cplusplus
extern "C" {
#endif
#define PTHREAD_ONCE_INIT         0
#define PTHREAD_MUTEX_INITIALIZER {0}
#define PTHREAD_MUTEX_NORMAL      0
#define PTHREAD_MUTEX_RECURSIVE   1
#define PTHREAD_MUTEX_ERRORCHECK  2
int pthread_create(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
pthread_t pthread_self(void);
int pthread_equal(pthread_t, pthread_t);
int pthread_once(pthread_once_t *, void (*)(void));
int pthread_key_create(pthread_key_t *, void (*)(void *));
int pthread_key_delete(pthread_key_t);
void *pthread_getspecific(pthread_key_t);
int pthread_setspecific(pthread_key_t, const void *);
int pthread_mutex_init(pthread_mutex_t *, const pthread_mutexattr_t *);
int pthread_mutex_destroy(pthread_mutex_t *);
int pthread_mutex_lock(pthread_mutex_t *);
int pthread_mutex_trylock(pthread_mutex_t *);
int pthread_mutex_unlock(pthread_mutex_t *);
int pthread_mutexattr_init(pthread_mutexattr_t *);
int pthread_mutexattr_destroy(pthread_mutexattr_t *);
int pthread_mutexattr_settype(pthread_mutexattr_t *, int);
int pthread_mutexattr_gettype(const pthread_mutexattr_t *, int *);
int pthread_sigmask(int, const sigset_t *, sigset_t *);
#ifdef __cplusplus
}
#endif
#endif
