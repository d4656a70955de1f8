-- Pravega: messages by type, in the layout that fits; writers stand for segments; events are cut out of appends and reads.

local function code_at(s, from)
  local code = unsigned(s, from, 4)
  return code >= 2 ^ 31 and code - 2 ^ 32 or code
end

local size_of_any = length_prefixed(P.framing, function(s, from) return P.known[code_at(s, from)] == true end)
local size_of_outer = length_prefixed(P.framing, function(s, from)
  local code = code_at(s, from)
  return P.known[code] and not P.inside[code]
end)
function P.size(s, from, stop, state)
  return (state and state.proposed and size_of_any or size_of_outer)(s, from, stop)
end
P.search = search_framed(size_of_outer)

function P.greets(s, length)
  return length >= 16 and sub(s, 1, 8) == "\255\255\255\129\0\0\0\8" and unsigned(s, 8, 4) <= 1000 and unsigned(s, 12, 4) <= 1000
end

local function proposed(ctx, c, code)
  for _, assignment in ipairs(P.proposals) do
    local layer = assignment[code]
    if layer and fits(layer, c) then return layer end
  end
end

function P.choose(ctx, c)
  if #c.s < 8 then return nil, nil end
  local code = code_at(c.s, 0)
  local layer = P.current[code]
  if code == -127 and layer then
    ctx.state.shipped = true
  elseif not ctx.partial and not ctx.state.shipped then
    local other = proposed(ctx, c, code)
    local only = layer == nil or P.inside[code] or not fits(layer, c)
    if other and (ctx.state.proposed or only) then
      ctx.state.proposed = true
      layer = other
    end
  end
  if layer and not ctx.partial and not ctx.state.proposed then
    local good = fits(layer, c)
    local early = P.ambiguous[code] and not ctx.state.shipped
    if not good or early then
      for _, older in ipairs(P.older[code] or {}) do
        if fits(older, c) then layer = older break end
      end
    end
  elseif layer == nil and not ctx.partial then
    for _, older in ipairs(P.older[code] or {}) do
      if fits(older, c) then layer = older break end
    end
  end
  layer = layer or P.unknown
  local name = P.types[layer.name] or layer.name
  if ctx.client == nil and P.client_types[name] then is_client(ctx, true) end
  if ctx.client == nil and P.server_types[name] then is_client(ctx, false) end
  return layer, layer ~= P.unknown and name or nil
end

