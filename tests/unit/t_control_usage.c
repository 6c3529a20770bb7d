/* SPDX-License-Identifier: MIT
 *
 * Prices, amounts and exact decimal text of usage.
 */
#include "control/control_usage.h"
#include "tap.h"

#include <string.h>

TEST(usage_prints_exact_decimals)
{
    char out[DZ_USAGE_DECIMAL];
    CHECK_STR(dz_usage_decimal(0, 12, out), "0");
    CHECK_STR(dz_usage_decimal(1, 12, out), "0.000000000001");
    CHECK_STR(dz_usage_decimal(1500, 3, out), "1.5");
    CHECK_STR(dz_usage_decimal(1000, 3, out), "1");
    CHECK_STR(dz_usage_decimal(10, 3, out), "0.01");
    CHECK_STR(dz_usage_decimal(120, 0, out), "120");
    CHECK_STR(dz_usage_decimal(~(dz_byte_ms)0, 12, out),
              "340282366920938463463374607.431768211455");
}

TEST(usage_reads_prices)
{
    static const struct {
        const char *text;
        int64_t price;
    } good[] = {
        {"", 0},
        {"0", 0},
        {"1", DZ_USAGE_NANO},
        {"0.01", 10000000},
        {"0.000000001", 1},
        {"12.345678901", 12345678901},
        {"1000000", DZ_USAGE_PRICE_MAX},
    };
    static const char *const bad[] = {"-1", "+1", ".5", "5.",   "1.2.3",        "1e3",
                                      "x",  " 1", "1 ", "0x10", "0.0000000001", "1000001"};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        int64_t got = -1;
        CHECK_INT(dz_usage_price_parse(good[i].text, &got, NULL), 0);
        CHECK_INT(got, good[i].price);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct dz_err err = {0};
        int64_t got = -7;
        CHECK_INT(dz_usage_price_parse(bad[i], &got, &err), DZ_EINVAL);
        CHECK_INT(got, -7);
        CHECK(strstr(err.msg, "price"));
    }
}

TEST(usage_costs_what_the_prices_say)
{
    const struct dz_usage_prices p = {.currency = "EUR",
                                      .memory = 2 * DZ_USAGE_NANO,
                                      .storage_active = 3 * DZ_USAGE_NANO,
                                      .storage_asleep = 5 * DZ_USAGE_NANO,
                                      .snapshots = 7 * DZ_USAGE_NANO};
    const dz_byte_ms gb_hour = (dz_byte_ms)1000000000 * 3600000;
    const struct dz_usage_sum sum = {.memory = 11 * gb_hour, .storage = 13 * gb_hour};
    const struct dz_usage_sum asleep = {.storage = 13 * gb_hour};
    CHECK_INT((int64_t)dz_usage_amount(&p, DZ_USAGE_active, &sum), 61 * DZ_USAGE_NANO);
    CHECK_INT((int64_t)dz_usage_amount(&p, DZ_USAGE_suspended, &asleep), 65 * DZ_USAGE_NANO);
    CHECK_INT((int64_t)dz_usage_amount(&p, DZ_USAGE_snapshot, &asleep), 91 * DZ_USAGE_NANO);
    /* half a GB-hour; the smallest price; a petabyte for four hundred days at the highest one */
    const struct dz_usage_sum half = {.storage = gb_hour / 2};
    CHECK_INT((int64_t)dz_usage_amount(&p, DZ_USAGE_frozen, &half), 5 * DZ_USAGE_NANO / 2);
    const struct dz_usage_prices low = {.memory = 1}, high = {.memory = DZ_USAGE_PRICE_MAX};
    const struct dz_usage_sum large = {.memory = (dz_byte_ms)1000000 * 9600 * gb_hour};
    CHECK_INT((int64_t)dz_usage_amount(&low, DZ_USAGE_active, &large), 9600000000);
    CHECK(dz_usage_amount(&high, DZ_USAGE_active, &large) ==
          (dz_byte_ms)9600000000 * (uint64_t)DZ_USAGE_PRICE_MAX);
}
