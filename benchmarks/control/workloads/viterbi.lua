return function(n, scores, steps)
  local best, from = {}, nil
  for k = 1, 8 do best[k] = scores[k] end
  for t = 1, n - 1 do
    local next, row = {}, {}
    for to = 1, 8 do
      local most, at = -math.huge, 0
      for k = 1, 8 do
        local score = steps[(to - 1) * 8 + k] + best[k]
        if score > most then most, at = score, k end
      end
      next[to], row[to] = most + scores[t * 8 + to], at
    end
    best, from = next, {row, from}
  end
  local state = 1
  for k = 2, 8 do
    if best[k] > best[state] then state = k end
  end
  local sum = state - 1
  while from do
    state = from[1][state]
    sum = (sum * 31 + state - 1) % 1000003
    from = from[2]
  end
  return sum
end
