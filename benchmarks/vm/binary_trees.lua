local function make(depth)
  if depth == 0 then return {} end
  return {make(depth - 1), make(depth - 1)}
end
local function nodes(tree)
  if tree[1] == nil then return 1 end
  return nodes(tree[1]) + nodes(tree[2]) + 1
end
return function(depth)
  local sum = 0
  for _ = 1, 10 do sum = sum + nodes(make(depth)) end
  return sum
end
