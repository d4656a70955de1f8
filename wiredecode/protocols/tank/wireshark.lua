-- TANK: nothing but the side tells a request from a response; bundles of messages, numbered by their headers.

local PRODUCE, CONSUME, PRODUCE_WITH_BASE, CONSUME_AS_PEER = 1, 2, 5, 9

P.size = length_prefixed(P.framing, function(s, from, size) return P.names[byte(s, from + 1)] ~= nil end)
P.search = search_framed(P.size)

-- A broker greets with a Ping, once.
function P.greets(s, length) return length == 5 and s == "\3\0\0\0\0" end

function P.restarts(s) return P.greets(s, #s) end

function P.choose(ctx, c)
  c.bundles, c.chunks = {}, {}
  if #c.s < 5 then return nil, nil end
  local code = byte(c.s, 1)
  if ctx.client == nil and code == 3 then is_client(ctx, false) end
  local answers = ctx.client == false
  local layer = (answers and P.responses or P.requests)[code]
  local name = P.names[code]
  if layer == nil then return P.unknown, name end
  return layer, name .. ((answers and code ~= 3) and "Response" or "")
end

-- Kinds of fields.

function R.in_header(f, c, v, at, tree, node)
  local outer = c.stop
  c.stop = math.max(c.pos, math.min(c.stop, at.header_length + v.header_length))
  local value = R[f.inside](f, c, v, at, tree, node)
  c.stop = outer
  return value
end

function R.endpoint(f, c, v, at, tree, node)
  need(f, c, 6)
  local a, b, d, e = byte(c.s, c.pos + 1, c.pos + 4)
  local text = format("%d.%d.%d.%d:%d", a, b, d, e, unsigned(c.s, c.pos + 4, 2, true))
  add(c, tree, node, c.pos, c.pos + 6, text)
  c.pos = c.pos + 6
  return text
end

function R.bounded(f, c, v, at, tree, node)
  local size, outer = v[f.size], c.stop
  local stop = c.pos + size
  c.stop = math.min(stop, outer)
  local value = structure(f, c, tree, node)
  c.stop = outer
  if stop > outer then error({ cut = f[1], need = size, had = outer - c.pos, at = c.pos, partial = value }, 0) end
  return value
end

-- What is there of a structure that is cut.
function R.tail_structure(f, c, v, at, tree, node)
  local from, values = c.pos, {}
  local item = add(c, tree, node, from, from)
  local good, problem = pcall(read_into, f.layer, c, item, node, values, {})
  if not good and type(problem) ~= "table" then error(problem, 0) end
  if not good and c.pos < c.stop then add(c, item, kid(node, "cut"), c.pos, c.stop) end
  c.pos = c.stop
  item:set_len(c.pos - from)
  return values
end

local function message_count(bundle)
  local told = band(rshift(bundle.flags, 2), 15)
  return told ~= 0 and told or bundle.message_count or 0
end

-- Elements up to the end, as long as they fit.
local function greedy(c, tree, node, label, layer_of)
  local list = {}
  while c.pos < c.stop do
    local from, values = c.pos, {}
    local item = add(c, tree, node, from, from)
    item:set_text(format("%s[%d]", label, #list))
    local good, problem = pcall(read_into, layer_of(#list), c, item, node, values, {})
    if not good then
      if type(problem) ~= "table" then error(problem, 0) end
      item:set_text("what follows does not fit")
      item:set_hidden()
      c.pos = from
      return list
    end
    item:set_len(c.pos - from)
    values._item, values._node = item, node
    list[#list + 1] = values
  end
  return list
end

function R.messages(f, c, v, at, tree, node)
  local count = message_count(v)
  local last = band(v.flags, P.sparse) ~= 0 and count - 1 or 0
  local list = greedy(c, tree, node, f[1], function(index) return index > 0 and index < last and f.gapped or f.simple end)
  local stamp, shown
  for index, message in ipairs(list) do
    if message.timestamp ~= nil then
      stamp = message.timestamp
    elseif node then
      generate(c, message._item, kid(node, "timestamp"), moment(stamp or 0, 1000))
    end
  end
  return list
end

-- Raw snappy blocks.
local function snappy(s)
  local place, shift, size = 1, 0, 0
  repeat
    local one = byte(s, place)
    if one == nil then return nil end
    size, shift, place = size + (one % 128) * 2 ^ shift, shift + 7, place + 1
  until one < 128
  if size > 16777216 then return nil end
  local out = ""
  local parts, length = {}, 0
  while place <= #s do
    local tag = byte(s, place)
    local kind = tag % 4
    place = place + 1
    if kind == 0 then
      local count = floor(tag / 4)
      if count >= 60 then
        local width = count - 59
        if place + width - 1 > #s then return nil end
        count, place = unsigned(s, place - 1, width, true), place + width
      end
      count = count + 1
      if place + count - 1 > #s then return nil end
      out, place = out .. sub(s, place, place + count - 1), place + count
    else
      local count, back
      if kind == 1 then
        if place > #s then return nil end
        count, back, place = 4 + floor(tag / 4) % 8, floor(tag / 32) * 256 + byte(s, place), place + 1
      else
        local width = kind == 2 and 2 or 4
        if place + width - 1 > #s then return nil end
        count, back, place = 1 + floor(tag / 4), unsigned(s, place - 1, width, true), place + width
      end
      if back == 0 or back > #out then return nil end
      local from = #out - back + 1
      if back >= count then
        out = out .. sub(out, from, from + count - 1)
      else
        local unit = sub(out, from)
        out = out .. sub(unit:rep(math.ceil(count / back)), 1, count)
      end
    end
    if #out > size then return nil end
  end
  return #out == size and out or nil
end

local function describe(c, tree, node, bundle)
  local codec = band(bundle.flags, 3)
  generate(c, tree, kid(node, "codec"), P.codecs[codec] or ("codec " .. codec))
  generate(c, tree, kid(node, "sparse"), band(bundle.flags, P.sparse) ~= 0)
  if bundle.message_count == nil then generate(c, tree, kid(node, "message_count"), message_count(bundle)) end
end

local function inflate(c, tree, node, bundle)
  local plain = snappy(bundle.message_set or "")
  if plain == nil then return end
  generate(c, tree, kid(node, "uncompressed_length"), #plain)
  local inner = cursor(ByteArray.new(plain, true):tvb("Decompressed messages"))
  local values = { flags = band(bundle.flags, 0xFC), message_count = bundle.message_count }
  bundle.messages = R.messages(P.messages, inner, values, {}, tree, kid(node, "messages"))
  bundle.inner = inner
end

-- The numbers of the messages of a bundle; returns that of the next one.
local function number(c, node, bundle, first, count)
  local messages = bundle.messages or {}
  first = bundle.first_sequence_number or first
  if type(first) ~= "number" then return nil end -- or Lua's numbers are not exact
  if bundle.first_sequence_number then
    local last = count == 1 and first or first + (bundle.last_delta or 0) + 1
    local now = first - 1
    for index, message in ipairs(messages) do
      if band(message.flags, 4) ~= 0 then
        now = now + 1
      elseif index == 1 then
        now = first
      elseif index == count then
        now = last
      else
        now = now + (message.gap or 0) + 1
      end
      generate(bundle.inner or c, message._item, kid(message._node, "sequence_number"), now)
      message._number = now
    end
    return last + 1, first, last
  end
  for index, message in ipairs(messages) do
    generate(bundle.inner or c, message._item, kid(message._node, "sequence_number"), first + index - 1)
    message._number = first + index - 1
  end
  return first + count, first, first + count - 1
end

function R.bundles(f, c, v, at, tree, node)
  return greedy(c, tree, node, f[1], function() return f.layer end)
end

function R.chunks(f, c, v, at, tree, node)
  local outer, list = c.stop, {}
  for _, topic in ipairs(v.topics or {}) do
    for _, entry in ipairs(type(topic.partitions) == "table" and topic.partitions or {}) do
      if truth(entry.chunk_length) then
        local from, values = c.pos, {}
        local item = add(c, tree, node, from, from)
        item:set_text(format("%s[%d]", f[1], #list))
        c.stop = math.min(outer, from + entry.chunk_length)
        local before = #c.bundles
        read_into(f.layer, c, item, node, values, {})
        item:set_len(c.pos - from)
        generate(c, item, kid(node, "topic"), topic.topic)
        generate(c, item, kid(node, "partition"), entry.partition)
        values.entry, values.topic, values.first_bundle, values.last_bundle = entry, topic.topic, before + 1, #c.bundles
        list[#list + 1] = values
        c.chunks[#c.chunks + 1] = values
        c.pos = c.stop
      end
    end
  end
  c.stop = outer
  return list
end

-- Messages that the client drops: below what it asked for, above the high water mark.
local function mark_dropped(c, chunk, bundle)
  local wanted = 0
  for _, place in ipairs(c.ctx.memo.asked or {}) do
    if place[1] == chunk.topic and place[2] == chunk.entry.partition then wanted = place[3] end
  end
  if type(wanted) ~= "number" then wanted = 0 end
  local high = chunk.entry.high_water_mark
  for _, message in ipairs(bundle.messages or {}) do
    local number = message._number
    if number and number < wanted then
      generate(bundle.inner or c, message._item, kid(message._node, "below_requested"), true)
    elseif number and type(high) == "number" and number > high then
      generate(bundle.inner or c, message._item, kid(message._node, "above_high_water_mark"), true)
    end
  end
end

-- Where bundles stand, in the order of the wire.
local function finish_bundles(ctx, c, v)
  local told, low, high, first = 0, nil, nil, nil
  local function one(entry, next_number)
    local bundle, node = entry.bundle, entry.node
    if bundle.flags == nil then return nil end
    describe(c, entry.item, node, bundle)
    local count = message_count(bundle)
    if band(bundle.flags, 3) == 1 then inflate(c, entry.item, node, bundle) end
    told = told + (bundle.messages and #bundle.messages or count)
    local following, from, to = number(c, node, bundle, next_number, count)
    if from then low, high = math.min(low or from, from), math.max(high or to, to) end
    return following
  end
  if #c.chunks > 0 then
    for _, chunk in ipairs(c.chunks) do
      local next_number = chunk.entry.base_sequence_number
      if chunk.entry.result == P.sparse_first then next_number = nil end
      for index = chunk.first_bundle, chunk.last_bundle do 
        next_number = one(c.bundles[index], next_number)
        mark_dropped(c, chunk, c.bundles[index].bundle)
      end
    end
  else
    for _, entry in ipairs(c.bundles) do one(entry, entry.base) end
  end
  return told, low, high
end

function R.bundle_structure(f, c, v, at, tree, node)
  local from, size, outer = c.pos, v[f.size], c.stop
  local stop = from + size
  c.stop = math.min(stop, outer)
  local values = {}
  local item = add(c, tree, node, from, from)
  local good, problem = pcall(read_into, f.layer, c, item, node, values, {})
  item:set_len(c.pos - from)
  c.stop = outer
  c.bundles[#c.bundles + 1] = { bundle = values, item = item, node = node, base = v.base_sequence_number }
  if not good then
    c.bundles[#c.bundles] = nil
    error(problem, 0)
  end
  if stop > outer then error({ cut = f[1], need = size, had = outer - from, at = from, partial = values }, 0) end
  return values
end

-- Topics and partitions, as requests name them.
local function addressed(v)
  local list = {}
  for _, topic in ipairs(v.topics or {}) do
    for _, entry in ipairs(type(topic.partitions) == "table" and topic.partitions or {}) do
      list[#list + 1] = { topic.topic, entry.partition, entry.sequence_number, entry.fetch_size }
    end
  end
  return list
end

local function name_partitions(ctx, list)
  local seen, named = {}, {}
  for _, each in ipairs(list) do
    local key = tostring(each[1]) .. "/" .. tostring(each[2])
    if not seen[key] and #named <= 8 then
      seen[key] = true
      named[#named + 1] = each
    end
  end
  if #named == 1 then
    tell(ctx, "topic", named[1][1])
    tell(ctx, "partition", named[1][2])
  elseif #named > 1 then
    local words = {}
    for index = 1, math.min(8, #named) do words[index] = printable(named[index][1]) .. "/" .. named[index][2] end
    tell(ctx, "targets", table.concat(words, " ") .. (#named > 8 and " ..." or ""))
  end
  return #named == 1
end

-- The places that the results of Produce are about: some stand for all partitions of their topic.
local function places_of(list, results)
  local places, stopped = {}, {}
  for _, each in ipairs(list) do
    if stopped[each[1]] then
      table.insert(stopped[each[1]].whole, each[2])
    else
      local result = results[#places + 1]
      local place = { each[1], each[2] }
      if result and P.whole_topic[result.result] then
        place.whole = { each[2] }
        stopped[each[1]] = place
      end
      places[#places + 1] = place
    end
  end
  return places
end

function P.learn(ctx, layer, v, name)
  local code = v.message_id
  if code == nil then return end
  local asks = ctx.client ~= false
  local key = (code == PRODUCE_WITH_BASE and PRODUCE or code) .. " " .. tostring(v.request_id)
  local request
  if code == CONSUME_AS_PEER then key = "peer" end
  if v.request_id ~= nil or code == CONSUME_AS_PEER then
    if asks then ask(ctx, key) else request = answer(ctx, key) end
  end
  ctx.memo.asked = request and addressed(request.values) or nil
  ctx.memo.numbers = request and request.values.partitions or nil
  ctx.memo.known = request ~= nil
  if asks and (code == PRODUCE or code == PRODUCE_WITH_BASE or code == CONSUME or code == CONSUME_AS_PEER) then
    local list = addressed(v)
    ctx.memo.one = name_partitions(ctx, list)
    local same = code ~= PRODUCE and code ~= PRODUCE_WITH_BASE and list[1] and list[1][3]
    for _, each in ipairs(list) do same = same ~= nil and each[3] == same and same or nil end
    if same and code ~= PRODUCE_WITH_BASE then tell(ctx, "sequence_number", same) end
  elseif not asks and (code == CONSUME or code == CONSUME_AS_PEER) then
    name_partitions(ctx, addressed(v))
  elseif not asks and code == PRODUCE and ctx.memo.asked then
    ctx.memo.asked = places_of(ctx.memo.asked, v.results or {})
    local named = {}
    for _, each in ipairs(ctx.memo.asked) do
      for _, partition in ipairs(each.whole or { each[2] }) do named[#named + 1] = { each[1], partition } end
    end
    name_partitions(ctx, named)
  end
  local result = v.result
  if not asks and type(result) == "number" and result ~= 0 then refuse(ctx, "the request was refused: code " .. result) end
  for _, each in ipairs(not asks and v.results or {}) do
    if each.result and each.result ~= 0 then refuse(ctx, P.results[each.result] or ("code " .. each.result)) end
  end
end

local STARTS = "tank.topics.partitions."

-- What reserved sequence numbers mean, and what a Consume asked for.
local function show_starts(c, topic, entry, asked)
  if entry.fetch_size and entry.sequence_number then
    local start = P.starts[tostring(entry.sequence_number)]
    if start then generate(c, entry._item, P.at(STARTS .. "start"), start) end
  elseif entry.result and asked then
    for _, place in ipairs(asked) do
      if place[1] == topic.topic and place[2] == entry.partition and place[3] ~= nil then
        generate(c, entry._item, P.at(STARTS .. "requested_sequence_number"), place[3])
        generate(c, entry._item, P.at(STARTS .. "requested_fetch_size"), place[4])
        local start = P.starts[tostring(place[3])]
        if start then generate(c, entry._item, P.at(STARTS .. "requested_start"), start) end
        return
      end
    end
  end
end

function P.finish(ctx, c, item, layer, v, name)
  if v.message_id == nil then return end
  local told, low, high = finish_bundles(ctx, c, v)
  if (layer == P.requests[PRODUCE] or layer == P.requests[PRODUCE_WITH_BASE] or v.chunks) and ctx.good then
    generate(c, item, P.at("tank.messages"), told)
    local pairs_named = #c.chunks > 0 and #c.chunks or (ctx.memo.one and 1 or 2)
    if low and pairs_named == 1 then
      generate(c, item, P.at("tank.first_sequence_number"), low)
      generate(c, item, P.at("tank.last_sequence_number"), high)
    end
  end
  local asked = ctx.memo.asked
  for index, result in ipairs(asked and layer == P.responses[PRODUCE] and v.results or {}) do
    local place = asked[index]
    if place then
      generate(c, result._item, P.at("tank.results.topic"), place[1])
      local several = place.whole and #place.whole > 1
      for _, partition in ipairs(several and place.whole or { place[2] }) do
        generate(c, result._item, P.at("tank.results.partition" .. (several and "s" or "")), partition)
      end
    end
  end
  if v.partition_count and ctx.memo.known and v.partitions then
    for index, entry in ipairs(v.partitions) do
      local number = ctx.memo.numbers and ctx.memo.numbers[index] or index - 1
      if type(entry) == "table" then generate(c, entry._item, P.at("tank.partitions.partition"), number) end
    end
  end
  for _, topic in ipairs(v.topics or {}) do
    for _, entry in ipairs(type(topic.partitions) == "table" and topic.partitions or {}) do
      show_starts(c, topic, entry, asked)
    end
  end
end

function R.listed_topics(f, c, v, at, tree, node)
  local one = { f[1], "array", of = f.of, element = truth(v.cluster_aware) and f.element or f.alone }
  return R.array(one, c, v, at, tree, node)
end

-- No program writes the layout with extra flags that only the document knows.
function CALL.document_layout() return false end
