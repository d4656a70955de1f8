-- Cursus: what texts say, by the names of their parameters and the members of their JSON.

-- Reading texts: silently by their layer, then under the names of what they say.

function R.stretch(f, c, v, at, tree, node)
  local from, to = c.pos, c.pos
  if f.pattern then
    local first, last = match_at(c, f.pattern)
    to = first and last or from
  else
    to = c.stop
    while to > from and sub(c.s, to, to):find("[ \t\r\n\v\f]") do to = to - 1 end
  end
  c.pos = to
  return sub(c.s, from + 1, to)
end

function R.text_list(f, c, v, at, tree, node)
  local stop = c.stop
  if f.tag then
    local first = c.s:find(f.tag, c.pos + 1, true)
    if first and first - 1 < stop then stop = first - 1 end
  end
  while stop > c.pos and sub(c.s, stop, stop):find("[ \t\r\n\v\f]") do stop = stop - 1 end
  return elements(f, c, v, at, tree, node, stop)
end

-- Whether a text is secret is told when it is shown.
function CALL.token_next() return false end
function CALL.token_inside() return false end
function CALL.payload_tells(c) return false end

local TOKEN = rex_pcre2.new("token=((?:[^\\s\"\\\\]|\\\\(?!\"))+)")

local function guarded(text)
  if show_secrets or not text:find("token=", 1, true) then return text end
  return (rex_pcre2.gsub(text, TOKEN, function(secret) return "token=" .. redacted(secret) end))
end

-- The value of a piece; of a parameter that is a token, nothing.
local function value_of(piece)
  local text = piece.value or piece.secret or ""
  if show_secrets then return text end
  if piece.secret then return redacted(piece.secret) end
  local whole = (piece.key and piece.key .. "=" or "") .. text
  if CREDENTIAL:find(whole) then
    local plain_text = guarded(text)
    local rest = rex_pcre2.gsub(text, TOKEN, "")
    return (plain_text == text or CREDENTIAL:find(rest)) and redacted(text) or plain_text
  end
  return text
end

