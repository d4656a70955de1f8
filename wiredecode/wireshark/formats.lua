-- Protocol buffers, JSON and lines of text.

-- Protocol buffers: a varint as two halves of 32 bits.
local function halves(f, c)
  local low, high = 0, 0
  for index = 0, 9 do
    need(f, c, 1)
    local one = byte(c.s, c.pos + 1)
    c.pos = c.pos + 1
    local bits = one % 128
    if index < 4 then
      low = low + bits * 2 ^ (7 * index)
    elseif index == 4 then
      low, high = low + (bits % 16) * 2 ^ 28, floor(bits / 16)
    else
      high = (high + bits * 2 ^ (7 * index - 32)) % 2 ^ 32
    end
    if one < 128 then return low, high end
  end
  unfit(f, c, "a varint of more than 10 bytes")
end

local function pb_length(f, c)
  local low, high = halves(f, c)
  local count = high * 2 ^ 32 + low
  need(f, c, count)
  return count
end

local function pb_value(f, low, high)
  local as = f.as
  if as == "bool" then return low + high ~= 0 end
  if as == "uint32" then return low end
  if as == "int32" then return low >= 2 ^ 31 and low - 2 ^ 32 or low end
  return (as == "int64" and Int64 or UInt64).new(low, high)
end

function R.pb_number(f, c, v, at, tree, node)
  local from = c.pos
  local value = pb_value(f, halves(f, c))
  add(c, tree, node, c.tag or from, c.pos, f.per and moment(value, f.per) or value, f.names)
  return type(value) == "boolean" and value or small(value)
end

function R.pb_sized(f, c, v, at, tree, node)
  return text_or_bytes(f, c, tree, node, pb_length(f, c))
end

function R.pb_message(f, c, v, at, tree, node)
  local count = pb_length(f, c)
  local outer = c.stop
  c.stop = c.pos + count
  local value = structure(f, c, tree, node, f.label)
  c.stop = outer
  return value
end

