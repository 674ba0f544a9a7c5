local exp = math.exp
local function tanh(x)
  local e = exp(2 * x)
  return 1 - 2 / (e + 1)
end
return function(n, embedding, recurrent, output)
  local sum = 0
  for i = 0, n - 1 do
    local token, state = i % 31 + 1, {}
    for k = 1, 16 do state[k] = 0 end
    for _ = 1, 20 do
      local next = {}
      for row = 0, 15 do
        local x = embedding[token * 16 + row + 1]
        for k = 1, 16 do x = x + recurrent[row * 16 + k] * state[k] end
        next[row + 1] = tanh(x)
      end
      local most = -math.huge
      for row = 0, 31 do
        local x = 0
        for k = 1, 16 do x = x + output[row * 16 + k] * next[k] end
        if x > most then most, token = x, row end
      end
      state = next
      sum = (sum * 31 + token) % 1000003
      if token == 0 then break end
    end
  end
  return sum
end
