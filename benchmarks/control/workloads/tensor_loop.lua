return function(n, a, b, limit)
  local x, size = {}, #a
  for k = 1, size do x[k] = 0 end
  for _ = 1, n do
    local sum = 0
    for k = 1, size do sum = sum + x[k] end
    if sum > limit[1] then break end
    local y = {}
    for k = 1, size do y[k] = a[k] * x[k] + b[k] end
    x = y
  end
  local sum = 0
  for k = 1, size do sum = sum + x[k] end
  return sum
end
