/* SPDX-License-Identifier: MIT
 *
 * nbody.c - double precision: n steps of the sun and four planets.
 */
#include "guest.h"

#define PI         3.141592653589793
#define SOLAR_MASS (4 * PI * PI)
#define YEAR       365.24

enum {
    BODIES = 5
};
struct body {
    double at[3], speed[3], mass;
};

static const struct body start[BODIES] = {
    {{0, 0, 0}, {0, 0, 0}, SOLAR_MASS},
    {{4.84143144246472090, -1.16032004402742839, -0.103622044471123109},
     {0.00166007664274403694 * YEAR, 0.00769901118419740425 * YEAR,
      -0.0000690460016972063023 * YEAR},
     0.000954791938424326609 * SOLAR_MASS},
    {{8.34336671824457987, 4.12479856412430479, -0.403523417114321381},
     {-0.00276742510726411021 * YEAR, 0.00499852801234917238 * YEAR,
      0.0000230417297573763929 * YEAR},
     0.000285885980666130812 * SOLAR_MASS},
    {{12.8943695621391310, -15.1111514016986312, -0.223307578892655734},
     {0.00296460137564761618 * YEAR, 0.00237847173959480950 * YEAR,
      -0.0000296589568540237556 * YEAR},
     0.0000436624404335156298 * SOLAR_MASS},
    {{15.3796971148509165, -25.9193146099879641, 0.179258772950371181},
     {0.00268067772490389322 * YEAR, 0.00162824170038242295 * YEAR,
      -0.0000951592254519715870 * YEAR},
     0.0000515138902046611451 * SOLAR_MASS},
};
static struct body bodies[BODIES];

static void advance(double dt)
{
    for (int i = 0; i < BODIES; i++)
        for (int k = i + 1; k < BODIES; k++) {
            double d[3], square = 0;
            for (int x = 0; x < 3; x++) {
                d[x] = bodies[i].at[x] - bodies[k].at[x];
                square += d[x] * d[x];
            }
            double pull = dt / (square * __builtin_sqrt(square));
            for (int x = 0; x < 3; x++) {
                bodies[i].speed[x] -= d[x] * bodies[k].mass * pull;
                bodies[k].speed[x] += d[x] * bodies[i].mass * pull;
            }
        }
    for (int i = 0; i < BODIES; i++)
        for (int x = 0; x < 3; x++)
            bodies[i].at[x] += dt * bodies[i].speed[x];
}

static double energy(void)
{
    double e = 0;
    for (int i = 0; i < BODIES; i++) {
        const double *v = bodies[i].speed;
        e += 0.5 * bodies[i].mass * (v[0] * v[0] + v[1] * v[1] + v[2] * v[2]);
        for (int k = i + 1; k < BODIES; k++) {
            double square = 0;
            for (int x = 0; x < 3; x++) {
                double d = bodies[i].at[x] - bodies[k].at[x];
                square += d * d;
            }
            e -= bodies[i].mass * bodies[k].mass / __builtin_sqrt(square);
        }
    }
    return e;
}

int run(int n)
{
    double pull[3] = {0, 0, 0};
    for (int i = 0; i < BODIES; i++) {
        bodies[i] = start[i];
        for (int x = 0; x < 3; x++)
            pull[x] += bodies[i].speed[x] * bodies[i].mass;
    }
    for (int x = 0; x < 3; x++)
        bodies[0].speed[x] = -pull[x] / SOLAR_MASS;
    for (int i = 0; i < n; i++)
        advance(0.01);
    return (int)(energy() * 1e9);
}
