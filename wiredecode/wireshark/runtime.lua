-- Reads messages by the tables that wiredecode writes from its declarations.
--
-- A cursor c has the bytes of one message (c.s as a string, c.tvb as a buffer), the place c.pos of the next byte and the end
-- c.stop, both counted from 0. A reader takes (f, c, v, at, tree, node): the table of its field, the values read before and
-- where each ended, and where in Wireshark's tree and among Wireshark's fields it stands. It returns the value.

local band, bor, bxor, rshift = bit.band, bit.bor, bit.bxor, bit.rshift
local byte, sub, floor, format = string.byte, string.sub, math.floor, string.format

local MAX_ITEMS = 200000 -- fields of one message that are shown
local show_secrets = false

local CALL, R, INNER = {}, {}, {} -- functions of conditions; readers; what bytes carry, each by name
local expert = {} -- expert items, by what they tell

-- Conditions.

local function plain(x)
  if type(x) == "userdata" then return tonumber(tostring(x)) end
  return x
end

local function compare(a, sign, b)
  a, b = plain(a), plain(b)
  if a == nil or b == nil then return false end
  if sign == "==" then return a == b end
  if sign == "~=" then return a ~= b end
  if type(a) ~= type(b) then return false end
  if sign == "<" then return a < b end
  if sign == "<=" then return a <= b end
  if sign == ">" then return a > b end
  return a >= b
end

local function sum(a, sign, b)
  a, b = plain(a), plain(b)
  if type(a) ~= "number" or type(b) ~= "number" then return nil end
  if sign == "+" then return a + b end
  if sign == "-" then return a - b end
  if sign == "*" then return a * b end
  if sign == "&" then return band(a, b) end
  if sign == "|" then return bor(a, b) end
  if sign == "^" then return bxor(a, b) end
  if sign == "<<" then return bit.lshift(a, b) end
  return rshift(a, b)
end

local function among(a, list)
  a = plain(a)
  for _, each in ipairs(list) do
    if a == each then return true end
  end
  return false
end

local function not_among(a, list) return a ~= nil and not among(a, list) end
local function truth(x) return x ~= nil and x ~= false and x ~= 0 and x ~= "" end

local function peek(c, width)
  if c.stop - c.pos < width then return nil end
  local value = 0
  for place = c.pos + 1, c.pos + width do value = value * 256 + byte(c.s, place) end
  return value
end

local function left_of(c, v, at, name)
  if at[name] == nil or v[name] == nil then return nil end
  return math.min(c.stop, at[name] + v[name]) - c.pos
end

local regex_flags = rex_pcre2 and rex_pcre2.flags()
local function regex(pattern)
  return rex_pcre2.new(pattern, bor(regex_flags.ANCHORED, regex_flags.DOTALL))
end

-- Where a pattern matches at the place of the cursor: first byte, byte after the last.
local function match_at(c, pattern)
  local text = c.stop < #c.s and sub(c.s, 1, c.stop) or c.s
  local first, last = pattern:find(text, c.pos + 1)
  if first == nil then return nil end
  return first - 1, last
end

local function matches(c, pattern) return match_at(c, pattern) ~= nil end

-- Bytes.

local function need(f, c, count)
  if count < 0 or c.pos + count > c.stop then
    error({ cut = f[1], need = count, had = c.stop - c.pos, at = c.pos }, 0)
  end
end

local function unfit(f, c, why) error({ unfit = f[1], why = why, at = c.pos }, 0) end

local function unsigned(s, from, width, little)
  local value = 0
  for step = 0, width - 1 do
    local place = little and from + width - step or from + step + 1
    value = value * 256 + byte(s, place)
  end
  return value
end

-- The number of so many bytes at the cursor, which moves behind it. Of eight bytes an (U)Int64.
local function integer(f, c, width, little, signed)
  need(f, c, width)
  local from = c.pos
  c.pos = from + width
  if width == 8 then
    local range = c.tvb(from, 8)
    if signed then return little and range:le_int64() or range:int64() end
    return little and range:le_uint64() or range:uint64()
  end
  local value = unsigned(c.s, from, width, little)
  if signed and value >= 2 ^ (8 * width - 1) then value = value - 2 ^ (8 * width) end
  return value
end

-- A number as conditions and keys use it: large ones stay what they are.
local function small(value)
  if type(value) ~= "userdata" then return value end
  local number = tonumber(tostring(value))
  return math.abs(number) < 2 ^ 53 and number or value
end

