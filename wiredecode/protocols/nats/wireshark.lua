-- NATS: lines of text, some with a counted body. Which fields an operation has depends on the kind of link.

local MAX_LINE, MAX_JSON_LINE = 4096, 1048576

local function name_at(s, from)
  local name = s:match("^[%a+-]+[+-]?", from + 1)
  return name and name:upper()
end

-- Where the line ends, or nil.
local function line_end(s, from, stop)
  local found = s:find("\n", from + 1, true)
  return found and found <= stop and found or nil
end

function P.size(s, from, stop, state)
  local first = byte(s, from + 1)
  if first >= 0x14 and first <= 0x17 and (stop - from < 2 or byte(s, from + 2) == 3) then -- TLS
    if stop - from < 5 then return nil end
    return 5 + unsigned(s, from + 3, 2)
  elseif first == 0xFF or first == 0xFE or first == 0 or first == 1 then -- S2
    if stop - from < 4 then return nil end
    return 4 + unsigned(s, from + 1, 3, true)
  end
  local line = line_end(s, from, stop)
  local name = name_at(s, from)
  if line == nil then
    local most = (name == "INFO" or name == "CONNECT") and MAX_JSON_LINE or MAX_LINE
    if name == nil or stop - from > most then return false end
    for known in pairs(P.operations) do
      if sub(known, 1, #name) == name or known == name then return nil end
    end
    return false
  end
  if not P.operations[name or ""] then
    return sub(s, from + 1, line):find("^[\t\r\n -~\128-\255]*$") and state and state.started and line - from or false
  end
  if state then state.started = true end
  if P.counted[name] then
    local count = sub(s, from + 1, line):match("[ \t](%d+)[ \t]*\r?\n$")
    if count and #count <= 9 then return line - from + tonumber(count) + 2 end
  end
  return line - from
end

function P.search(s, from, stop)
  local place = from
  while place < stop do
    local name = name_at(s, place)
    if name and P.operations[name] and (place == from or byte(s, place) == 10) then
      local here = P.size(s, place, stop)
      if here and (place + here == stop or (place + here < stop and P.operations[name_at(s, place + here) or ""])) then
        return place
      end
    end
    local line = s:find("\n", place + 1, true)
    if line == nil or line >= stop then return stop end
    place = line
  end
  return stop
end

function P.greets(s, length)
  return s:find("^INFO[ \t]+{\"server_id\"") ~= nil or s:find("^CONNECT[ \t]+{\"verbose\"") ~= nil
end

function P.restarts(s, state) return state.connected and s:find("^CONNECT ") ~= nil end

-- Kinds of links, and what INFO and CONNECT say of them.

local function link_of_info(o)
  if truth(o.gateway) then return "gateway" end
  if o.leafnode_urls and o.leafnode_urls.n ~= 0 or truth(o.info_on_connect) then return "leaf" end
  if truth(o.route_pool_size) or truth(o.lnoc) then return "route" end
  return truth(o.client_id) and "client" or nil
end

local function link_of_connect(o)
  if o.lang ~= nil then return "client" end
  if truth(o.gateway) then return "gateway" end
  if o.server_id ~= nil or o.is_hub ~= nil or o.compress_mode ~= nil then return "leaf" end
  return (o.lnoc ~= nil or o.cluster ~= nil) and "route" or "client"
end

local function link_of_operation(name)
  if name == "A+" or name == "A-" then return "gateway" end
  return (name == "LS+" or name == "LS-" or name == "LMSG") and "leaf" or "route"
end

local function layer_of(ctx, name)
  local state = ctx.state
  if P.link_operations[name] and not state.connected and (state.link == nil or state.link == "leaf") then
    state.link = link_of_operation(name)
  end
  local layer = P.grammars[state.link or "client"][name]
  if state.account then layer = P.dedicated[name] or layer end
  if name == "LS-" and state.link == "route" and state.lnocu == 2 then
    layer = state.account and P.with_origin[1] or P.with_origin[2]
  end
  return layer
end

function P.choose(ctx, c)
  local memo = ctx.memo
  local first = byte(c.s, 1)
  if first >= 0x14 and first <= 0x17 and byte(c.s, 2) == 3 then return nil, "TLS record" end
  if first == 0xFF or first == 0xFE or first == 0 or first == 1 then return P.s2, "S2 chunk" end
  if memo.layer == nil then
    local name = name_at(c.s, 0)
    name = P.operations[name or ""] and name or nil
    if ctx.client == nil and name then
      local link = ctx.state.link
      if link == nil or link == "client" then
        if P.client_sends[name] or name == "CONNECT" then is_client(ctx, true) end
        if P.server_sends[name] or name == "INFO" or name == "-ERR" then is_client(ctx, false) end
      elseif name == "CONNECT" then
        is_client(ctx, true)
      end
    end
    memo.layer, memo.name = name and layer_of(ctx, name) or P.unknown, name
  end
  return memo.layer, memo.name
end

-- Payloads.

local JWT = regex("eyJ[\\w-]{6,}\\.[\\w.-]*")
local HARMLESS = regex(P.harmless)

-- Whether a payload may hold credentials: by its subject, a JWT, headers without the H of HPUB.
local function hides(v, s)
  local subject, reply = v.subject or "", v.reply or ""
  local first = sub(subject, 1, 1)
  if first == "$" or first == "_" then
    if sub(subject, 1, 5) == "$SYS." then
      local _, last = HARMLESS:find(subject, 1)
      if last ~= #subject then return true end
    end
  end
  if sub(s, 1, 3) == "eyJ" and JWT:find(s, 1) then return true end
  return sub(s, 1, 8) == "NATS/1.0" or reply:find("^%d+$") ~= nil
end

local function payload(f, c, v, tree, node, count)
  need(f, c, count)
  local from = c.pos
  c.pos = from + count
  local s = sub(c.s, from + 1, c.pos)
  if hides(v, s) and not show_secrets then
    if node then tree:add(link_fields.hidden, c.tvb(from, count), redacted(s)) end
    v.hidden = true
  else
    add(c, tree, node, from, c.pos)
  end
  v.payload_at = from
  return s
end

function R.payload(f, c, v, at, tree, node) return payload(f, c, v, tree, node, v.size) end

function R.remainder(f, c, v, at, tree, node)
  local count = v.size - v.header_size
  if count < 0 then unfit(f, c, "the total size is smaller than that of the header block") end
  return payload(f, c, v, tree, node, count)
end

local BLOCK = regex(P.block)
function CALL.block_next(c, v, size)
  if type(size) ~= "number" or size <= 0 or c.pos + size > c.stop then return false end
  local first, last = BLOCK:find(sub(c.s, c.pos + 1, c.pos + size), 1)
  return first ~= nil and last == size
end

function R.version(f, c, v, at, tree, node)
  need(f, c, 8)
  c.block_end = c.pos + v.header_size
  local s = sub(c.s, c.pos + 1, c.pos + 8)
  add(c, tree, node, c.pos, c.pos + 8, s)
  c.pos = c.pos + 8
  return s
end

function R.status(f, c, v, at, tree, node)
  local blanks, digits = sub(c.s, c.pos + 1, c.stop):match("^([ \t]*)(%d%d%d)")
  if digits == nil then unfit(f, c, "no status of three digits") end
  local from = c.pos + #blanks
  add(c, tree, node, from, from + 3, tonumber(digits))
  c.pos = from + 3
  return tonumber(digits)
end

function R.headers(f, c, v, at, tree, node)
  return elements(f, c, v, at, tree, node, math.min(c.stop, c.block_end - 2))
end

-- What ids and earlier messages tell.

local function subscribed(ctx, v)
  local known = v.sid and ctx.state.subscriptions and ctx.state.subscriptions[v.sid]
  if known == nil then return end
  tell(ctx, "subscription", known[1])
  return known
end

local replies = {} -- requests by their reply subject, of all connections
local HANDLERS = {}

function HANDLERS.INFO(ctx, v)
  local options = v.options or {}
  local state = ctx.state
  if not state.connected and (state.link == nil or state.link == "client") then state.link = link_of_info(options) or state.link end
  if truth(options.route_account) then state.account, state.link = options.route_account, "route" end
  if truth(options.lnocu) then state.lnocu = (state.lnocu or 0) + 1 end
  local command = options.gateway_cmd
  if truth(command) then tell(ctx, "gateway_command", P.gateway_commands[command] or tostring(command)) end
end

function HANDLERS.CONNECT(ctx, v)
  local options = v.options
  if options == nil then return end
  ctx.state.connected, ctx.state.link = true, link_of_connect(options)
  if truth(options.lnocu) then ctx.state.lnocu = (ctx.state.lnocu or 0) + 1 end
  if type(options.name) == "string" and sub(options.name, 1, 5) == "LIFT." then
    local parts = {}
    for part in options.name:gmatch("[^.]+") do parts[#parts + 1] = part end
    if #parts >= 4 then
      local namespace = table.concat(parts, ".", 2, #parts - 2)
      P.namespaces[namespace] = true
      ctx.state.namespace = namespace
      tell(ctx, "namespace", namespace)
      tell(ctx, "server", parts[#parts - 1])
      tell(ctx, "purpose", parts[#parts])
    end
  end
end

function HANDLERS.SUB(ctx, v)
  if v.sid == nil then return end
  ctx.state.subscriptions = ctx.state.subscriptions or {}
  ctx.state.subscriptions[v.sid] = { v.subject, v.queue }
end

function HANDLERS.UNSUB(ctx, v) subscribed(ctx, v) end

function HANDLERS.PING(ctx)
  local pings = ctx.state.pings or {}
  ctx.state.pings = pings
  local side = tostring(ctx.pinfo.src_port)
  pings[side] = pings[side] or {}
  table.insert(pings[side], { number = ctx.pinfo.number, time = ctx.pinfo.abs_ts, memo = ctx.memo })
end

function HANDLERS.PONG(ctx)
  local waiting = (ctx.state.pings or {})[tostring(ctx.pinfo.dst_port)]
  if waiting and waiting[1] then
    ctx.conversation.requests.ping = table.remove(waiting, 1)
    answer(ctx, "ping")
  end
end

HANDLERS["-ERR"] = function(ctx, v) if v.error then refuse(ctx, "the server says: " .. printable(v.error)) end end

local function message(ctx, v)
  if v.sid then
    local known = subscribed(ctx, v)
    if known and known[2] then tell(ctx, "queue", known[2]) end
  elseif ctx.state.account and v.account == nil and ctx.state.link == "route" then
    tell(ctx, "account", ctx.state.account)
  end
  local asked = v.subject and replies[v.subject]
  if asked then
    ctx.conversation.requests.reply = asked
    answer(ctx, "reply")
    replies[v.subject] = asked.keep and asked or nil
  end
  if v.reply then
    replies[v.reply] = { number = ctx.pinfo.number, time = ctx.pinfo.abs_ts, memo = ctx.memo, subject = v.subject }
  end
  if type(v.status) == "number" and v.status >= 400 then refuse(ctx, "status " .. v.status) end
end

for name in pairs({ PUB = 1, HPUB = 1, MSG = 1, HMSG = 1, RMSG = 1, LMSG = 1 }) do HANDLERS[name] = message end
for name in pairs({ ["RS+"] = 1, ["RS-"] = 1, ["LS+"] = 1, ["LS-"] = 1 }) do
  HANDLERS[name] = function(ctx, v)
    if ctx.state.account and v.account == nil then tell(ctx, "account", ctx.state.account) end
  end
end

function P.learn(ctx, layer, v, name)
  if name and HANDLERS[name] then HANDLERS[name](ctx, v) end
  if P.carried then P.carried.learn(ctx, v) end
end

function P.finish(ctx, c, item, layer, v, name)
  if v.data and v.payload_at and not v.hidden and P.carried then P.carried.show(ctx, c, item, v) end
end
