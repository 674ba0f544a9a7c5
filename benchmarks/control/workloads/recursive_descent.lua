local sum
local function factor(text, at)
  if text[at] == 40 then
    local value, stop = sum(text, at + 1)
    return value, stop + 1
  end
  local value, byte = 0, text[at]
  while byte >= 48 and byte <= 57 do
    value = (value * 10 + byte - 48) % 1000003
    at = at + 1
    byte = text[at]
  end
  return value, at
end
local function product(text, at)
  local value, stop = factor(text, at)
  while text[stop] == 42 do
    local next
    next, stop = factor(text, stop + 1)
    value = value * next % 1000003
  end
  return value, stop
end
function sum(text, at)
  local value, stop = product(text, at)
  while true do
    local byte, next = text[stop], nil
    if byte == 43 then
      next, stop = product(text, stop + 1)
      value = (value + next) % 1000003
    elseif byte == 45 then
      next, stop = product(text, stop + 1)
      value = (value - next) % 1000003
    else
      return value, stop
    end
  end
end
return function(_, text)
  local value, stop = sum(text, 1)
  return value + stop - 1
end