function R.pb_repeated(f, c, v, at, tree, node)
  local list = v[f[1]] or {}
  local element = f.element
  if f.packed and c.wire == 2 then
    local stop = pb_length(f, c)
    stop = c.pos + stop
    c.tag = nil
    while c.pos < stop do list[#list + 1] = R[element[2]](element, c, v, at, tree, node) end
  else
    element.label = format("%s[%d]", f[1], #list)
    list[#list + 1] = R[element[2]](element, c, v, at, tree, node)
  end
  return list
end

local TAG = { "tag" }
local FIXED = { [1] = 8, [5] = 4 }
local LENGTH_DELIMITED = { pb_sized = true, pb_message = true }

local function protobuf_tail(layer, c, v, at, tree, node)
  while c.pos < c.stop do
    local from = c.pos
    local low, high = halves(TAG, c)
    local tag = high * 2 ^ 32 + low
    local wire, number = tag % 8, floor(tag / 8)
    local f = layer.tagged[number]
    local reader = f and (f.element and f.element[2] or f[2])
    if f and ((wire == 0 and reader == "pb_number") or (wire == 2 and (LENGTH_DELIMITED[reader] or f.packed))) then
      c.tag, c.wire = from, wire
      v[f[1]] = R[f[2]](f, c, v, at, tree, kid(node, f[1]))
      at[f[1]] = c.pos
      c.tag = nil
    elseif wire == 0 then
      halves(TAG, c)
    elseif wire == 2 then
      local count = pb_length(TAG, c)
      c.pos = c.pos + count
    elseif FIXED[wire] then
      need(TAG, c, FIXED[wire])
      c.pos = c.pos + FIXED[wire]
    else
      unfit(TAG, c, "no wire type of protobuf")
    end
  end
  for _, number in ipairs(layer.order) do -- proto3 leaves defaults out
    local f = layer.tagged[number]
    if v[f[1]] == nil and f.zero then
      local value = 0
      if f[2] == "pb_sized" then value = "" elseif f.as == "bool" then value = false end
      local field = kid(node, f[1])
      local item
      if f.per then
        item = add(c, tree, field, c.pos, c.pos, NSTime.new(0, 0))
      elseif f[2] == "pb_sized" and not f.text then
        item = add(c, tree, field, c.pos, c.pos)
      else
        item = add(c, tree, field, c.pos, c.pos, value, f.names)
      end
      if item ~= tree then item:set_generated() end
      v[f[1]] = value
    end
  end
end

-- JSON. Values come back as Lua values; null is JSON_NULL, arrays know their length, objects the order of their members.

local JSON_NULL = {}
local json_value
local ESCAPES = { b = "\b", f = "\f", n = "\n", r = "\r", t = "\t" }

local function utf8_of(code)
  if code < 0x80 then return string.char(code) end
  if code < 0x800 then return string.char(0xC0 + floor(code / 64), 0x80 + code % 64) end
  if code < 0x10000 then return string.char(0xE0 + floor(code / 4096), 0x80 + floor(code / 64) % 64, 0x80 + code % 64) end
  return string.char(0xF0 + floor(code / 262144), 0x80 + floor(code / 4096) % 64, 0x80 + floor(code / 64) % 64, 0x80 + code % 64)
end

local function json_space(s, place) return s:match("^[ \t\r\n]*()", place) end

local function json_string(s, place)
  local out = {}
  place = place + 1
  while true do
    local run, stop = s:match('^([^"\\]*)()', place)
    out[#out + 1] = run
    local mark = sub(s, stop, stop)
    if mark == '"' then return table.concat(out), stop + 1 end
    if mark ~= "\\" then error({ unfit = "json", why = "a string without end", at = place }, 0) end
    local code = sub(s, stop + 1, stop + 1)
    if code == "u" then
      local number = tonumber(sub(s, stop + 2, stop + 5), 16) or 0xFFFD
      place = stop + 6
      local low = number >= 0xD800 and number < 0xDC00 and s:match("^\\u([dD][c-fC-F]%x%x)", place)
      if low then
        number, place = 0x10000 + (number - 0xD800) * 1024 + tonumber(low, 16) - 0xDC00, place + 6
      end
      out[#out + 1] = utf8_of(number)
    else
      out[#out + 1], place = ESCAPES[code] or code, stop + 2
    end
  end
end

-- The members of an object, in order: name, value, and where the value begins and ends (counted from 1, end excluded).
local function json_members(s, place, depth)
  local list = {}
  place = json_space(s, place + 1)
  if sub(s, place, place) == "}" then return list, place + 1 end
  while true do
    place = json_space(s, place)
    if sub(s, place, place) ~= '"' then error({ unfit = "json", why = "no name of a member", at = place }, 0) end
    local name, after = json_string(s, place)
    after = json_space(s, after)
    if sub(s, after, after) ~= ":" then error({ unfit = "json", why = "a colon expected", at = after }, 0) end
    local from = json_space(s, after + 1)
    local value, stop = json_value(s, from, depth)
    list[#list + 1] = { name = name, value = value, from = from, to = stop }
    place = json_space(s, stop)
    local mark = sub(s, place, place)
    place = place + 1
    if mark == "}" then return list, place end
    if mark ~= "," then error({ unfit = "json", why = "a comma or the end of the object expected", at = place }, 0) end
  end
end

function json_value(s, place, depth)
  if depth > 64 then error({ unfit = "json", why = "nested too deep", at = place }, 0) end
  local mark = sub(s, place, place)
  if mark == '"' then return json_string(s, place) end
  if mark == "{" then
    local list, stop = json_members(s, place, depth + 1)
    return { members = list }, stop
  end
  if mark == "[" then
    local list = { n = 0, array = true }
    place = json_space(s, place + 1)
    if sub(s, place, place) == "]" then return list, place + 1 end
    while true do
      local value, stop = json_value(s, json_space(s, place), depth + 1)
      list.n = list.n + 1
      list[list.n] = value
      place = json_space(s, stop)
      mark = sub(s, place, place)
      place = place + 1
      if mark == "]" then return list, place end
      if mark ~= "," then error({ unfit = "json", why = "a comma or the end of the array expected", at = place }, 0) end
    end
  end
  local word, stop = s:match("^([%w%.+-]+)()", place)
  if word == "true" or word == "false" then return word == "true", stop end
  if word == "null" then return JSON_NULL, stop end
  local number = word and tonumber(word)
  if number == nil then error({ unfit = "json", why = "no value", at = place }, 0) end
  if number == floor(number) and math.abs(number) >= 2 ^ 53 and not word:find("[.eE]") then
    return (number < 0 and Int64 or UInt64)(word), stop
  end
  return number, stop
end

local SECRET_NAME = rex_pcre2 and rex_pcre2.new(SECRET_NAME_PATTERN, "i")
local SECRET_VALUE = rex_pcre2 and rex_pcre2.new(SECRET_VALUE_PATTERN)

-- Whether a name or a text tells that it carries credentials.
local function is_secret(name, value)
  return SECRET_NAME:find(name) ~= nil or (type(value) == "string" and SECRET_VALUE:find(value) ~= nil)
end

local function hides_nothing(value)
  return value == JSON_NULL or type(value) == "boolean" or value == "" or (type(value) == "table" and #value == 0 and not value.members)
end

-- Show one JSON value as a field: elements of arrays one after another, objects as their text.
local function add_json(c, tree, node, from, to, value, secret)
  if node == nil or value == JSON_NULL then return end
  if secret and not show_secrets and not hides_nothing(value) then
    local s = type(value) == "string" and value or sub(c.s, from + 1, to)
    add(c, tree, node, from, to, redacted(s))
  elseif type(value) == "table" and value.array then
    for index = 1, value.n do add_json(c, tree, node, from, to, value[index], false) end
  elseif type(value) == "table" then
    add(c, tree, node, from, to, sub(c.s, from + 1, to))
  elseif type(value) ~= "number" or node.ftype ~= "bool" then
    add(c, tree, node, from, to, value)
  end
end

function R.json_member() error("read by json_tail") end

local function json_tail(layer, c, v, at, tree, node)
  local stop = (c.s:find("\n", c.pos + 1, true) or c.stop + 1) - 1
  local from = json_space(c.s, c.pos + 1)
  if sub(c.s, from, from) ~= "{" then error({ unfit = "other", why = "a JSON object expected", at = c.pos }, 0) end
  local list, after = json_members(sub(c.s, 1, math.min(stop, c.stop)), from, 1)
  for _, member in ipairs(list) do
    local f = layer.members[member.name] or layer.members[member.name:lower()]
    if f then
      v[f[1]] = type(member.value) == "table" and member.value.members and member.value or member.value
      local secret = f.secret or is_secret("", member.value)
      add_json(c, tree, kid(node, f[1]), member.from - 1, member.to - 1, member.value, secret)
    end
  end
  c.pos = after - 1
end

-- Lines of text.

local function line_stop(c)
  local found = c.s:find("\n", c.pos + 1, true)
  return found and found - 1 <= c.stop and found - 1 or c.stop
end

-- The tokens left on the line: first byte and byte after the last of each.
local function tokens_at(c)
  local stop, spans, place = line_stop(c), {}, c.pos
  local class = c.blanks:find("\r", 1, true) and "[ \t\r]" or "[ \t]"
  local other = class:gsub("^%[", "[^")
  if class == "[ \t]" and byte(c.s, stop) == 13 then stop = stop - 1 end
  local line = sub(c.s, 1, stop)
  while true do
    local first, last = line:find(other .. "+", place + 1)
    if first == nil then return spans end
    spans[#spans + 1] = { first - 1, last }
    place = last
  end
end

local function tokens_left(c) return #tokens_at(c) end

local function next_token(c)
  local span = tokens_at(c)[1]
  return span and sub(c.s, span[1] + 1, span[2]) or ""
end

function R.word(f, c, v, at, tree, node)
  local count = #f.word
  need(f, c, count)
  if sub(c.s, c.pos + 1, c.pos + count):upper() ~= f.word:upper() then unfit(f, c, f[1] .. " is not " .. f.word) end
  add(c, tree, node, c.pos, c.pos + count, f.word)
  c.pos = c.pos + count
  return f.word
end

local function take_token(f, c)
  local span = tokens_at(c)[1]
  if span == nil or span[1] == c.pos then unfit(f, c, f[1] .. " is missing") end
  c.pos = span[2]
  return span[1], span[2]
end

function R.token(f, c, v, at, tree, node)
  local from, to = take_token(f, c)
  local s = sub(c.s, from + 1, to)
  add(c, tree, node, from, to, s)
  return s
end

function R.decimal(f, c, v, at, tree, node)
  local from, to = take_token(f, c)
  local s = sub(c.s, from + 1, to)
  if #s > f.digits or not s:find("^%d+$") then unfit(f, c, f[1] .. " is not a number") end
  add(c, tree, node, from, to, tonumber(s))
  return tonumber(s)
end

function R.tokens(f, c, v, at, tree, node)
  local spans, list = tokens_at(c), {}
  if #spans <= f.leave then unfit(f, c, f[1] .. " are missing") end
  for index = 1, #spans - f.leave do
    local span = spans[index]
    list[index] = sub(c.s, span[1] + 1, span[2])
    add(c, tree, node, span[1], span[2], list[index])
    c.pos = span[2]
  end
  return list
end

function R.line_text(f, c, v, at, tree, node)
  local stop = line_stop(c)
  local line = sub(c.s, c.pos + 1, stop)
  local from = c.pos + #line - #line:gsub("^[ \t]+", "")
  local to = math.max(from, c.pos + #line:gsub("[ \t\r]+$", ""))
  c.pos = to
  if f.quote and to - from >= 2 and sub(c.s, from + 1, from + 1) == f.quote and sub(c.s, to, to) == f.quote then
    from, to = from + 1, to - 1
  end
  local s = sub(c.s, from + 1, to)
  if f.secret then add_bytes(f, c, tree, node, from, to) else add(c, tree, node, from, to, s) end
  return s
end

function R.until_mark(f, c, v, at, tree, node)
  local found = c.s:find(f.mark, c.pos + 1, true)
  if found == nil or found - 1 >= c.stop then unfit(f, c, f[1] .. " does not end") end
  local from, to = c.pos, found - 1
  if f.skip then from = c.s:match("^[ \t]*()", c.pos + 1) - 1 end
  from = math.min(from, to)
  local s = sub(c.s, from + 1, to)
  c.pos = to + #f.mark
  local hide = f[1] == "value" and v.key and not show_secrets and is_secret(v.key, s)
  add(c, tree, node, from, to, hide and redacted(s) or s)
  return s
end

function R.line_end(f, c, v, at, tree, node)
  local found = c.s:find("\n", c.pos + 1, true)
  if found == nil or found > c.stop then need(f, c, c.stop - c.pos + 1) end
  if sub(c.s, c.pos + 1, found - 1):find("[^ \t\r]") then unfit(f, c, "bytes more on the line than its fields") end
  c.pos = found
  return "\r\n"
end

function R.constant(f, c, v, at, tree, node)
  local count = #f.mark
  local there = sub(c.s, c.pos + 1, math.min(c.stop, c.pos + count))
  if there ~= f.mark then
    if sub(f.mark, 1, #there) == there then need(f, c, count) end
    unfit(f, c, "other bytes than expected")
  end
  c.pos = c.pos + count
  return there
end

-- Checksums, by their polynomial.

local CRC_TABLES = {}
local CRC32, CRC32C = 0xEDB88320, 0x82F63B78
local function crc(s, polynomial)
  local by_byte = CRC_TABLES[polynomial]
  if by_byte == nil then
    by_byte = {}
    for index = 0, 255 do
      local value = index
      for _ = 1, 8 do value = band(value, 1) ~= 0 and bxor(rshift(value, 1), polynomial) or rshift(value, 1) end
      by_byte[index] = value
    end
    CRC_TABLES[polynomial] = by_byte
  end
  local value = -1
  for place = 1, #s do value = bxor(rshift(value, 8), by_byte[band(bxor(value, byte(s, place)), 0xFF)]) end
  return bxor(value, -1) % 2 ^ 32
end
