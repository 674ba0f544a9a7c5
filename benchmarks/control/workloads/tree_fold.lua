-- A list is nil or {head, tail}; a tree is {label, children}.
local grow_children, fold_children
local function grow(depth, seed)
  local label = seed * 16807 % 2147483647
  if depth == 0 then return {label, nil}, label end
  local children, last = grow_children(1 + label % 3, depth - 1, label)
  return {label, children}, last
end
function grow_children(count, depth, seed)
  if count == 0 then return nil, seed end
  local child, next = grow(depth, seed)
  local rest, last = grow_children(count - 1, depth, next)
  return {child, rest}, last
end
local function fold(tree)
  local size, sum, height = fold_children(tree[2], 0, 0, 0)
  return size + 1, (sum * 31 + tree[1]) % 1000003, height + 1
end
function fold_children(trees, size, sum, height)
  while trees do
    local a, b, c = fold(trees[1])
    size, sum, height = size + a, sum + b, height > c and height or c
    trees = trees[2]
  end
  return size, sum, height
end
return function(depth)
  local total = 0
  for k = 10, 1, -1 do
    local size, sum, height = fold((grow(depth, k)))
    total = total + size * 7 + sum + height
  end
  return total
end
