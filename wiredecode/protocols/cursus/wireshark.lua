-- Cursus: a length, then a batch, a command, a reply in text or JSON, or one of these compressed. Texts are cut by the declared
-- layers; what their pieces say stands under the names of their parameters.

P.size = length_prefixed(P.framing)

-- Whether a message may begin here: what it begins with tells.
local function likely(s, from, stop)
  local size = P.size(s, from, stop)
  if not size or size > 262144 or stop - from < 8 then return false end
  local front = sub(s, from + 5, from + 8)
  return sub(front, 1, 2) == "\186\124" or front:find("^OK[ \r\n]") ~= nil or front:find("^ERRO") ~= nil or front:find("^STRE") ~= nil
    or front:find("^{\"") ~= nil or front:find("^%z%z[A-Z]") ~= nil or front:find("^%u%u%u[%u_]") ~= nil
end

function P.search(s, from, stop)
  for place = from, stop - 8 do
    if likely(s, place, stop) then return place end
  end
  return stop
end

local RAW, ENVELOPE, DISCOVERY = regex(P.raw_command), regex(P.envelope_command), regex(P.discovery_command)
local CREDENTIAL = rex_pcre2.new(P.credential)
local CODECS = { { "\31\139\8", "gzip" }, { "\130SNAPPY\0", "xerial" }, { "\4\34\77\24", "lz4" }, { "\40\181\47\253", "zstd" } }

local function found(pattern, s, from) return pattern:find(s, from + 1) ~= nil end

-- A batch in the layout that it fills to the last byte.
local function batch_layer(c)
  local text = sub(c.s, 9 + unsigned(c.s, 6, 2))
  local seed = text:find("^%z[\1-\11][-0-9]") ~= nil
  local current, _ = fits(P.batches.cur, c)
  local old = seed and fits(P.batches.seed, c)
  if current and old then
    local partition = unsigned(text, 0, 4)
    local tie = band(partition, 0xFFFF00FF) == 0x00010000 and tostring(floor(partition / 256) % 256) and floor(partition / 256) % 256 >= 48
      and floor(partition / 256) % 256 <= 57
    return tie and P.batches.seed or P.batches.cur
  end
  if current then return P.batches.cur end
  if old then return P.batches.seed end
  for _, dialect in ipairs(P.historic) do
    if fits(P.batches[dialect], c) then return P.batches[dialect] end
  end
end

local function command_layer(s, from)
  local name, after = s:match("^[%z \t\r\n]*(%w[%w_]*)()", from + 1)
  name = (name or ""):upper()
  if name == "AUTH" then return P.texts.auth end
  local key, other = s:match("^[ \t\r\n]*([^%s=]+)(=?)", after or 1)
  if key and not (other == "=" and (P.parameters[key] or key:find("message$") or key:find("payload$"))) then
    return P.texts.positional
  end
  return P.payload_commands[name] and P.texts.payload or P.texts.command
end

local function command_of(s)
  if found(RAW, s, 4) then return command_layer(s, 4) end
  if #s < 6 then return nil end
  local topic = unsigned(s, 4, 2)
  if 6 + topic > #s then return nil end
  local inside = 6 + topic
  if sub(s, 7, inside) == "cluster" and found(DISCOVERY, s, inside) then return P.texts.discovery end
  if found(ENVELOPE, s, inside) then return command_layer(s, inside) end
  if topic <= 249 and not sub(s, 7, inside):find("[^%w._=-]") then return P.texts.envelope end
end

local function reply_of(s)
  if s:find("^[ \t\r\n]*OK%f[%z\1-\32]", 5) or s:find("^[ \t\r\n]*OK$", 5) then return P.texts.success end
  if s:find("^[ \t\r\n]*ERROR[: ]", 5) then return P.texts.failure end
  if s:find("^[ \t\r\n]*STREAM_CONTROL", 5) then return P.texts.control end
  local place = s:match("^[ \t\r\n]*()[{%[]", 5)
  if place then
    local good, value, stop = pcall(json_value, s, place, 0)
    if good and not s:find("[^ \t\r\n]", stop) then return P.texts.json end
  end
end

local function is_text(s) return not sub(s, 5):find("[%z\1-\8\14-\31\127]") and printable(sub(s, 5)) == sub(s, 5) end

