/* SPDX-License-Identifier: MIT
 *
 * control.h - every operation that a client may ask for, one function each.
 *
 * The control plane knows the caller, checks its rights, and uses sandboxes (their lifecycle and
 * cells), the image store and the registry. It knows no HTTP. It never opens a sandbox's file as a
 * database and never reads its content: cells do that.
 *
 * A call that takes time ends in a callback, exactly once, from the loop, and never before the call
 * has returned. If the call fails, the callback is not called. All other calls return their result
 * at once.
 *
 * Each resource has a header of its own; this one includes them all.
 *
 * An error has a sentence (err), a word that refines its code (reason, may be NULL) and the field
 * of the request at fault (field, may be "").
 *
 * All calls are made on the loop's thread.
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
#include "control/control_port.h"
#include "control/control_quota.h"
#include "control/control_ref.h"
#include "control/control_replica.h"
#include "control/control_sandbox.h"
#include "control/control_schedule.h"
#include "control/control_service.h"
#include "control/control_space.h"
#include "control/control_token.h"
#include "control/control_usage.h"
#include "control/control_volume.h"
#include "control/control_why.h"

#endif
