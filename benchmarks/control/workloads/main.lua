-- Runs a program some times; prints its result and the least seconds of the processor: main.lua PROGRAM N REPEAT FILE...
-- An array is a file with one number a line.
local run, n, tries = dofile(arg[1]), tonumber(arg[2]), tonumber(arg[3])
local data = {}
for i = 4, #arg do
  local file, values = assert(io.open(arg[i])), {}
  for value in function() return file:read("*n") end do values[#values + 1] = value end
  file:close()
  data[i - 3] = values
end
local result
local least = math.huge
for _ = 1, tries do
  local began = os.clock()
  result = run(n, (table.unpack or unpack)(data))
  least = math.min(least, os.clock() - began)
end
if math.type and math.type(result) == "integer" then result = string.format("%d", result) else result = string.format("%.17g", result) end
print(result, string.format("%.9f", least))
