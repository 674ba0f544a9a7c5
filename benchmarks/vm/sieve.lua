-- A list is nil or {head, tail}; filter is that of the Prelude.
local function rev(xs)
  local done = nil
  while xs do
    done = {xs[1], done}
    xs = xs[2]
  end
  return done
end
local function filter(f, xs)
  local done = nil
  while xs do
    if f(xs[1]) then done = {xs[1], done} end
    xs = xs[2]
  end
  return rev(done)
end
return function(n)
  local xs, count = nil, 0
  for i = n, 2, -1 do xs = {i, xs} end
  while xs do
    local p = xs[1]
    xs = filter(function(x) return x % p ~= 0 end, xs[2])
    count = count + 1
  end
  return count
end
