-- Liftbridge: envelopes in the payloads of NATS messages, in all connections of a capture.

local MAGIC = "\185\14\67\180"
local liftbridge = Proto("liftbridge", "wiredecode Liftbridge")
local carried = {}
P.carried = carried
P.namespaces = { ["liftbridge-default"] = true }
local asked = {} -- what requests were about, by their reply subject

-- Header bytes after the fields that are known.
function R.extension(f, c, v, at, tree, node)
  local count = v.header_length - (v.crc ~= nil and 12 or 8)
  need(f, c, count)
  add(c, tree, node, c.pos, c.pos + count)
  c.pos = c.pos + count
  return sub(c.s, c.pos - count + 1, c.pos)
end

-- Entries of a log, each within its own size.
function R.log_entries(f, c, v, at, tree, node)
  local list, outer = {}, c.stop
  v[f[1]] = list
  while outer - c.pos > 28 do
    local from = c.pos
    local size = unsigned(c.s, from + 24, 4)
    if from + 28 + size > outer then error({ cut = f[1], need = size, had = outer - from - 28, at = from }, 0) end
    c.stop = from + 28 + size
    local entry = structure(f, c, tree, node, format("%s[%d]", f[1], #list))
    local good = crc(sub(c.s, from + 33, c.stop), CRC32C) == entry.crc
    generate(c, entry._item, kid(node, "crc_status"), good and "good" or "bad")
    c.all_good = c.all_good ~= false and good
    c.pos = c.stop
    list[#list + 1] = entry
  end
  c.stop = outer
  return list
end

-- The stream and partition that a subject of replication names.
local function partition_of(subject)
  for namespace in pairs(P.namespaces) do
    if sub(subject, 1, #namespace + 1) == namespace .. "." then
      local stream, partition, last = sub(subject, #namespace + 2):match("^(.+)%.(%d+)%.(%a+)$")
      if last == "replicate" or last == "offset" then
        return { stream = stream, partition = tonumber(partition), namespace = namespace }
      end
    end
  end
end

-- The namespace in a subject of Liftbridge's own.
local function namespace_of(subject)
  for namespace in pairs(P.namespaces) do
    local rest = sub(subject, 1, #namespace + 1) == namespace .. "." and sub(subject, #namespace + 2)
    if rest and (rest:match("^ack") or rest:match("^notify") or rest:match("^activity") or rest:match("^cursors")) then return namespace end
  end
  local before, id = subject:match("^(.+)%.ack%.(%w+)$")
  return subject:match("^(.+)%.raft%.metadata%.") or (id and #id == 22 and before) or nil
end

function carried.learn(ctx, v)
  local data, subject = v.data, v.subject
  if data == nil or sub(data, 1, 4) ~= MAGIC or #data < 8 then return end
  local kind = byte(data, 8)
  if P.requests[kind] then
    local about = partition_of(subject or "")
    ctx.memo.about = about
    if v.reply then asked[v.reply] = { about = about, kind = kind, data = data } end
  elseif P.responses[kind] and asked[subject or ""] then
    local known = asked[subject]
    ctx.memo.about = known.about and { stream = known.about.stream, partition = known.about.partition, replica_id = known.replica, namespace = known.about.namespace }
    ctx.memo.of = subject
  end
end

function carried.show(ctx, c, item, v)
  local data = v.data
  if sub(data, 1, 4) ~= MAGIC or #data < 8 then return end
  local kind = byte(data, 8)
  local layer = byte(data, 5) == 0 and P.envelopes[kind] or P.unknown_envelope
  local from, stop = v.payload_at, v.payload_at + #data
  local node = P.at("liftbridge")
  local outer_pos, outer_stop = c.pos, c.stop
  c.pos, c.stop = from, stop
  local inner = item:add(liftbridge, c.tvb(from, #data))
  inner:set_text("Liftbridge: " .. (P.message_types[kind] or "unknown"))
  local values = {}
  local good, problem = pcall(read_into, layer, c, inner, node, values, {})
  if not good then report(inner, c, problem) end
  c.pos, c.stop = outer_pos, outer_stop
  if good and values.crc ~= nil then
    local status = crc(sub(data, values.header_length + 1), CRC32C) == values.crc
    generate(c, inner, node.kids.crc_status, status and "good" or "bad")
    if not status then inner:add_proto_expert_info(expert.told, "the CRC-32C of the envelope is another") end
  end
  if values.entries and #values.entries > 0 then
    generate(c, inner, node.kids.messages_crc_status, c.all_good and "good" or "bad")
  end
  local about = ctx.memo.about
  if about then
    if values.stream == nil then generate(c, inner, node.kids.stream, about.stream) end
    if values.partition == nil then generate(c, inner, node.kids.partition, about.partition) end
  end
  local namespace = about and about.namespace or (kind ~= 0 and namespace_of(v.subject or "")) or ctx.state.namespace
  if not namespace then namespace = namespace_of(v.subject or "") or namespace_of(values.ack_inbox or "") end
  if namespace then generate(c, inner, node.kids.namespace, namespace) end
  if kind == 2 and v.reply and asked[v.reply] and values.replica_id then asked[v.reply].replica = values.replica_id end
  local known = ctx.memo.of and asked[ctx.memo.of]
  if kind == 3 and known and known.replica then generate(c, inner, node.kids.replica_id, known.replica) end
  ctx.shown = (P.message_types[kind] or "Liftbridge") .. " in " .. (ctx.memo.name or "")
end
