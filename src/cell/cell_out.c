/* SPDX-License-Identifier: MIT
 *
 * cell_out.c - gather the frames of a cell: all frames between two checks of the socket go in one
 * packet, because each packet wakes the host, which may need the processor on which the machine is
 * about to run.
 */
#include "cell/cell_int.h"

#include <string.h>

int dz_out_flush(struct dz_frame_out *o, bool block)
{
    struct dz_frame head = {.type = DZ_FRAME_TOGETHER, .size = (uint32_t)o->len};
    const uint8_t *payload = o->bytes;
    if (o->count == 0)
        return 1;
    if (o->count == 1) {
        memcpy(&head, o->bytes, sizeof head);
        payload += sizeof head;
    }
    int rc = dz_frame_send(o->fd, &head, payload, block, NULL);
    if (rc != 0) /* after an error the socket has no reader */
        o->len = o->count = 0;
    return rc;
}

int dz_out_add(struct dz_frame_out *o, const struct dz_frame *f, const void *payload, bool block)
{
    size_t whole = sizeof *f + f->size;
    int rc = o->len + whole > sizeof o->bytes ? dz_out_flush(o, block) : 1;
    if (rc <= 0)
        return rc;
    if (whole > sizeof o->bytes)
        return dz_frame_send(o->fd, f, payload, block, NULL);
    memcpy(o->bytes + o->len, f, sizeof *f);
    if (f->size)
        memcpy(o->bytes + o->len + sizeof *f, payload, f->size);
    o->len += whole;
    o->count++;
    return 1;
}
