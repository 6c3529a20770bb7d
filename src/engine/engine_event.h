/* SPDX-License-Identifier: MIT
 *
 * engine_event.h - events of sandboxes.
 */
#ifndef DZ_ENGINE_ENGINE_EVENT_H
#define DZ_ENGINE_ENGINE_EVENT_H

#include "engine/engine_why.h"

enum {
    DZ_ENGINE_EVENT_WATCHES = 1024, /* listeners to events */
};

struct dz_engine_event_filter {
    const char *sandbox_id; /* NULL: all */
    int64_t after;          /* numbers greater than this */
    size_t limit;
};
/* Oldest first. 0: all that there are; 1: fn said stop, or it was `limit`. */
typedef int dz_engine_event_fn(void *arg, const struct dz_registry_event *event);
DZ_NODISCARD int dz_engine_events(struct dz_engine *e, const struct dz_engine_caller *who,
                                  const struct dz_engine_event_filter *f, dz_engine_event_fn *fn,
                                  void *arg, struct dz_why *why);
/* Be called, at some time soon after each new event. */
struct dz_engine_ear;
DZ_NODISCARD int dz_engine_listen(struct dz_engine *e, void (*fn)(void *arg), void *arg,
                                  struct dz_engine_ear **ret_ear, struct dz_why *why);
void dz_engine_unlisten(struct dz_engine_ear *ear); /* NULL is fine */

#endif