-- Text as records show it: bytes that are not UTF-8 as \xNN.
local function printable(s)
  if not s:find("[\128-\255%z]") then return s end
  local out, place, length = {}, 1, #s
  while place <= length do
    local first = byte(s, place)
    local width = first < 0x80 and 1 or first < 0xC2 and 0 or first < 0xE0 and 2 or first < 0xF0 and 3 or first < 0xF5 and 4 or 0
    local good = width > 0 and place + width - 1 <= length
    for step = 1, width - 1 do
      local next_byte = good and byte(s, place + step) or 0
      good = good and next_byte >= 0x80 and next_byte < 0xC0
    end
    local second = width > 2 and good and byte(s, place + 1) or 0
    if (first == 0xE0 and second < 0xA0) or (first == 0xED and second > 0x9F) or (first == 0xF0 and second < 0x90)
        or (first == 0xF4 and second > 0x8F) then
      good = false
    end
    if first == 0 then
      out[#out + 1], place = "\\x00", place + 1
    elseif good then
      out[#out + 1], place = sub(s, place, place + width - 1), place + width
    else
      out[#out + 1], place = format("\\x%02x", first), place + 1
    end
  end
  return table.concat(out)
end

local function hexadecimal(s)
  return (s:gsub(".", function(one) return format("%02x", byte(one)) end))
end

local function redacted(s) return "<redacted " .. #s .. " bytes>" end

-- Moments.

local function moment(value, per)
  if type(value) == "number" then return NSTime.new(floor(value / per), (value % per) * (1000000000 / per)) end
  local of = tostring(value):sub(1, 1) == "-" and Int64 or getmetatable(value) == getmetatable(Int64.new(0)) and Int64 or UInt64
  local scale = of.new(per)
  local seconds, rest = (value / scale):tonumber(), (value % scale):tonumber()
  return NSTime.new(seconds, rest * (1000000000 / per))
end

-- Wireshark's tree.

-- A value as Wireshark takes it for a field of this type, or nil if it has another type, as members of JSON may.
local function fitting(node, value)
  local ftype, kind = node.ftype, type(value)
  if ftype == "string" then return printable(tostring(value)) end
  if ftype == "bool" then
    if kind == "string" then return nil end
    return truth(plain(value))
  end
  if ftype == "double" then return kind == "number" and value or nil end
  if ftype == "absolute_time" then return kind == "userdata" and value or nil end
  if not ftype:find("int") then return nil end
  if kind == "number" then
    if value ~= floor(value) or math.abs(value) >= 2 ^ 64 then return nil end
  elseif kind ~= "userdata" then
    return nil
  end
  if ftype ~= "uint64" and ftype ~= "int64" then return plain(value) end
  if kind == "number" then
    local of = (ftype == "int64" or value < 0) and Int64 or UInt64
    return of.new(value % 2 ^ 32, floor(value / 2 ^ 32) % 2 ^ 32)
  end
  if ftype == "int64" and getmetatable(value) ~= getmetatable(Int64.new(0)) then
    return Int64.new(value:lower(), value:higher())
  end
  return value
end

-- Add a field; bytes, unique ids and structures need no value: the range has it.
local function add(c, tree, node, from, to, value, names)
  c.items = c.items + 1
  if c.items > MAX_ITEMS then error({ unfit = "message", why = "too many fields", at = from }, 0) end
  if node == nil or node.field == nil then return tree end -- also a trial, which shows nothing
  local range = c.tvb(from, to - from)
  local item
  if value == nil then
    item = tree:add(node.field, range)
  else
    value = fitting(node, value)
    if value == nil then return tree end
    item = tree:add(node.field, range, value)
  end
  if names ~= nil and names ~= node.names and names[plain(value)] ~= nil then
    item:set_text(format("%s: %s (%s)", node.title, names[plain(value)], tostring(value)))
  end
  return item
end

local function add_bytes(f, c, tree, node, from, to)
  local s = sub(c.s, from + 1, to)
  if f.secret then
    return add(c, tree, node, from, to, show_secrets and printable(s) or redacted(s))
  elseif node ~= nil and node.ftype == "string" then
    return add(c, tree, node, from, to, hexadecimal(s))
  end
  return add(c, tree, node, from, to)
end

local function kid(node, name) return node and node.kids[name] end

-- A field that no byte of the message tells: in brackets.
local function generate(c, tree, node, value)
  local item = add(c, tree, node, 0, 0, value)
  if item ~= tree then item:set_generated() end
  return item
end

-- Readers of the kinds of fields.

function R.uint(f, c, v, at, tree, node)
  local from = c.pos
  local value = integer(f, c, f.w, f.le, f.signed)
  if f.per and node then
    add(c, tree, node, from, c.pos, moment(value, f.per))
  else
    local item = add(c, tree, node, from, c.pos, value, f.names)
    if f.flags and node then
      local told = {}
      for mask, name in pairs(f.flags) do
        if band(value, mask) ~= 0 then told[#told + 1] = name end
      end
      table.sort(told)
      item:append_text(#told > 0 and " (" .. table.concat(told, ", ") .. ")" or "")
    end
  end
  return small(value)
end

-- Some bits of an integer; the first of those that share it moves behind it.
function R.bits(f, c, v, at, tree, node)
  local from = c.pos - f.back
  if f.back == 0 then
    need(f, c, f.w)
    c.pos = from + f.w
  end
  local value = 0
  for step = 0, f.w - 1 do -- numbers are exact up to 53 bits: bits above are left out
    local shift = 8 * (f.w - 1 - step) - f.shift
    if shift < f.bits then value = value + floor(byte(c.s, from + step + 1) * 2 ^ shift) end
  end
  value = value % 2 ^ f.bits
  add(c, tree, node, from, c.pos, value, f.names)
  return value
end

local function varint(f, c)
  local value = 0
  for index = 0, f.most - 1 do
    need(f, c, 1)
    local one = byte(c.s, c.pos + 1)
    c.pos = c.pos + 1
    value = value + (one % 128) * 2 ^ (7 * index)
    if one < 128 then
      if f.wrap then value = value % f.wrap end
      if f.zigzag then return value % 2 == 0 and value / 2 or -(value + 1) / 2 end
      return f.less and value - 1 or value
    end
  end
  unfit(f, c, "a varint that does not end")
end

local function text_or_bytes(f, c, tree, node, count)
  local from = c.pos
  c.pos = from + count
  local s = sub(c.s, from + 1, c.pos)
  if f.text and not f.secret then
    add(c, tree, node, from, c.pos, s)
  else
    add_bytes(f, c, tree, node, from, c.pos)
  end
  return s
end

function R.sized(f, c, v, at, tree, node)
  local count
  if f.w then
    count = integer(f, c, f.w, f.le, f.signed)
  elseif f.most then
    count = varint(f, c)
  elseif f.of then
    count = v[f.of]
  else
    count = f.fixed
  end
  if f.null ~= nil and count == f.null then return false end
  need(f, c, count)
  local from = c.pos
  local s = text_or_bytes(f, c, tree, node, count)
  if f.inner and INNER[f.inner] then INNER[f.inner](c, v, tree, node, from, c.pos) end
  return s
end

function R.rest(f, c, v, at, tree, node)
  local from = c.pos
  c.pos = c.stop
  if c.stop > from or not f.tail then add_bytes(f, c, tree, node, from, c.stop) end
  return sub(c.s, from + 1, c.stop)
end

function R.uuid(f, c, v, at, tree, node)
  need(f, c, 16)
  local from = c.pos
  c.pos = from + 16
  add(c, tree, node, from, c.pos)
  return sub(c.s, from + 1, c.pos)
end

function R.varint(f, c, v, at, tree, node)
  local from = c.pos
  local value = varint(f, c)
  add(c, tree, node, from, c.pos, value)
  return value
end

function R.float(f, c, v, at, tree, node)
  need(f, c, 8)
  local from = c.pos
  c.pos = from + 8
  local value = c.tvb(from, 8):float()
  add(c, tree, node, from, c.pos, value)
  return value
end

local read_into

local function structure(f, c, tree, node, label)
  local from, at = c.pos, {}
  local item = add(c, tree, node, from, from)
  local v = { _item = item, _node = node }
  if label then item:set_text(label) end
  local good, problem = pcall(read_into, f.layer, c, item, node, v, at)
  if item ~= tree then item:set_len(c.pos - from) end
  v._from, v._to = from, c.pos
  if not good then
    if type(problem) == "table" then problem.partial = v end
    error(problem, 0)
  end
  return v
end

function R.structure(f, c, v, at, tree, node)
  v[f[1]] = nil
  return structure(f, c, tree, node)
end

-- One element of an array after the other; those that were read are values also where the next one is cut.
local function elements(f, c, v, at, tree, node, stop, count)
  local list, outer, element = {}, c.stop, f.element
  v[f[1]] = list
  c.stop = stop
  local index = 0
  while (count and index < count) or (count == nil and c.pos < stop) do
    if element.layer and element[2] == "structure" then
      list[index + 1] = structure(element, c, tree, node, format("%s[%d]", f[1], index))
    else
      list[index + 1] = R[element[2]](element, c, v, at, tree, node)
    end
    index = index + 1
  end
  c.stop = outer
  return list
end

function R.array(f, c, v, at, tree, node)
  local count
  if f.w then
    count = plain(integer(f, c, f.w, f.le, f.signed))
  elseif f.most then
    count = varint(f, c)
  elseif f.of then
    count = v[f.of]
  end
  if f.null ~= nil and count == f.null then return false end
  if count and plain(count) < 0 then unfit(f, c, "a count of " .. count) end
  local stop = f.size and math.min(c.stop, c.pos + v[f.size]) or c.stop
  return elements(f, c, v, at, tree, node, stop, count)
end

-- The fields of a layer, one after another, then those found by tag or key.
function read_into(layer, c, tree, node, v, at)
  local blanks = c.blanks
  c.blanks = layer.blanks or blanks
  for _, f in ipairs(layer.fields) do
    if f.when == nil or f.when(c, v, at) then
      local value = R[f[2]](f, c, v, at, tree, kid(node, f[1]))
      v[f[1]] = value
      at[f[1]] = c.pos
    end
  end
  if layer.tail then layer.tail(layer, c, v, at, tree, node) end
  c.blanks = blanks
end

local function cursor(tvb)
  return { tvb = tvb, s = tvb:raw(), pos = 0, stop = tvb:len(), items = 0, blanks = " \t\r" }
end