local function classify(ctx, c)
  local s = c.s
  if #s == 4 then return unsigned(s, 0, 4) == 0 and P.texts.empty or P.texts.unknown, "KeepAlive" end
  if sub(s, 5, 6) == "\186\124" then
    local layer = not ctx.partial and batch_layer(c) or P.batches.cur
    return layer, "Batch"
  end
  for _, codec in ipairs(CODECS) do
    if sub(s, 5, 4 + #codec[1]) == codec[1] then
      ctx.codec = codec[2]
      return P.texts.compressed, "Compressed"
    end
  end
  local layer = ctx.client ~= false and command_of(s) or nil
  if layer == nil or (layer == P.texts.envelope and ctx.client == nil) then
    layer = ctx.client ~= true and reply_of(s) or layer
  end
  if layer == nil and ctx.client ~= true and is_text(s) then layer = P.texts.text end
  return layer or P.texts.unknown, nil
end

-- wireshark_texts.lua stands here.
@TEXTS@

-- Commands wait for their replies in order.

local PUSHED = { Batch = true, KeepAlive = true, STREAM_CONTROL = true }
local NAMES_TARGET = { AckResponse = true, OK = true, JsonError = true, ERROR = true }

local function pair_up(ctx, c, kind, named)
  local state, memo = ctx.state, ctx.memo
  if ctx.client == true then
    if state.stream then return end
    state.waiting = state.waiting or {}
    table.insert(state.waiting, {
      number = ctx.pinfo.number, time = ctx.pinfo.abs_ts, memo = memo, type = kind, topic = named.topic, partition = named.partition,
    })
  elseif ctx.client == false and not state.stream then
    local request = state.waiting and state.waiting[1]
    if request == nil then return end
    ctx.conversation.requests.oldest = request
    answer(ctx, "oldest")
    memo.in_reply_to = request.type
    if NAMES_TARGET[kind] then memo.topic, memo.partition = request.topic, request.partition end
    if request.type == "STREAM" and PUSHED[kind] then
      state.stream, state.waiting = true, {}
    elseif request.type == "READ_STREAM" and not request.first and kind ~= "ERROR" and kind ~= "JsonError" then
      request.first = true
    elseif request.type ~= "CONSUME" or kind ~= "Text" then
      table.remove(state.waiting, 1)
    end
  end
end

function R.cursus_body(f, c, v, at, tree, node)
  local ctx = c.ctx
  local layer = ctx.body
  c.named = {}
  if P.is_text[layer] then
    read_into(layer, c, NOTHING, nil, v, at)
    c.pos = c.stop
    ctx.type = show_text(ctx, c, tree, layer, v) or ctx.type
  elseif layer == P.texts.compressed then
    local node_of = P.at("cursus_compressed")
    add(c, tree, node_of.kids.length, 0, 4, unsigned(c.s, 0, 4))
    add(c, tree, node_of.kids.data, 4, c.stop)
    add(c, tree, node_of.kids.compression, 4, c.stop, ctx.codec)
    c.pos = c.stop
    local range = ctx.codec == "gzip" and c.tvb(4):uncompress("Decompressed body")
    if range then
      local plain = range:bytes():raw()
      add(c, tree, node_of.kids.inflated_length, 4, c.stop, #plain)
      local size = #plain
      local framed = string.char(floor(size / 2 ^ 24) % 256, floor(size / 2 ^ 16) % 256, floor(size / 256) % 256, size % 256) .. plain
      local inner = cursor(ByteArray.new(framed, true):tvb("Decompressed body"))
      inner.ctx, inner.inner = ctx, true
      local body, name = classify(ctx, inner)
      if body ~= P.texts.compressed then
        ctx.body, ctx.type = body, name or ctx.type
        inner.named = {}
        R.cursus_body(f, inner, v, at, tree, node)
        c.named = inner.named
      end
    end
  else
    read_into(layer, c, tree, tree ~= NOTHING and P.at("cursus") or nil, v, at)
    c.named = { topic = v.topic, partition = v.partition }
  end
  return false
end

function P.choose(ctx, c)
  local layer, name = classify(ctx, c)
  ctx.body, ctx.type = layer, name
  if ctx.client == nil then
    if P.of_client[layer] then is_client(ctx, true) elseif P.of_server[layer] then is_client(ctx, false) end
  end
  local named = name
  if P.is_text[layer] or layer == P.texts.compressed then -- a first look, for the name
    local ok = pcall(function()
      local values = {}
      local quiet = cursor(c.tvb)
      quiet.ctx = ctx
      R.cursus_body(nil, quiet, values, {}, NOTHING, nil)
    end)
    named = ok and ctx.type or name
    ctx.body = layer
  end
  P.body.facts = layer.facts
  return P.body, named or "Unknown"
end

function P.learn(ctx, layer, v, name)
  local known = ctx.cursor.named or {}
  pair_up(ctx, ctx.cursor, name, known)
  if ctx.cursor.refusal then refuse(ctx, ctx.cursor.refusal) end
  if v.error_code then refuse(ctx, v.error_code) end
  if ctx.memo.in_reply_to then tell(ctx, "in_reply_to", ctx.memo.in_reply_to) end
  if ctx.memo.topic ~= nil and known.topic == nil then tell(ctx, "topic", ctx.memo.topic) end
  if ctx.memo.partition ~= nil and known.partition == nil then tell(ctx, "partition", ctx.memo.partition) end
end

function R.decimal_text(f, c, v, at, tree, node)
  local from = c.pos
  local s = R.sized(f, c, v, at, NOTHING, nil)
  if s:find("^-?%d+$") then add(c, tree, node, from, c.pos, tonumber(s)) end
  return s
end

-- All ones stand for -1.
function R.sequence(f, c, v, at, tree, node)
  need(f, c, 8)
  local from = c.pos
  c.pos = from + 8
  local range = c.tvb(from, 8)
  local value = sub(c.s, from + 1, from + 8) == ("\255"):rep(8) and Int64.new(-1) or range:int64()
  add(c, tree, node, from, c.pos, value)
  return small(value)
end
