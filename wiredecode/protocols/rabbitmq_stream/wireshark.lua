-- RabbitMQ Stream: frames by key and version; publisher and subscription ids stand for streams.

local RESPONSE_BIT = 0x8000

local function header(s, from) return unsigned(s, from + 4, 2), unsigned(s, from + 6, 2) end

P.size = length_prefixed(P.framing, function(s, from, size)
  if #s - from < 8 then return true end
  local key, version = header(s, from)
  return P.keys[key] ~= nil and version >= 1 and version <= 2 or key < 0x100 and version == 1
end)
P.search = search_framed(P.size)

function P.greets(s, length)
  if length < 12 then return false end
  local key, version = header(s, 0)
  return key == 17 and version == 1 and unsigned(s, 0, 4) < 65536 and unsigned(s, 0, 4) >= 8
end

function P.restarts(s) return P.greets(s, #s) end

function P.choose(ctx, c)
  if #c.s < 8 then return nil, nil end
  local key, version = header(c.s, 0)
  if ctx.client == nil then
    if P.client_keys[key] then is_client(ctx, true) elseif P.server_keys[key] then is_client(ctx, false) end
  end
  if P.unmarked[key] and ctx.client == false then key = key + RESPONSE_BIT end
  local layer = P.layers[key * 65536 + version]
  local name = P.keys[key]
  if layer == nil then layer = (key % RESPONSE_BIT == 19) and P.unknown_sasl or P.unknown end
  P.takes_surplus = key == 0x801A
  return layer, name
end

local function declare(ctx, kind, id, stream, reference)
  if id == nil or stream == nil then return end
  ctx.state[kind] = ctx.state[kind] or {}
  ctx.state[kind][id] = { stream = stream, reference = reference ~= "" and reference or nil }
end

local function resolve(ctx, kind, id, only_stream)
  local known = id and ctx.state[kind] and ctx.state[kind][id]
  if known then
    tell(ctx, "stream", known.stream)
    if known.reference and not only_stream then tell(ctx, "reference", known.reference) end
  end
end

local function named(properties)
  for _, pair in ipairs(properties or {}) do
    if pair.key == "name" then return pair.value end
  end
end

local NAMING = { -- what tells an id its stream, and what only uses one
  [2] = { "publishers", "publisher_id" }, [3] = { "publishers", "publisher_id" }, [4] = { "publishers", "publisher_id" },
  [8] = { "subscriptions", "subscription_id" }, [26] = { "subscriptions", "subscription_id" },
}
local ONLY_STREAM = {
  [6] = { "publishers", "publisher_id" }, [9] = { "subscriptions", "subscription_id" },
  [12] = { "subscriptions", "subscription_id" }, [0x8009] = { "subscriptions", "subscription_id" },
}

local function user_of(mechanism, data)
  if mechanism == "PLAIN" then
    local user = data:match("^[^%z]*%z([^%z]*)%z")
    return user ~= "" and user or nil
  elseif mechanism == "AMQPLAIN" then
    local length = data:match("\5LOGINS()")
    if length and #data >= length + 3 then
      return sub(data, length + 4, length + 3 + unsigned(data, length - 1, 4))
    end
  end
end

local function tune(ctx, v, key)
  if ctx.client == false and key == 20 then
    ctx.state.offered = { number = ctx.pinfo.number, time = ctx.pinfo.abs_ts, values = v, memo = ctx.memo }
    return
  end
  local offered = ctx.state.offered
  if offered == nil then return end
  ctx.conversation.requests.tune = offered
  answer(ctx, "tune")
  for _, name in ipairs({ "frame_max", "heartbeat" }) do
    local mine, theirs = v[name], offered.values[name]
    if mine and theirs then
      local least = math.min(mine, theirs)
      tell(ctx, "negotiated_" .. name, least ~= 0 and least or math.max(mine, theirs))
    end
  end
  ctx.state.offered = nil
end

function P.learn(ctx, layer, v, name)
  local key = v.key
  if key == nil then return end
  local asked = key % RESPONSE_BIT
  local told = key
  if P.unmarked[key] and ctx.client == false then told = key + RESPONSE_BIT end
  local request
  if key == 20 or key == 0x8014 then
    tune(ctx, v, key)
  elseif v.correlation_id then
    local side = told == asked and tostring(ctx.client) or tostring(not ctx.client)
    if told == asked then
      ask(ctx, side .. " " .. asked .. " " .. v.correlation_id)
    else
      request = answer(ctx, side .. " " .. asked .. " " .. v.correlation_id)
    end
  end
  local code = v.response_code
  if told ~= asked and code and code ~= 1 and code ~= P.challenge then
    refuse(ctx, "the request was refused: " .. (P.codes[code] or ("code " .. code)))
  end
  if key == 1 then
    declare(ctx, "publishers", v.publisher_id, v.stream, v.publisher_reference)
  elseif key == 7 then
    declare(ctx, "subscriptions", v.subscription_id, v.stream, named(v.properties) or "")
  elseif key == 0x8001 and request then
    tell(ctx, "publisher_id", request.values.publisher_id)
    if request.values.stream then tell(ctx, "stream", request.values.stream) end
  elseif key == 0x8007 and request then
    tell(ctx, "subscription_id", request.values.subscription_id)
    if request.values.stream then tell(ctx, "stream", request.values.stream) end
  elseif key == 0x801A and request then
    tell(ctx, "subscription_id", request.values.subscription_id)
    resolve(ctx, "subscriptions", request.values.subscription_id, true)
  elseif key == 19 and v.data and v.data ~= "" and not ctx.state.challenged then
    local user = user_of(v.mechanism, v.data)
    if user then tell(ctx, "user", user) end
  elseif key == 0x8013 then
    ctx.state.challenged = code == P.challenge
  end
  local naming = NAMING[key] or ONLY_STREAM[key]
  if naming then resolve(ctx, naming[1], v[naming[2]], ONLY_STREAM[key] ~= nil) end
end

function P.finish(ctx, c, item, layer, v, name)
  local chunk = v.chunk
  if chunk == nil or chunk.trailer_length == nil or not ctx.good then return end
  local from = v.version == 1 and 57 or 65
  if ctx.memo.crc == nil then ctx.memo.crc = crc(sub(c.s, from + 1, from + chunk.data_length), CRC32) == chunk.crc end
  generate(c, item, P.at("rabbitmq_stream.crc_status"), ctx.memo.crc and "good" or "bad")
  if not ctx.memo.crc then item:add_proto_expert_info(expert.told, "the CRC-32 of the chunk is another") end
end

-- The messages of a sub-batch that is not compressed, or with gzip: uint32 length and bytes each.
function INNER.records(c, v, tree, node, from, to)
  local range, place = c.tvb(from, to - from), 0
  local plain_tvb
  if v.codec == 0x80 then
    plain_tvb = range:tvb()
  elseif v.codec == 0x90 then
    local inflated = range:uncompress("Decompressed sub-batch")
    plain_tvb = inflated and inflated:tvb()
  end
  if plain_tvb == nil or node == nil then return end
  local inner, messages = cursor(plain_tvb), node.parent.kids.messages
  for index = 0, v.record_count - 1 do
    if place + 4 > inner.stop then return end
    local size = unsigned(inner.s, place, 4)
    if place + 4 + size > inner.stop then return end
    local item = add(inner, tree, messages, place, place + 4 + size)
    item:set_text(format("messages[%d]", index))
    add(inner, item, messages.kids.data, place + 4, place + 4 + size)
    if type(c.next_offset) == "number" then generate(inner, item, messages.kids.offset, c.next_offset + index) end
    place = place + 4 + size
  end
end

-- The elements of a chunk, each with its offset.
function R.chunk_entries(f, c, v, at, tree, node)
  local list, index, outer = {}, 0, c.stop
  local offset = v.chunk_id
  v[f[1]] = list
  c.stop = math.min(c.stop, c.pos + v[f.size])
  while index < v[f.of] do
    local from, values, spots = c.pos, {}, {}
    local item = add(c, tree, node, from, from)
    item:set_text(format("%s[%d]", f[1], index))
    c.next_offset = offset
    local good, problem = pcall(read_into, f.element.layer, c, item, node, values, spots)
    item:set_len(c.pos - from)
    list[index + 1] = values
    if type(offset) == "number" and (good or next(values) ~= nil) then
      if values.sub_batch == nil then
        generate(c, item, kid(node, "offset"), offset)
        offset = offset + 1
      else
        offset = offset + (values.sub_batch.record_count or 0)
      end
    end
    if not good then error(problem, 0) end
    index = index + 1
  end
  c.stop = outer
  return list
end
