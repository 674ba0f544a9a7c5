BODIES = [
    [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 39.47841760435743],
    [4.84143144246472, -1.16032004402742, -0.103622044471123,
     0.606326392995832, 2.81198684491626, -0.0252183616598876, 0.0376936749096657],
    [8.34336671824458, 4.1247985641243, -0.403523417114321,
     -1.01077434617879, 1.82566237123041, 0.00841576137658415, 0.0112863261319687],
    [12.8943695621391, -15.1111514016986, -0.223307578892656,
     1.08279100644154, 0.868713018169608, -0.0108326374013636, 0.00172372405705971],
    [15.3796971148509, -25.919314609988, 0.179258772950371,
     0.979090732243898, 0.594698998647676, -0.0347559555078104, 0.00203368686992463],
]


def advance(bodies):
    for i, a in enumerate(bodies):
        ax, ay, az, avx, avy, avz, am = a
        for b in bodies[i + 1:]:
            bx, by, bz, bvx, bvy, bvz, bm = b
            dx, dy, dz = ax - bx, ay - by, az - bz
            d2 = dx * dx + dy * dy + dz * dz
            mag = 0.01 / (d2 * d2**0.5)
            af, bf = bm * mag, am * mag
            avx, avy, avz = avx - dx * af, avy - dy * af, avz - dz * af
            b[3], b[4], b[5] = bvx + dx * bf, bvy + dy * bf, bvz + dz * bf
        a[0], a[1], a[2] = ax + 0.01 * avx, ay + 0.01 * avy, az + 0.01 * avz
        a[3], a[4], a[5] = avx, avy, avz


def run(n):
    bodies = [list(body) for body in BODIES]
    for _ in range(n):
        advance(bodies)
    return sum(0.5 * m * (vx * vx + vy * vy + vz * vz) for _, _, _, vx, vy, vz, m in bodies)
