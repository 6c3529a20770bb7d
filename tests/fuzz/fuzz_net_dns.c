/* SPDX-License-Identifier: MIT
 * Queries of any bytes: what is to be resolved has a sound name, and the answer fits and is itself
 * no query. */
#include "net/net_dns.h"

#include <assert.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct dz_net_addr addrs[64];
    struct dz_dns_query q;
    enum dz_dns_code code = DZ_DNS_OK;
    uint8_t answer[DZ_DNS_ANSWER_MAX];
    char name[DZ_NET_NAME_MAX + 1];
    const enum dz_dns_next next = dz_dns_read(data, size, &q, &code);
    if (next == DZ_DNS_DROP)
        return 0;
    if (next == DZ_DNS_RESOLVE) {
        assert(dz_net_name_parse(q.name, name) == 0);
        assert(strcmp(name, q.name) == 0);
    }
    const size_t n = dz_dns_write(&q, code, 60, addrs, 64, answer);
    assert(n >= 12 && n <= q.answer_max && answer[0] == data[0] && answer[1] == data[1]);
    struct dz_dns_query again;
    assert(dz_dns_read(answer, n, &again, &code) == DZ_DNS_DROP);
    return 0;
}
