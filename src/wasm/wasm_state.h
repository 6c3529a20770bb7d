/* SPDX-License-Identifier: MIT
 *
 * wasm_state.h - the saved form of a process, docs/format/wasm-state.md.
 */
#ifndef DZ_WASM_STATE_H
#define DZ_WASM_STATE_H

#include "wasm/wasm_code.h"

enum {
    WASM_STATE_VERSION = 3,
    WASM_STATE_MEMORY = 1, /* flag: contents of memories are there */
    WASM_STATE_PAGE = 4096,
    WASM_STATE_TABLE = 64, /* elements: for a table that declares more, only differing runs are
                            * written */
    WASM_STATE_FRAMES_MAX = DZ_WASM_STACK_SLOTS_MAX,
};

struct wasm_state_header {
    char magic[8]; /* "dozestat" */
    uint32_t version;
    uint32_t flags;
    uint8_t sha256[DZ_WASM_SHA256]; /* of the module's binary */
    uint64_t fuel;
    uint64_t throwing;                                     /* exnref on its way up, or 0 */
    uint32_t running;                                      /* 1: there are frames */
    uint32_t stop;                                         /* enum dz_wasm_stop of the last run */
    uint32_t global_slots, tables, memories, datas, elems; /* as in the module */
    uint32_t exns;
    uint32_t frames;
    uint32_t slots; /* that follow */
    uint32_t injected;
    uint32_t marks;
};
_Static_assert(sizeof(struct wasm_state_header) == 112, "on disk");

/* The meaning of a frame's position, and its relation to the next frame. */
enum wasm_state_how {
    WASM_STATE_CALL,       /* behind a call; the next frame is the callee */
    WASM_STATE_AT,         /* innermost, resumes here: entry, loop head, long operation, import */
    WASM_STATE_AFTER,      /* innermost, behind a call or throw */
    WASM_STATE_HELD_AT,    /* like AT, and the next frame is an injected call */
    WASM_STATE_HELD_AFTER, /* like AFTER, and the next frame is an injected call */
    WASM_STATE_HOW_COUNT,
};
struct wasm_state_frame {
    uint32_t func;
    uint32_t offset; /* in the binary; of an import 0 */
    uint32_t fp;     /* slot where it begins */
    uint32_t how;
};
_Static_assert(sizeof(struct wasm_state_frame) == 16, "on disk");

struct wasm_state_exn {
    uint32_t live, tag, slots, pad;
};
_Static_assert(sizeof(struct wasm_state_exn) == 16, "on disk");

struct wasm_state_mark { /* then `count` words */
    uint32_t func, offset, fp, count, generation, pad;
};
_Static_assert(sizeof(struct wasm_state_mark) == 24, "on disk");

struct wasm_state_run { /* of pages of WASM_STATE_PAGE bytes, or of elements; count 0 ends them */
    uint32_t first, count;
};

/* In the size of a table: runs of elements follow, then one of count 0. */
#define WASM_STATE_RUNS (UINT64_C(1) << 63)

/* Below an injected call lie three slots: how to resume, the exception that was being thrown, the
 * integer accumulator. */
enum {
    WASM_HELD_SLOTS = 3,
};
#define WASM_HELD_AFTER (UINT64_C(1) << 31) /* in the first: the word is a return address */
#define WASM_HELD_DELTA (WASM_HELD_AFTER - 1)

/* Check that the instance is the only one of its store (else DZ_EUNSUPPORTED) and at a safepoint
 * (else DZ_ESTATE). */
int dz_wasm_state_check(const struct dz_wasm_inst *inst, const char *what, struct dz_err *err);

/* The marks of a store: wasm_mark.c. Loading checks every row. */
int dz_wasm_marks_save(const struct wasm_marks *k, const struct dz_wasm_sink *to,
                       struct dz_err *err);
int dz_wasm_marks_load(struct dz_wasm_inst *inst, uint32_t count, const struct dz_wasm_source *from,
                       struct dz_err *err);
/* Copy `from` to `to`; after DZ_ENOMEM `to` is unchanged. */
int dz_wasm_marks_copy(struct wasm_marks *to, const struct wasm_marks *from);
void dz_wasm_marks_release(struct wasm_marks *k);

/* Inspect frames kept aside: their slots, globals and marks. Returns the frames that were kept
 * before them. */
const struct dz_wasm_frames *dz_wasm_frames_look(const struct dz_wasm_frames *f,
                                                 const uint64_t **ret_words, size_t *ret_count,
                                                 const struct wasm_marks **ret_marks);

/* The content that every fresh instance has at `addr` of memory `index`, up to the end of the page;
 * NULL: zeros. */
const uint8_t *dz_wasm_state_image(const struct dz_wasm_inst *inst, uint32_t index, uint64_t addr);
/* Does the page at `addr` differ from a fresh instance's? */
bool dz_wasm_state_differs(const struct dz_wasm_inst *inst, uint32_t index, uint64_t addr);

#endif
