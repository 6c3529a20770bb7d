/* SPDX-License-Identifier: MIT
 *
 * follow.h - how the owner of a SQLite log and a process that copies the log (a follower)
 * coordinate: by locks on the log file, at offsets that no log reaches.
 *
 * The owner may reuse or empty a log after it has moved all pages into the database. A follower
 * that has not read everything by then can only copy the whole database. So the owner first looks
 * whether the follower has everything, and tells the follower afterwards that it looked:
 *
 *     follower, shared locks                        owner, shared lock
 *     FOLLOWED  1 byte: there is a follower
 *     HAVE      gen, length = bytes of the log      PROVEN  length = bytes of the log that the
 *               that are in the replica                     follower had when the log was given up
 *                                                   FORCED  1 byte: it was given up without that
 *
 * `gen` comes from the log's salts, so a length never counts for another log. Locks belong to open
 * file descriptions (OFD locks): those of a follower that dies vanish, and those of an owner stay
 * as long as another process has a copy of its descriptor. Nobody ever waits in these functions,
 * and no lock here excludes a read or a write.
 */
#ifndef DZ_BASE_FOLLOW_H
#define DZ_BASE_FOLLOW_H

#include "base/attr.h"
#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>

/* --- the owner ------------------------------------------------------------------------------- */

/* Is there a follower? */
bool dz_follow_exists(int wal_fd);
/* Does the follower have the log with these salts up to `end`, an offset behind a frame? */
bool dz_follow_has(int wal_fd, const uint32_t salt[static 2], uint64_t end);
/* The log is about to be given up at `end`, all of which the follower has. 0: it has not all. */
void dz_follow_prove(int wal_fd, uint64_t end);

/* --- the follower ---------------------------------------------------------------------------- */

/* Begin to follow, on a descriptor of its own. Its close ends that. */
DZ_NODISCARD int dz_follow_begin(int fd, struct dz_err *err);
/* The log with these salts is in the replica up to `end`; 0: nothing is. */
void dz_follow_publish(int fd, const uint32_t salt[static 2], uint64_t end);
/* What an owner has proven, or 0. */
uint64_t dz_follow_proven(int fd);
/* Has an owner given up a log that was not proven? Take that back with a copy of its descriptor. */
bool dz_follow_forced(int fd);
void dz_follow_forgive(int owner_fd);

#endif