-- Events: int32 0, int32 length, contents.
local function walk(data)
  local bounds, place = {}, 0
  while place + 8 <= #data do
    local length = unsigned(data, place + 4, 4)
    if unsigned(data, place, 4) ~= 0 or length > 0x7FFFFFFF then return bounds, place, false end
    if place + 8 + length > #data then return bounds, place, true end
    bounds[#bounds + 1] = { place + 8, place + 8 + length }
    place = place + 8 + length
    if #bounds > 100000 then return bounds, place, false end
  end
  return bounds, place, not sub(data, place + 1, place + 4):find("[^%z]")
end

local function segment_of(ctx, v, writer)
  local segment = writer and ctx.state.writers and ctx.state.writers[writer]
  if segment then tell(ctx, "segment", segment) end
  return segment
end

local function appended(ctx, data, last, count)
  tell(ctx, "append_length", #data)
  local bounds, place, sound = walk(data)
  if place ~= #data or not sound then
    tell(ctx, "framed", false)
    return
  end
  tell(ctx, "event_count", #bounds)
  local first = type(last) == "number" and (count == nil or count == #bounds) and last - #bounds + 1 or nil
  ctx.memo.events = { data = data, bounds = bounds, key = "event_number", base = first }
end

-- The bytes of an append group: whole appends of the block, the start of the one it cut, and the rest of that.
local function rebuild(block, whole, rest)
  local left = #block - whole
  if whole < 0 or left < 0 then return nil end
  if left == 0 then return block end
  if left < 8 then return nil end
  local kind = unsigned(block, whole, 4)
  if unsigned(block, whole + 4, 4) ~= left - 8 then return nil end
  if kind == 2 ^ 32 - 2 then return sub(block, 1, whole) .. sub(block, whole + 9) .. rest, "PartialEvent" end
  if kind == 2 ^ 32 - 1 then return sub(block, 1, whole), "Padding" end
  return nil
end

local function block_end(ctx, v)
  local block = ctx.state.block
  ctx.state.block = nil
  if v.size_of_whole_events == nil or v.last_event_number == nil then return end
  local rest, data, tail = v.data or "", nil, nil
  if block == nil then
    data = rest
  elseif block.whole then
    data, tail = rebuild(block.data, v.size_of_whole_events, rest)
  end
  if tail then tell(ctx, "tail", tail) end
  if data then appended(ctx, data, v.last_event_number, v.num_events) end
end

-- One segment as it is read piece by piece.
local function feed(r, offset, data)
  if r.next and offset + #data <= r.next and not r.starts[offset] then return nil, 0 end
  if r.next == nil or offset > r.next or (offset < r.next and r.starts[offset]) then
    r.sure = offset == 0 or (r.sure and r.starts[offset])
    r.aligned = r.starts[offset] or not sub(data, 1, 4):find("[^%z]")
    r.next, r.start, r.buffer = offset, offset, ""
    if r.aligned then r.starts[offset] = true end
  elseif offset < r.next then
    data = sub(data, r.next - offset + 1)
  end
  r.next = math.max(r.next, offset) + (offset < r.next and 0 or 0)
  if not r.aligned then
    r.next = r.next + #data
    return nil, r.sure and 0 or nil, r.sure and true or nil
  end
  r.next = r.next + #data
  local source = r.buffer .. data
  local bounds, place, sound = walk(source)
  local base = r.start
  local events = #bounds > 0 and { data = source, bounds = bounds, key = "offset", base = base } or nil
  for _, each in ipairs(bounds) do r.starts[base + each[2]] = true end
  r.start = base + place
  if not sound then
    r.aligned, r.buffer = false, ""
    local known = r.sure and true or nil
    return known and events, known and (events and #bounds or 0), known
  end
  r.buffer = sub(source, place + 1)
  return events, #bounds
end

local function segment_read(ctx, v)
  if type(v.offset) ~= "number" or v.data == nil or #v.data == 0 then return end
  local readers = ctx.state.readers or {}
  ctx.state.readers = readers
  local key = tostring(v.segment) .. " " .. tostring(v.request_id)
  readers[key] = readers[key] or { starts = {} }
  local r = readers[key]
  local events, count, unframed = feed(r, v.offset, v.data)
  if count then tell(ctx, "event_count", count) end
  if unframed then tell(ctx, "framed", false) end
  if r.aligned and #r.buffer > 0 then
    tell(ctx, "unfinished_event_offset", r.start)
    tell(ctx, "unfinished_event_bytes", #r.buffer)
  end
  ctx.memo.events = events
end

local function hello(ctx, v)
  local hellos = ctx.state.hellos or {}
  ctx.state.hellos = hellos
  local side = tostring(ctx.client)
  hellos[side] = v.high_version
  local other = hellos[tostring(not ctx.client)]
  if ctx.client then ask(ctx, "hello") else answer(ctx, "hello") end
  if other and v.high_version then tell(ctx, "session_version", math.min(other, v.high_version)) end
end

function P.learn(ctx, layer, v, name)
  local writer = v.writer_id or v.connection_id
  local state = ctx.state
  state.writers = state.writers or {}
  if name == "Hello" then hello(ctx, v) return end
  if state.proposed then return end
  if name == "SetupAppend" and writer then
    state.writers[writer] = v.segment
    ask(ctx, "setup " .. writer)
  elseif name == "AppendSetup" and writer then
    answer(ctx, "setup " .. writer)
    state.writers[writer] = state.writers[writer] or v.segment
  elseif name == "AppendBlock" then
    segment_of(ctx, v, writer)
    state.block = { data = v.data, whole = ctx.good and not ctx.partial }
  elseif name == "AppendBlockEnd" then
    segment_of(ctx, v, writer)
    if not ctx.partial and ctx.good then block_end(ctx, v) end
    if writer then ask(ctx, "append " .. writer .. tostring(v.last_event_number)) end
  elseif name == "ConditionalAppend" and writer then
    segment_of(ctx, v, writer)
    ask(ctx, "append " .. writer .. tostring(v.event_number))
    if v.event and v.event.data then
      tell(ctx, "append_length", 8 + #v.event.data)
      tell(ctx, "event_count", 1)
    elseif v.data then
      appended(ctx, v.data, v.event_number, 1)
    end
  elseif name == "DataAppended" and writer then
    segment_of(ctx, v, writer)
    answer(ctx, "append " .. writer .. tostring(v.event_number))
  elseif name == "SegmentRead" then
    answer(ctx, "id " .. tostring(v.request_id))
    if not ctx.partial and ctx.good then segment_read(ctx, v) end
  elseif P.failures[name] then
    if writer and v.event_number then
      segment_of(ctx, v, writer)
      answer(ctx, "append " .. writer .. tostring(v.event_number))
    else
      answer(ctx, "id " .. tostring(v.request_id))
    end
    refuse(ctx, "the request was refused: " .. name)
  elseif v.request_id ~= nil then
    if P.client_types[name] then ask(ctx, "id " .. tostring(v.request_id)) else answer(ctx, "id " .. tostring(v.request_id)) end
  end
end

function P.finish(ctx, c, item)
  local events = ctx.memo.events
  if events == nil or #events.bounds == 0 then return end
  local node = P.at("pravega.events")
  local inner = cursor(ByteArray.new(events.data, true):tvb("Events"))
  for index, each in ipairs(events.bounds) do
    local one = add(inner, item, node, each[1], each[2])
    one:set_text(format("events[%d]", index - 1))
    if events.base and events.key == "offset" then
      generate(inner, one, node.kids.offset, events.base + each[1] - 8)
    elseif events.base then
      generate(inner, one, node.kids.event_number, events.base + index - 1)
    end
    add(inner, one, node.kids.data, each[1], each[2])
  end
end

-- Modified UTF-8: NUL as two bytes, characters above 16 bits as two surrogates.
function R.java_text(f, c, v, at, tree, node)
  local s = R.sized(f, c, v, at, NOTHING, nil)
  local text = s:gsub("\237([\160-\175])([\128-\191])\237([\176-\191])([\128-\191])", function(a, b, d, e)
    local high, low = (byte(a) - 160) * 64 + byte(b) % 64, (byte(d) - 176) * 64 + byte(e) % 64
    return utf8_of(0x10000 + high * 1024 + low)
  end)
  if f.secret then
    add_bytes(f, c, tree, node, c.pos - #s, c.pos)
  else
    add(c, tree, node, c.pos - #s, c.pos, text)
  end
  return text
end
