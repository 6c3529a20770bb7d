/* SPDX-License-Identifier: MIT
 *
 * engine.h - every operation that a client may ask for, one function each.
 *
 * The engine knows who asks, what he may ask, and what it needs: the lifecycle
 * through sandboxes, machines through cells, images through the store, all that is
 * remembered through the registry. It knows no HTTP. Nothing here opens a sandbox's
 * file as a database or reads what is in one: that is done in cells.
 *
 * What takes time ends in a callback, exactly once, from the loop: never before the
 * call that began it has returned. A call that refuses says so by its result, and
 * then nothing is called back. What takes no time answers at once.
 *
 * Each resource has a header of its own; this one includes them all.
 *
 * A failure says what (err), why in one word (reason, may be NULL) and which field
 * of the request is to blame (field, may be "").
 *
 * One thread, that of the loop.
 */
#ifndef DZ_ENGINE_ENGINE_H
#define DZ_ENGINE_ENGINE_H

#include "engine/engine_branch.h"
#include "engine/engine_build.h"
#include "engine/engine_daemon.h"
#include "engine/engine_event.h"
#include "engine/engine_exec.h"
#include "engine/engine_image.h"
#include "engine/engine_key.h"
#include "engine/engine_quota.h"
#include "engine/engine_ref.h"
#include "engine/engine_sandbox.h"
#include "engine/engine_space.h"
#include "engine/engine_token.h"
#include "engine/engine_why.h"

#endif
