#include <math.h>
#include <string.h>

#include "control.h"

typedef struct Body {
  double x, y, z, vx, vy, vz, m;
} Body;

enum { kBodies = 5 };
static const Body kStart[kBodies] = {
    {0, 0, 0, 0, 0, 0, 39.47841760435743},
    {4.84143144246472, -1.16032004402742, -0.103622044471123, 0.606326392995832, 2.81198684491626, -0.0252183616598876,
     0.0376936749096657},
    {8.34336671824458, 4.1247985641243, -0.403523417114321, -1.01077434617879, 1.82566237123041, 0.00841576137658415,
     0.0112863261319687},
    {12.8943695621391, -15.1111514016986, -0.223307578892656, 1.08279100644154, 0.868713018169608, -0.0108326374013636,
     0.00172372405705971},
    {15.3796971148509, -25.919314609988, 0.179258772950371, 0.979090732243898, 0.594698998647676, -0.0347559555078104,
     0.00203368686992463},
};

static void Advance(Body *bodies) {
  for (int i = 0; i < kBodies; ++i) {
    Body *a = &bodies[i];
    for (int j = i + 1; j < kBodies; ++j) {
      Body *b = &bodies[j];
      double dx = a->x - b->x, dy = a->y - b->y, dz = a->z - b->z;
      double d2 = dx * dx + dy * dy + dz * dz;
      double mag = 0.01 / (d2 * sqrt(d2));
      double af = b->m * mag, bf = a->m * mag;
      a->vx -= dx * af;
      a->vy -= dy * af;
      a->vz -= dz * af;
      b->vx += dx * bf;
      b->vy += dy * bf;
      b->vz += dz * bf;
    }
    a->x += 0.01 * a->vx;
    a->y += 0.01 * a->vy;
    a->z += 0.01 * a->vz;
  }
}

Number Run(int64_t n, const void *const *data) {
  (void)data;
  Body bodies[kBodies];
  memcpy(bodies, kStart, sizeof bodies);
  for (int64_t i = 0; i < n; ++i) Advance(bodies);
  double energy = 0;
  for (int i = 0; i < kBodies; ++i) {
    const Body *b = &bodies[i];
    energy += 0.5 * b->m * (b->vx * b->vx + b->vy * b->vy + b->vz * b->vz);
  }
  return Float(energy);
}