local SIMPLE = { a = "\a", b = "\b", f = "\f", n = "\n", r = "\r", t = "\t", v = "\v" }
local function unquoted(text)
  if sub(text, 1, 1) ~= '"' then return text end
  text = sub(text, 2, #text > 1 and sub(text, -1) == '"' and -2 or -1)
  return (text:gsub("\\(.)", function(code) return SIMPLE[code] or code end))
end

-- Show a named value; numbers and truth values where they look like it.
local function show(c, tree, name, value, wanted, piece)
  local node = P.at("cursus").kids[name]
  if node == nil or value == nil then return end
  if wanted == "integer" and type(value) == "string" and value:find("^-?%d+$") and #value <= 20 then
    value = #value < 16 and tonumber(value) or (sub(value, 1, 1) == "-" and Int64 or UInt64)(value)
  elseif wanted == "boolean" and (value == "true" or value == "false") then
    value = value == "true"
  end
  if type(value) == "string" and node.ftype ~= "string" then return end
  c.named[name] = value
  add(c, tree, node, piece and piece._from or 0, piece and piece._to or 0, value)
end

local function offset_list(text)
  local list = {}
  for item in (text .. ","):gmatch("([^,]*),") do
    local partition, offset = item:match("^P?(%d+):(%d+)$")
    if partition == nil then return nil end
    list[#list + 1] = { partition, offset }
  end
  return list
end

local function show_offsets(c, tree, list, piece)
  local node = P.at("cursus.offsets")
  for index, pair in ipairs(list) do
    local item = add(c, tree, node, piece._from, piece._to)
    item:set_text(format("offsets[%d]", index - 1))
    add(c, item, node.kids.partition, piece._from, piece._to, tonumber(pair[1]))
    for name, number in pairs(pair.named or { offset = pair[2] }) do
      if node.kids[name] then add(c, item, node.kids[name], piece._from, piece._to, tonumber(number)) end
    end
  end
end

local function show_parameters(c, tree, v, command)
  local last = {}
  for _, piece in ipairs(v.arguments or {}) do
    if piece.key and P.parameters[piece.key] then last[P.parameters[piece.key][1]] = piece end
  end
  local words = {}
  for _, piece in ipairs(v.arguments or {}) do
    if piece.key == nil then
      words[#words + 1] = piece
    elseif P.parameters[piece.key] and last[P.parameters[piece.key][1]] == piece then
      local parameter = P.parameters[piece.key]
      show(c, tree, parameter[1], value_of(piece), parameter[2], piece)
    end
  end
  local offsets = P.offset_commands[command] and words[#words] and offset_list(words[#words].value or "")
  if offsets then show_offsets(c, tree, offsets, table.remove(words)) end
  for _, piece in ipairs(words) do show(c, tree, "ignored_words", value_of(piece), nil, piece) end
  if v.tail and v.tail.message ~= nil then
    show(c, tree, "message", guarded(v.tail.message), nil, v.tail)
  elseif v.tail and v.tail.json_text then
    show(c, tree, "payload", value_of({ value = v.tail.json_text }), nil, v.tail)
  end
end

local function show_words(c, tree, v, command)
  local places = ((v.envelope_topic or "") ~= "" and P.positional_2025 or P.positional)[command] or {}
  local words = v.words or {}
  for index, piece in ipairs(words) do
    local key = places[index]
    if key == "message" then
      local rest = {}
      for place = index, #words do rest[#rest + 1] = value_of(words[place]) end
      show(c, tree, "message", table.concat(rest, " "), nil, piece)
      return
    elseif key == "offsets" then
      show_offsets(c, tree, offset_list(piece.value or "") or {}, piece)
    elseif key then
      show(c, tree, P.parameters[key][1], value_of(piece), P.parameters[key][2], piece)
    else
      show(c, tree, "ignored_words", value_of(piece), nil, piece)
    end
  end
end

local function partition_offsets(text)
  local list = {}
  for item in (text .. ","):gmatch("([^,]*),") do
    local partition, rest = item:match("^P(%d+)([:%w_=-]*)$")
    if partition == nil then return nil end
    local named = {}
    for name, number in rest:gmatch(":([a-z_]+)=(-?%d+)") do named[name] = number end
    list[#list + 1] = { partition, named = named }
  end
  return list
end

local function show_list(c, tree, name, text, piece)
  local inner = text:gsub("^%[", ""):gsub("%]$", ""):gsub(",", " ")
  for number in inner:gmatch("%S+") do show(c, tree, name, number, "integer", piece) end
end

-- The fields of OK, ERROR and STREAM_CONTROL.
local function show_reply(c, tree, pieces)
  local words, last = {}, {}
  for _, piece in ipairs(pieces or {}) do
    if piece.key then last[piece.key] = piece end
  end
  for _, piece in ipairs(pieces or {}) do
    local key, value = piece.key, unquoted(value_of(piece))
    local name = P.reply_names[key or ""] or key
    if key == nil then
      words[#words + 1] = { value, piece }
    elseif last[key] ~= piece then
      value = nil -- a later one counts
    elseif P.reply_integers[key] then
      show(c, tree, name, value, "integer", piece)
    elseif P.reply_booleans[key] then
      show(c, tree, name, value, "boolean", piece)
    elseif key == "assignments" then
      show_list(c, tree, name, value, piece)
    elseif key == "offsets" then
      local list = partition_offsets(value)
      if list then show_offsets(c, tree, list, piece) else show(c, tree, "offset_count", value, "integer", piece) end
    elseif P.reply_texts[key] then
      show(c, tree, name, value, nil, piece)
    end
  end
  if #words == 1 and sub(words[1][1], 1, 1) == "[" then
    show_list(c, tree, "assignments", words[1][1], words[1][2])
    return {}
  end
  for _, word in ipairs(words) do show(c, tree, "details", word[1], nil, word[2]) end
  return words
end

local function error_class(code)
  if P.error_classes[code] then return P.error_classes[code] end
  if code:find("^not_authorized") or code:find("^authorization_") then return "authorization" end
  if code:find("_not_found$") or code:find("_missing$") then return "not_found" end
  for _, front in ipairs({ "missing_", "invalid_", "empty_", "malformed_", "decode_", "unmarshal_" }) do
    if sub(code, 1, #front) == front then return "validation" end
  end
  return "internal"
end

local function show_json_members(c, tree, text, from)
  local place = json_space(text, 1)
  if sub(text, place, place) ~= "{" then
    show(c, tree, "json", text, nil, { _from = from, _to = from + #text })
    return {}
  end
  local members = json_members(text, place, 1)
  local values = {}
  for _, member in ipairs(members) do
    values[member.name] = member.value
    local node = P.at("cursus").kids[member.name]
    if node then
      c.named[member.name] = member.value
      local secret = is_secret(member.name, member.value)
      local outer, s = c.s, ("\0"):rep(from) .. text
      c.s = s
      add_json(c, tree, node, from + member.from - 1, from + member.to - 1, member.value, secret)
      c.s = outer
    end
  end
  return values
end

local function json_kind(values)
  for _, pair in ipairs(P.json_types) do
    if values[pair[1]] ~= nil then return pair[2] end
  end
  return "Json"
end

-- What a text says, by its layer; returns the type of the message.
local function show_text(ctx, c, tree, layer, v)
  local texts = P.texts
  local node = P.at("cursus")
  for _, name in ipairs({ "length", "envelope_topic", "command_name", "error_code" }) do
    if v[name] ~= nil and not (name == "length" and c.inner) then add(c, tree, node.kids[name], 0, 0, v[name]) end
  end
  local command = (v.command_name or ""):upper()
  if layer == texts.command or layer == texts.payload or layer == texts.auth then
    show_parameters(c, tree, v, command)
    return command
  elseif layer == texts.positional then
    show_words(c, tree, v, command)
    return command
  elseif layer == texts.discovery then
    if v.token then show(c, tree, "auth_token", show_secrets and v.token or redacted(v.token)) end
    show_json_members(c, tree, v.json_text or "", 0)
    return command
  elseif layer == texts.envelope then
    show(c, tree, "text", value_of({ value = v.text or "" }))
    return "Envelope"
  elseif layer == texts.success then
    show_reply(c, tree, v.reply_fields)
    return "OK"
  elseif layer == texts.failure then
    local words = show_reply(c, tree, v.details)
    local class = c.named.error_class or error_class(v.error_code or "")
    if c.named.error_class == nil then show(c, tree, "error_class", class) end
    if c.named.retryable == nil then show(c, tree, "retryable", class == "routing" or class == "availability") end
    if #words == 2 and words[1][1] == "LEADER_IS" then show(c, tree, "leader", words[2][1]) end
    return "ERROR"
  elseif layer == texts.control then
    show_reply(c, tree, v.details)
    return "STREAM_CONTROL"
  elseif layer == texts.json then
    local values = show_json_members(c, tree, v.json_text or "", 4)
    local kind = json_kind(values)
    if values.status == "ERROR" or kind == "JsonError" then
      local code = tostring(values.error or ""):match("^[^ ]*")
      show(c, tree, "error_code", code)
      show(c, tree, "error_class", error_class(code))
      c.refusal = code
    end
    return kind
  elseif layer == texts.text then
    show(c, tree, "text", value_of({ value = v.text or "" }))
    return "Text"
  end
end
