/* SPDX-License-Identifier: MIT
 *
 * jumps.c - longjmp out of n frames, out of nested marks, and from an injected
 * handler; then a jump to a frame that has returned, which must trap.
 */
#include "guest.h"

static struct place outer, inner, stale;
static volatile uint32_t handled, armed, trail;

NOINLINE static int dive(int depth, struct place *to)
{
    volatile uint32_t pad[8]; /* takes room on the stack in linear memory */
    for (int i = 0; i < 8; i++)
        pad[i] = (uint32_t)(depth * i);
    if (depth == 0)
        jump_to(to, (int32_t)trail + 1);
    int below = dive(depth - 1, to);
    return below + (int)pad[depth & 7];
}

NOINLINE static uint32_t nested(int n)
{
    uint32_t value = (uint32_t)MARK(&inner);
    if (value == 0)
        (void)dive(n / 2, &inner);
    trail = trail * 3 + value;
    if (trail % 2)
        (void)dive(n / 3, &outer);
    return trail;
}

/* Injected at a safepoint of its caller's choice. While armed it does not come back. */
EXPORT("handler") void handler(int32_t value);
void handler(int32_t value)
{
    handled++;
    for (volatile int i = 0; i < 20; i++)
        ;
    if (armed) {
        armed = 0;
        jump_to(&outer, value);
    }
}

/* Runs until the handler jumps away. */
NOINLINE static void wait_for_handler(void)
{
    armed = 1;
    for (volatile uint32_t i = 0; armed; i++)
        ;
}

static void leave_stale(void)
{
    (void)MARK(&stale);
}
static void (*volatile leave)(void) = leave_stale; /* not inlined */

EXPORT("use_stale") int use_stale(int n);
int use_stale(int n)
{
    leave();
    jump_to(&stale, n);
}

int run(int n)
{
    volatile int rounds = 0;
    trail = trail * 31 + (uint32_t)MARK(&outer); /* what trail was lies below the call */
    emit(trail);
    if (++rounds < 20) {
        (void)dive(n, &outer);
        return -1;
    }
    while (rounds++ < 40)
        emit(nested(n));
    return (int)trail;
}

/* The same with a handler that jumps: the injected value comes back here. */
EXPORT("run_handler") int run_handler(int n);
int run_handler(int n)
{
    volatile int rounds = 0;
    uint32_t value = (uint32_t)MARK(&outer);
    trail = trail * 31 + value;
    emit(value);
    if (rounds++ < n)
        wait_for_handler();
    return (int)(trail + handled);
}
