/* SPDX-License-Identifier: MIT
 *
 * dice.h - reproducible random numbers from a seed (Steele, Lea, Flood: "Fast Splittable
 * Pseudorandom Number Generators", the mixer called SplitMix64).
 */
#ifndef DZ_TESTS_DICE_H
#define DZ_TESTS_DICE_H

#include <stdint.h>

static inline uint64_t dice_roll(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

/* 0 to sides - 1 */
static inline uint32_t dice_below(uint64_t *state, uint32_t sides)
{
    return (uint32_t)(dice_roll(state) >> 32) % sides;
}

#endif
