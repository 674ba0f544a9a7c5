return function(n)
  local i, sum = 0, 0
  while i ~= n do
    sum = sum + i * i
    i = i + 1
  end
  return sum
end
