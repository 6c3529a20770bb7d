/* SPDX-License-Identifier: MIT
 *
 * cell_net.h - the cell's side of TCP connections to the outside (runtime/runtime_net.h): the
 * sockets that the host has passed, as struct dz_net_ops of the kernel.
 */
#ifndef DZ_CELL_CELL_NET_H
#define DZ_CELL_CELL_NET_H

#include "cell/cell_int.h"
#include "kernel/kernel_outside.h"

struct dz_cell_net;

/* out: of the cell's socket, also polled: its fd is among what dz_cell_net_fd() waits for. own4: as
 * in struct dz_cell_start. */
int dz_cell_net_new(struct dz_frame_out *out, uint32_t own4, struct dz_cell_net **ret_net,
                    struct dz_err *err);
/* For struct dz_kernel_opts. */
const struct dz_net_ops *dz_cell_net_ops(const struct dz_cell_net *n);
/* The machine is up. waits: the host will pass the connections that it kept; else the machine's
 * connections are over. */
void dz_cell_net_up(struct dz_cell_net *n, struct dz_kernel *k, bool waits);
/* Handle a frame of the host, and take its descriptors. */
void dz_cell_net_frame(struct dz_cell_net *n, const struct dz_frame *f, const uint8_t *payload,
                       const struct dz_frame_fds *fds);
/* Tell the kernel which sockets have changed. */
void dz_cell_net_look(struct dz_cell_net *n);
/* Tell the host which ports listen, if that has changed: call it before each wait, because a
 * guest's last call before it waits may be listen(). Returns in how many nanoseconds the report
 * that is due may be sent; -1: none is due. */
int64_t dz_cell_net_report(struct dz_cell_net *n);
/* Nothing runs any more before the machine is saved: report the state of the connections. */
void dz_cell_net_rest(struct dz_cell_net *n);
/* Readable when a socket has changed, or a frame of the host has come. */
int dz_cell_net_fd(const struct dz_cell_net *n);
/* Bytes since the start. */
void dz_cell_net_bytes(const struct dz_cell_net *n, uint64_t *ret_in, uint64_t *ret_out);

#endif
