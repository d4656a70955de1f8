-- From the bytes of a TCP connection to messages: framing, what ids of a connection tell, requests and responses.

local tcp_seq = Field.new("tcp.seq")
local conversations = {}

local link = Proto("wiredecode", "wiredecode")
local link_fields = {
  request = ProtoField.framenum("wiredecode.request", "Request in", base.NONE, frametype and frametype.REQUEST),
  response = ProtoField.framenum("wiredecode.response", "Response in", base.NONE, frametype and frametype.RESPONSE),
  latency = ProtoField.relative_time("wiredecode.latency", "Time since the request"),
  undecoded = ProtoField.bytes("wiredecode.undecoded", "Undecoded bytes"),
  kind = ProtoField.string("wiredecode.type", "Message"),
  hidden = ProtoField.string("wiredecode.hidden", "May be a secret"),
}
link.fields = link_fields
expert.cut = ProtoExpert.new("wiredecode.field_cut", "The bytes end inside a field", expert.group or PI_MALFORMED, PI_ERROR)
expert.unfit = ProtoExpert.new("wiredecode.field_unfit", "These bytes cannot be the field", PI_MALFORMED, PI_ERROR)
expert.surplus = ProtoExpert.new("wiredecode.surplus", "Bytes after the last field", PI_MALFORMED, PI_WARN)
expert.unknown = ProtoExpert.new("wiredecode.unknown", "A message that is not known", PI_PROTOCOL, PI_WARN)
expert.undecoded = ProtoExpert.new("wiredecode.no_message", "No message begins here", PI_UNDECODED, PI_WARN)
expert.refused = ProtoExpert.new("wiredecode.refused", "The request was refused", PI_RESPONSE_CODE, PI_NOTE)
expert.told = ProtoExpert.new("wiredecode.note", "Worth telling", PI_PROTOCOL, PI_NOTE)
link.experts = { expert.cut, expert.unfit, expert.surplus, expert.unknown, expert.undecoded, expert.refused, expert.told }
link.prefs.secrets = Pref.bool("Show passwords and tokens", false, "They stand in the bytes of the packets in any case")
function link.prefs_changed() show_secrets = link.prefs.secrets end
function link.init() conversations = {} end

-- A protocol and the beginning of its fields' names; another one where Wireshark has a dissector of this name.
local function free_proto(P)
  local title = "wiredecode " .. P.title
  local made, proto = pcall(Proto, P.name, title)
  if made then return proto, "" end
  return Proto("wiredecode_" .. P.name, title), "wiredecode_"
end

