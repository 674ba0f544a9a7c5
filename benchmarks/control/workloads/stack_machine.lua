-- A list is nil or {head, tail}; an instruction is {name, operand}.
local run
local function step(op, stack)
  local name = op[1]
  if name == "Push" then return {op[2], stack} end
  if name == "While" then
    while stack[1] ~= 0 do stack = run(op[2], stack) end
    return stack
  end
  local a, rest = stack[1], stack[2]
  if name == "Dup" then return {a, {a, rest}} end
  local b = rest[1]
  rest = rest[2]
  if name == "Swap" then return {b, {a, rest}} end
  if name == "Rot" then return {rest[1], {a, {b, rest[2]}}} end
  if name == "Add" then return {b + a, rest} end
  if name == "Sub" then return {b - a, rest} end
  if name == "Mul" then return {b * a, rest} end
  return {b % a, rest}
end
function run(code, stack)
  while code do
    stack = step(code[1], stack)
    code = code[2]
  end
  return stack
end
local function list(items)
  local made = nil
  for i = #items, 1, -1 do made = {items[i], made} end
  return made
end
return function(n)
  local body = list {{"Dup"}, {"Dup"}, {"Mul"}, {"Push", 1000}, {"Mod"}, {"Rot"}, {"Add"}, {"Swap"}, {"Push", 1}, {"Sub"}}
  return run(list {{"Push", 0}, {"Push", n}, {"While", body}, {"Add"}}, nil)[1]
end
