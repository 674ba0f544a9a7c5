local function body(x, y, z, vx, vy, vz, m) return {x = x, y = y, z = z, vx = vx, vy = vy, vz = vz, m = m} end
local function advance(bodies)
  local n = #bodies
  for i = 1, n do
    local a = bodies[i]
    local ax, ay, az, am = a.x, a.y, a.z, a.m
    local avx, avy, avz = a.vx, a.vy, a.vz
    for j = i + 1, n do
      local b = bodies[j]
      local dx, dy, dz = ax - b.x, ay - b.y, az - b.z
      local d2 = dx * dx + dy * dy + dz * dz
      local mag = 0.01 / (d2 * d2 ^ 0.5)
      local af, bf = b.m * mag, am * mag
      avx, avy, avz = avx - dx * af, avy - dy * af, avz - dz * af
      b.vx, b.vy, b.vz = b.vx + dx * bf, b.vy + dy * bf, b.vz + dz * bf
    end
    a.vx, a.vy, a.vz = avx, avy, avz
    a.x, a.y, a.z = ax + 0.01 * avx, ay + 0.01 * avy, az + 0.01 * avz
  end
end
return function(n)
  local bodies = {
    body(0, 0, 0, 0, 0, 0, 39.47841760435743),
    body(4.84143144246472, -1.16032004402742, -0.103622044471123,
         0.606326392995832, 2.81198684491626, -0.0252183616598876, 0.0376936749096657),
    body(8.34336671824458, 4.1247985641243, -0.403523417114321,
         -1.01077434617879, 1.82566237123041, 0.00841576137658415, 0.0112863261319687),
    body(12.8943695621391, -15.1111514016986, -0.223307578892656,
         1.08279100644154, 0.868713018169608, -0.0108326374013636, 0.00172372405705971),
    body(15.3796971148509, -25.919314609988, 0.179258772950371,
         0.979090732243898, 0.594698998647676, -0.0347559555078104, 0.00203368686992463),
  }
  for _ = 1, n do advance(bodies) end
  local energy = 0.0
  for _, b in ipairs(bodies) do energy = energy + 0.5 * b.m * (b.vx * b.vx + b.vy * b.vy + b.vz * b.vz) end
  return energy
end
