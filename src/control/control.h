/* SPDX-License-Identifier: MIT
 *
 * control.h - every operation that a client may ask for, one function each.
 *
 * The control plane knows who asks, what he may ask, and what it needs: the lifecycle
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
#ifndef DZ_CONTROL_CONTROL_H
#define DZ_CONTROL_CONTROL_H

#include "control/control_branch.h"
#include "control/control_build.h"
#include "control/control_daemon.h"
#include "control/control_event.h"
#include "control/control_exec.h"
#include "control/control_image.h"
#include "control/control_key.h"
#include "control/control_quota.h"
#include "control/control_ref.h"
#include "control/control_sandbox.h"
#include "control/control_space.h"
#include "control/control_token.h"
#include "control/control_why.h"

#endif