-- The fields of a protocol as a tree by the parts of their names.
local function field_tree(proto, declared, prefix)
  local root, list = { kids = {} }, {}
  for _, one in ipairs(declared) do
    local name, title, ftype, names, doc = one[1], one[2], one[3], one[4], one[5]
    local node = root
    for part in name:gmatch("[^.]+") do
      node.kids[part] = node.kids[part] or { kids = {}, parent = node }
      node = node.kids[part]
    end
    name = prefix .. name
    local shape = ftype == "absolute_time" and base.UTC or ftype:find("int") and base.DEC or nil
    if ftype == "none" then
      node.field = ProtoField.none(name, title, doc)
    elseif ftype == "absolute_time" then
      node.field = ProtoField.absolute_time(name, title, base.UTC, doc)
    elseif ftype == "bool" then
      node.field = ProtoField.bool(name, title, nil, nil, nil, doc)
    elseif shape then
      node.field = ProtoField[ftype](name, title, shape, names, nil, doc)
    else
      node.field = ProtoField[ftype](name, title, nil, doc)
    end
    node.ftype, node.title, node.names, node.name = ftype, title, names, name
    list[#list + 1] = node.field
  end
  proto.fields = list
  return root
end

-- What is remembered of a connection, by its ends: fields such as tcp.stream are not there in the first pass of tshark -2.
-- Where ports are used again, what the protocol begins with tells (P.restarts).
local function conversation_of(P, pinfo, s)
  local source, target = tostring(pinfo.src) .. ":" .. pinfo.src_port, tostring(pinfo.dst) .. ":" .. pinfo.dst_port
  local key = P.name .. " " .. (source < target and source .. " " .. target or target .. " " .. source)
  local list = conversations[key] or {}
  conversations[key] = list
  local known
  for index = #list, 1, -1 do
    if list[index].from <= pinfo.number then
      known = list[index]
      break
    end
  end
  if known and s and not pinfo.visited and known.from < pinfo.number and P.restarts and P.restarts(s, known.state) then known = nil end
  if known == nil then
    known = { from = pinfo.number, requests = {}, memo = {}, state = {}, due = {}, starts = {} }
    list[#list + 1] = known
  end
  return known
end

-- Whether the client sends: by the ports, else by what the protocol's own bytes said.
local function from_client(P, conversation, pinfo)
  local source = tostring(pinfo.src) .. ":" .. pinfo.src_port
  if conversation.client ~= nil then return conversation.client == source end
  local to, from = P.served[pinfo.dst_port], P.served[pinfo.src_port]
  if to ~= from then return to == true end
  return nil
end

local function is_client(ctx, client)
  local pinfo = ctx.pinfo
  local source = tostring(pinfo.src) .. ":" .. pinfo.src_port
  local other = tostring(pinfo.dst) .. ":" .. pinfo.dst_port
  ctx.conversation.client = client and source or other
  ctx.client = client
end

-- Requests and responses. Asked and answered once, when the packets are first read.

local function ask(ctx, key)
  ctx.conversation.requests[key] = { number = ctx.pinfo.number, time = ctx.pinfo.abs_ts, values = ctx.values, memo = ctx.memo }
end

local function answer(ctx, key)
  local request = ctx.conversation.requests[key]
  if request == nil then return nil end
  ctx.conversation.requests[key] = nil
  ctx.memo.request, ctx.memo.latency = request.number, ctx.pinfo.abs_ts - request.time
  request.memo.response = ctx.pinfo.number
  return request
end

local function tell(ctx, name, value) ctx.memo.told[#ctx.memo.told + 1] = { name, value } end

local function refuse(ctx, text) ctx.memo.refused = text end

local function show_links(tree, memo)
  if memo.request then
    tree:add(link_fields.request, memo.request):set_generated()
    tree:add(link_fields.latency, NSTime.new(floor(memo.latency), floor((memo.latency % 1) * 1000000000))):set_generated()
  end
  if memo.response then tree:add(link_fields.response, memo.response):set_generated() end
  if memo.refused then tree:add_proto_expert_info(expert.refused, memo.refused) end
end

-- One line about a message: its type and the fields that its declaration shows.
local function fact(v, path)
  local value = v
  for part in path:gmatch("[^.]+") do
    if type(value) ~= "table" then return nil end
    value = value[part]
  end
  if type(value) == "table" then return value[1] ~= nil and #value or nil end
  if type(value) == "string" then return #value > 0 and printable(#value > 60 and sub(value, 1, 60) .. "..." or value) or nil end
  if type(value) == "boolean" then return nil end
  return value
end

local function summary(layer, name, v)
  local words = { name }
  for _, path in ipairs(layer.facts or {}) do
    local value = fact(v, path)
    if value ~= nil then words[#words + 1] = path:match("[^.]+$") .. "=" .. tostring(value) end
  end
  return table.concat(words, " ")
end

local function report(item, c, problem)
  if type(problem) ~= "table" then error(problem, 0) end
  if problem.cut then
    local text = format("%s needs %d bytes, there are %d left", problem.cut, problem.need, problem.had)
    item:add_proto_expert_info(expert.cut, text)
  else
    item:add_proto_expert_info(expert.unfit, tostring(problem.unfit) .. ": " .. problem.why)
  end
end

-- Read a layer at the cursor below an item of its own; whether it fitted.
local function read_layer(P, layer, c, tree, v, partial)
  local at = {}
  local good, problem = pcall(read_into, layer, c, tree, P.at(layer.prefix or P.name), v, at)
  if not good and type(problem) ~= "table" then error(problem, 0) end
  if not good and not partial then report(tree, c, problem) end
  return good, problem
end

-- Whether a layer fits a message to its last byte; its values.
local NOTHING = {}
setmetatable(NOTHING, { __index = function() return function() return NOTHING end end })
local function fits(layer, c)
  local trial = {}
  for name, value in pairs(c) do trial[name] = value end
  trial.pos, trial.items = 0, 0
  local values = {}
  local good, problem = pcall(read_into, layer, trial, NOTHING, nil, values, {})
  if not good and type(problem) ~= "table" then error(problem, 0) end
  return good and trial.pos == trial.stop, values
end

local function dissect_message(P, conversation, tvb, pinfo, tree, key, partial)
  local memo = conversation.memo[key]
  local first = memo == nil
  if first then
    memo = { told = {} }
    conversation.memo[key] = memo
  end
  local ctx = { P = P, pinfo = pinfo, conversation = conversation, state = conversation.state, memo = memo, first = first }
  ctx.client = from_client(P, conversation, pinfo)
  local c = cursor(tvb)
  c.ctx, ctx.cursor, ctx.partial = ctx, c, partial
  local layer, name = P.choose(ctx, c)
  local item = tree:add(P.proto, tvb())
  local values = {}
  ctx.values, ctx.item = values, item
  item:set_text(P.title .. ": " .. (name or "?"))
  if name then item:add(link_fields.kind, tvb(0, 0), name):set_generated() end
  if layer then
    local good = read_layer(P, layer, c, item, values, partial)
    ctx.good = good
    if good and c.pos < c.stop and not P.takes_surplus then
      item:add_proto_expert_info(expert.surplus, (c.stop - c.pos) .. " bytes after the last field")
    end
    if first and P.learn then P.learn(ctx, layer, values, name) end
    local node = P.at(layer.prefix or P.name)
    for _, each in ipairs(memo.told) do
      local field = node
      for part in each[1]:gmatch("[^.]+") do field = field and field.kids[part] end
      generate(c, item, field, each[2])
    end
    if P.finish then P.finish(ctx, c, item, layer, values, name) end
    if layer.unknown then item:add_proto_expert_info(expert.unknown) end
  end
  show_links(item, memo)
  local text = layer and summary(layer, ctx.shown or name or "?", values) or name or "?"
  if pinfo.cols.protocol then pinfo.cols.protocol = P.title end
  if ctx.conversation.infos ~= pinfo.number then
    pinfo.cols.info:set(text)
    conversation.infos = pinfo.number
  else
    pinfo.cols.info:append(" | " .. text)
  end
end

-- Where the first message of a segment begins: packets that were captured in part are not put together, but what a message
-- says of its size tells where the next one begins.
local function resume(conversation, pinfo, seq, length)
  if conversation.starts[pinfo.number] then return conversation.starts[pinfo.number] end
  local side = tostring(pinfo.src) .. pinfo.src_port
  local due = conversation.due[side]
  local offset = 0
  if due and not pinfo.visited and seq < due then
    offset = math.min(length, due - seq)
    conversation.starts[pinfo.number] = offset
  end
  if due and seq + length >= due then conversation.due[side] = nil end
  return offset
end

-- Cut the bytes of a segment into messages. P.size(s, from, stop) tells the size of the message at a place, nil where more
-- bytes tell, false where no message can begin. Returns how many bytes were taken.
local function dissect(P, tvb, pinfo, tree)
  local length, offset = tvb:len(), 0
  local s = tvb:raw()
  local whole = tvb:reported_len() == length
  local conversation = conversation_of(P, pinfo, s)
  conversation.infos = nil
  local seq = tcp_seq()
  offset = resume(conversation, pinfo, seq and seq.value or 0, tvb:reported_len())
  if offset > 0 then
    local stop = math.min(offset, length)
    tree:add(P.proto, tvb(0, stop)):set_text(P.title .. ": rest of a message that was not captured whole")
    offset = stop
  end
  while offset < length do
    local size = P.size(s, offset, length, conversation.state, pinfo)
    local key = pinfo.number .. ":" .. length .. ":" .. offset
    if size == false then
      local stop = P.search(s, offset + 1, length)
      local item = tree:add(P.proto, tvb(offset, stop - offset))
      item:set_text(P.title .. ": no message begins here")
      item:add(link_fields.undecoded, tvb(offset, stop - offset))
      item:add_proto_expert_info(expert.undecoded)
      offset = stop
    elseif whole and pinfo.can_desegment > 0 and (size == nil or offset + size > length) then
      pinfo.desegment_offset = offset
      pinfo.desegment_len = size == nil and DESEGMENT_ONE_MORE_SEGMENT or offset + size - length
      return length
    else
      local stop = size == nil and length or math.min(length, offset + size)
      if size ~= nil and offset + size > length and seq and not pinfo.visited then
        conversation.due[tostring(pinfo.src) .. pinfo.src_port] = seq.value + offset + size
      end
      dissect_message(P, conversation, tvb(offset, stop - offset):tvb(), pinfo, tree, key, size == nil or offset + size > length)
      offset = stop
    end
  end
  return length
end

-- The framing that a protocol declares: a length in a header of fixed size, and what else the header must hold.
local function length_prefixed(framing, known)
  local function fits(s, from, number)
    local value = unsigned(s, from + number.at, number.width, number.le)
    if number.signed and value >= 2 ^ (8 * number.width - 1) then value = value - 2 ^ (8 * number.width) end
    return value >= number.least and value <= number.most, value
  end
  return function(s, from, stop)
    if stop - from < framing.header then return nil end
    local good, size = fits(s, from, framing.length)
    if not good then return false end
    for _, number in ipairs(framing.held) do
      if not fits(s, from, number) then return false end
    end
    if known and not known(s, from, size) then return false end
    return framing.after + size
  end
end

-- The next place where messages seem to begin: one that ends where the segment ends, or that another one follows.
local function search_framed(size)
  return function(s, from, stop)
    for place = from, stop - 1 do
      local here = size(s, place, stop)
      if here and here > 0 then
        local after = place + here
        if after == stop or (after < stop and size(s, after, stop)) then return place end
      end
    end
    return stop
  end
end

-- PROXY protocol, before the first message of a connection.
local PROXY_SIGNATURE = "\r\n\r\n\0\r\nQUIT\n"
local function proxy_size(s, from, stop)
  if sub(s, from + 1, from + 6) == "PROXY " then
    local found = s:find("\r\n", from + 1, true)
    return found and found + 1 - from or nil
  end
  if sub(s, from + 1, from + 12) == PROXY_SIGNATURE then
    if stop - from < 16 then return nil end
    return 16 + unsigned(s, from + 14, 2)
  end
  return false
end

local function with_proxy(P, size)
  return function(s, from, stop, state, pinfo)
    local first = byte(s, from + 1)
    if first == 80 or first == 13 then
      local proxy = proxy_size(s, from, stop)
      if proxy ~= false then return proxy end
    end
    return size(s, from, stop, state, pinfo)
  end
end

local function register(P)
  local proto, prefix = free_proto(P)
  P.proto = proto
  P.nodes = field_tree(proto, P.fields, prefix)
  P.served = {}
  function P.at(prefix)
    local node = P.nodes
    for part in prefix:gmatch("[^.]+") do node = node and node.kids[part] end
    return node
  end
  local choose = P.choose
  if P.proxy then
    P.size = with_proxy(P, P.size)
    function P.choose(ctx, c)
      local first = byte(c.s, 1)
      if (first == 80 or first == 13) and proxy_size(c.s, 0, #c.s) then
        return first == 80 and P.proxy[1] or P.proxy[2], "PROXY"
      end
      return choose(ctx, c)
    end
  end
  function proto.dissector(tvb, pinfo, tree) return dissect(P, tvb, pinfo, tree) end
  proto.prefs.ports = Pref.range("TCP ports", P.ports, "Ports of brokers", 65535)
  local table = DissectorTable.get("tcp.port")
  local listed = ""
  local function serve()
    if listed ~= "" then table:remove(listed, proto) end
    listed = tostring(proto.prefs.ports)
    P.served = {}
    for first, last in listed:gmatch("(%d+)%-?(%d*)") do
      for port = tonumber(first), tonumber(last) or tonumber(first) do P.served[port] = true end
    end
    if listed ~= "" then table:add(listed, proto) end
  end
  function proto.prefs_changed() serve() end
  listed = P.ports
  table:add(P.ports, proto)
  for port in P.ports:gmatch("%d+") do P.served[tonumber(port)] = true end
  proto:register_heuristic("tcp", function(tvb, pinfo, tree)
    if P.greets == nil or tvb:len() < 5 or not P.greets(tvb:raw(0, math.min(tvb:len(), 64)), tvb:len()) then return false end
    pinfo.conversation = proto
    dissect(P, tvb, pinfo, tree)
    return true
  end)
end
