/* SPDX-License-Identifier: MIT
 *
 * control_event.h - events of sandboxes.
 */
#ifndef DZ_CONTROL_CONTROL_EVENT_H
#define DZ_CONTROL_CONTROL_EVENT_H

#include "control/control_why.h"

enum {
    DZ_CONTROL_EVENT_WATCHES = 1024, /* listeners to events */
};

struct dz_control_event_filter {
    const char *sandbox_id; /* NULL: all */
    int64_t after;          /* only events with greater numbers */
    size_t limit;
};
/* Call fn for each event, oldest first. 0: these were all; 1: fn stopped the list, or `limit` was
 * reached. */
typedef int dz_control_event_fn(void *arg, const struct dz_registry_event *event);
DZ_NODISCARD int dz_control_events(struct dz_control *e, const struct dz_control_caller *who,
                                   const struct dz_control_event_filter *f, dz_control_event_fn *fn,
                                   void *arg, struct dz_why *why);
/* Call fn soon after each new event. */
struct dz_control_listener;
DZ_NODISCARD int dz_control_listen(struct dz_control *e, void (*fn)(void *arg), void *arg,
                                   struct dz_control_listener **ret_listener, struct dz_why *why);
void dz_control_unlisten(struct dz_control_listener *listener); /* NULL is fine */

#endif
