local function class(byte)
  if byte < 48 then return 0 end
  if byte < 58 then return 2 end
  if byte < 97 then return 0 end
  if byte < 123 then return 1 end
  return 0
end
return function(n, text)
  local state, hash, sum = 0, 0, 0
  for at = 1, n do
    local byte = text[at]
    local now = class(byte)
    if now == state then
      hash = state == 0 and 0 or (hash * 31 + byte) % 1000003
    else
      sum = sum + hash + state
      hash = now == 0 and 0 or byte
      state = now
    end
  end
  return sum + hash
end
