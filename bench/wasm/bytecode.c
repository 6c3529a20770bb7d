/* SPDX-License-Identifier: MIT
 *
 * bytecode.c - an interpreter in the interpreter: a small stack machine runs
 * the sieve of Eratosthenes up to 2,000 and a Collatz search, n times.
 */
#include "guest.h"

enum op {
    PUSH, /* operand: 16-bit number */
    LOAD, /* operand: variable */
    STORE,
    PEEK, /* address -- byte */
    POKE, /* byte address -- */
    ADD,
    SUB,
    MUL,
    HALF,
    ODD,
    LESS,
    JUMP, /* operand: target */
    JUMP_ZERO,
    DUP,
    HALT, /* the result is on top */
};

struct instruction {
    uint8_t op;
    int16_t operand;
};

enum {
    LIMIT = 2000,
    I = 0,
    K = 1,
    COUNT = 2,
    BEST = 3,
    X = 4,
    STEPS = 5,
    VARIABLES = 6
};

static const struct instruction sieve[] = {
    {PUSH, 0},
    {STORE, COUNT},
    {PUSH, 2},
    {STORE, I},
    /* 4: while i < LIMIT */
    {LOAD, I},
    {PUSH, LIMIT},
    {LESS, 0},
    {JUMP_ZERO, 34},
    /* 8: if not composite[i] */
    {LOAD, I},
    {PEEK, 0},
    {JUMP_ZERO, 12},
    {JUMP, 29},
    {LOAD, COUNT},
    {PUSH, 1},
    {ADD, 0},
    {STORE, COUNT},
    /* 16: for k = i + i; k < LIMIT; k += i */
    {LOAD, I},
    {DUP, 0},
    {ADD, 0},
    {STORE, K},
    /* 20 */
    {LOAD, K},
    {PUSH, LIMIT},
    {LESS, 0},
    {JUMP_ZERO, 29},
    {PUSH, 1},
    {LOAD, K},
    {POKE, 0},
    {JUMP, 36},
    {HALT, 0},
    /* 29: i++ */
    {LOAD, I},
    {PUSH, 1},
    {ADD, 0},
    {STORE, I},
    {JUMP, 4},
    /* 34 */
    {LOAD, COUNT},
    {HALT, 0},
    /* 36: k += i */
    {LOAD, K},
    {LOAD, I},
    {ADD, 0},
    {STORE, K},
    {JUMP, 20},
};

static const struct instruction collatz[] = {
    {PUSH, 0},
    {STORE, BEST},
    {PUSH, 1},
    {STORE, I},
    /* 4: while i < 300 */
    {LOAD, I},
    {PUSH, 300},
    {LESS, 0},
    {JUMP_ZERO, 44},
    {LOAD, I},
    {STORE, X},
    {PUSH, 0},
    {STORE, STEPS},
    /* 12: while 1 < x */
    {PUSH, 1},
    {LOAD, X},
    {LESS, 0},
    {JUMP_ZERO, 32},
    {LOAD, X},
    {ODD, 0},
    {JUMP_ZERO, 24},
    {LOAD, X},
    {PUSH, 3},
    {MUL, 0},
    {PUSH, 1},
    {JUMP, 46},
    /* 24: x /= 2 */
    {LOAD, X},
    {HALF, 0},
    {STORE, X},
    /* 27: steps++ */
    {LOAD, STEPS},
    {PUSH, 1},
    {ADD, 0},
    {STORE, STEPS},
    {JUMP, 12},
    /* 32: best = max(best, steps) */
    {LOAD, BEST},
    {LOAD, STEPS},
    {LESS, 0},
    {JUMP_ZERO, 38},
    {LOAD, STEPS},
    {STORE, BEST},
    /* 38: i++ */
    {LOAD, I},
    {PUSH, 1},
    {ADD, 0},
    {STORE, I},
    {JUMP, 4},
    {HALT, 0},
    /* 44 */
    {LOAD, BEST},
    {HALT, 0},
    /* 46: x = 3x + 1 */
    {ADD, 0},
    {STORE, X},
    {JUMP, 27},
};

static uint8_t memory[LIMIT];

static int32_t interpret(const struct instruction *program)
{
    int32_t stack[16], variables[VARIABLES] = {0}, *sp = stack;
    const struct instruction *pc = program;
    for (;;) {
        int16_t operand = pc->operand;
        switch ((enum op)pc++->op) {
        case PUSH:
            *sp++ = operand;
            break;
        case LOAD:
            *sp++ = variables[operand];
            break;
        case STORE:
            variables[operand] = *--sp;
            break;
        case PEEK:
            sp[-1] = memory[sp[-1]];
            break;
        case POKE:
            sp -= 2;
            memory[sp[1]] = (uint8_t)sp[0];
            break;
        case ADD:
            sp--;
            sp[-1] += sp[0];
            break;
        case SUB:
            sp--;
            sp[-1] -= sp[0];
            break;
        case MUL:
            sp--;
            sp[-1] *= sp[0];
            break;
        case HALF:
            sp[-1] >>= 1;
            break;
        case ODD:
            sp[-1] &= 1;
            break;
        case LESS:
            sp--;
            sp[-1] = sp[-1] < sp[0];
            break;
        case JUMP:
            pc = program + operand;
            break;
        case JUMP_ZERO:
            if (*--sp == 0)
                pc = program + operand;
            break;
        case DUP:
            sp[0] = sp[-1];
            sp++;
            break;
        case HALT:
            return sp[-1];
        }
    }
}

int run(int n)
{
    uint32_t sum = 0;
    for (int i = 0; i < n; i++) {
        for (int k = 0; k < LIMIT; k++)
            memory[k] = 0;
        sum = sum * 31 + (uint32_t)interpret(sieve);
        sum = sum * 31 + (uint32_t)interpret(collatz);
    }
    return (int)sum;
}
