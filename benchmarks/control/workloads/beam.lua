-- A list is nil or {head, tail}; a hypothesis is {cost, last token, tokens}.
local function first(beam, room)
  if beam == nil or room == 0 then return nil end
  return {beam[1], first(beam[2], room - 1)}
end
local function insert(cost, token, tokens, beam, room)
  if room == 0 then return nil end
  if beam == nil then return {{cost, token, {token, tokens}}, nil} end
  local h = beam[1]
  if cost < h[1] then return {{cost, token, {token, tokens}}, first(beam, room - 1)} end
  return {h, insert(cost, token, tokens, beam[2], room - 1)}
end
return function(n)
  local beam = {{0, 0, nil}, nil}
  for step = 0, n - 1 do
    local old = beam
    beam = nil
    while old do
      local h = old[1]
      for token = 0, 7 do
        beam = insert(h[1] + (h[2] * 7919 + token * 104729 + step * 1299709) % 1009, token, h[3], beam, 4)
      end
      old = old[2]
    end
  end
  local sum, tokens = beam[1][1], beam[1][3]
  while tokens do
    sum = (sum * 31 + tokens[1]) % 1000003
    tokens = tokens[2]
  end
  return sum
end
