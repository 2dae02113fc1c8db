package redis

import (
	"crypto/sha1" //nolint:gosec // the server names scripts by it
	"encoding/hex"
	"strings"
)

// script is a Lua program that the server keeps by its SHA-1.
type script struct{ source, sha string }

// scripts are all programs of a tier. Each changes everything or nothing: what
// can fail, for want of memory or because a key holds another type, comes
// before the first record is touched.
type scripts struct{ saveOne, save, apply, remove, reserve, touch, prune, count script }

func newScripts() scripts {
	return scripts{
		saveOne: newScript(luaSaveOne),
		save:    newScript(luaSave),
		apply:   newScript(luaCommon, luaApply),
		remove:  newScript(luaCommon, luaRemove),
		reserve: newScript(luaCommon, luaReserve),
		touch:   newScript(luaCommon, luaTouch),
		prune:   newScript(luaCommon, luaPrune),
		count:   newScript(luaCommon, luaCount),
	}
}

func (s scripts) all() []script {
	return []script{s.saveOne, s.save, s.apply, s.remove, s.reserve, s.touch, s.prune, s.count}
}

func newScript(parts ...string) script {
	source := luaTime + strings.Join(parts, "")
	sum := sha1.Sum([]byte(source)) //nolint:gosec // see the import
	return script{source: source, sha: hex.EncodeToString(sum[:])}
}

// luaTime begins every program. ARGV[1] begins with the instant, in
// microseconds of the server's clock, after which the program changes nothing:
// whoever sent it has been told by then that nobody knows. Every reply is a
// letter, the server's time in eight bytes, and more.
//
// What a program costs is mostly what it says to the server, so it says little.
// Numbers as arguments of a command are slow, so they are given as text. The
// server's Lua looks at every byte of a string that it makes, so none is made
// with a value in it: a value is written with an empty head, and its head after
// that.
const luaTime = `
local call, sub, pack, unpack_ = redis.call, string.sub, struct.pack, struct.unpack
local t = call('TIME')
local now = t[1] * 1000000 + t[2]
local stamp = pack('>I8', now)
if now > unpack_('>I8', ARGV[1]) then return 'l' .. stamp end

-- Beyond the highest version numbers are no longer exact, and two saves would
-- get the same. A mark that says so is damaged, like one of another length.
local highest = 9007199254740990
local function mark_of(mark)
  mark = mark and #mark == 8 and unpack_('>I8', mark) or 0
  return mark <= highest and mark or 0
end
`

// luaCommon is what the programs but that for saves share.
const luaCommon = `
local floor = math.floor

-- head answers nil for an absent key, the head of a record, or false.
local function head(key)
  local h = redis.pcall('GETRANGE', key, '0', '65')
  if h == '' then return nil end
  if #h ~= 66 or sub(h, 3, 34) ~= sub(h, 35) then return false end
  local magic = sub(h, 1, 2)
  return (magic == 's1' or magic == 's2') and unpack_('>I8', h, 3) <= highest and h
end

-- A batch may name a key more than once. changed has the heads that it writes
-- before they are written, '' for a key that it deletes; current looks there
-- first. last has the number of the record that decides what is written.
local changed, last = {}, {}
local function current(key)
  local h = changed[key]
  if h == nil then return head(key) end
  if h ~= '' then return h end
end

-- check answers the status of a condition: k (holds), x (there is a record),
-- c (another version) or b (there is one that can't be read).
local function check(h, cond, want)
  if cond == 0 then return 'k' end
  if want == 0 then return h == nil and 'k' or 'x' end
  if h == false then return 'b' end
  if h == nil or unpack_('>I8', h, 3) ~= want then return 'c' end
  return 'k'
end

-- last_ms answers the last millisecond in which a record with this expiry may
-- be read, which is what Redis wants to know, or nil when that has passed.
local function last_ms(expires)
  local ms = floor(expires / 1000) - 1
  if ms >= floor(now / 1000) then return string.format('%d', ms) end
end

local function get_mark(key)
  return mark_of(call('GET', key))
end

-- forget removes a key from its index, and an empty space from the set.
local function forget(index, spaces, space, name)
  if call('ZREM', index, name) == 1 and call('EXISTS', index) == 0 then call('SREM', spaces, space) end
end

-- remember enters a name into the index of its space, or only the space into
-- the set.
local function remember(indexed, index, spaces, space, name)
  if indexed == 0 or call('ZADD', index, '0', name) == 1 then call('SADD', spaces, space) end
end
`

// luaApply: KEYS are the mark, the set of spaces, m indexes and n records. ARGV:
// see luaTime; m, n and whether there is an index; m names of spaces. For each record there is the number of its
// space, the condition on what it replaces, whether it is deleted, its version
// and its expiry in one string, and the whole stored value in another.
const luaApply = `
local m, n, indexed = unpack_('>I4I4B', ARGV[2])
local mark = get_mark(KEYS[1])
local high, does = mark, {}
for i = 1, n do
  local space, cond, want, deleted, version, expires = unpack_('>I4BI8BI8i8', ARGV[m + 1 + 2 * i])
  local key = KEYS[m + 2 + i]
  local h = current(key)
  high = math.max(high, version)
  local over
  if cond == 1 then over = check(h, cond, want) == 'k'
  else over = not h or unpack_('>I8', h, 3) <= version end
  if over then
    last[key] = i
    local ms = expires ~= 0 and last_ms(expires)
    if deleted == 1 or expires ~= 0 and not ms then
      does[i], changed[key] = 'delete', ''
    else
      does[i], changed[key] = ms or 'forever', sub(ARGV[m + 2 + 2 * i], 1, 66)
    end
  end
end
if high > mark then call('SET', KEYS[1], pack('>I8', high)) end
for i = 1, n do
  if does[i] and does[i] ~= 'delete' then
    local space = unpack_('>I4', ARGV[m + 1 + 2 * i])
    remember(indexed, KEYS[2 + space], KEYS[2], ARGV[2 + space], sub(KEYS[m + 2 + i], #KEYS[2 + space] + 2))
  end
end
for i = 1, n do
  local key, what = KEYS[m + 2 + i], does[i]
  if last[key] ~= i then -- passed over, or replaced by a later one
  elseif what == 'delete' then
    local space = unpack_('>I4', ARGV[m + 1 + 2 * i])
    call('UNLINK', key)
    forget(KEYS[2 + space], KEYS[2], ARGV[2 + space], sub(key, #KEYS[2 + space] + 2))
  elseif what == 'forever' then call('SET', key, ARGV[m + 2 + 2 * i])
  else call('SET', key, ARGV[m + 2 + 2 * i], 'PXAT', what) end
end
return 'k' .. stamp
`

// luaRemove has the keys of luaApply without the mark. For each key there is
// the number of its space and the condition.
const luaRemove = `
local m, n = unpack_('>I4I4', ARGV[2])
local failed, status = false, {}
for i = 1, n do
  local _, cond, want = unpack_('>I4BI8', ARGV[m + 2 + i])
  local key = KEYS[m + 1 + i]
  status[i] = 'k'
  if cond == 1 then
    status[i] = check(current(key), cond, want)
    failed = failed or status[i] ~= 'k'
  end
  changed[key] = ''
end
if failed then return 'f' .. stamp .. table.concat(status) end
for i = 1, n do
  local space = unpack_('>I4', ARGV[m + 2 + i])
  local key = KEYS[m + 1 + i]
  status[i] = call('UNLINK', key)
  forget(KEYS[1 + space], KEYS[1], ARGV[2 + space], sub(key, #KEYS[1 + space] + 2))
end
return 'k' .. stamp .. table.concat(status)
`

// luaTouch: KEYS are the record, its index and the set of spaces; ARGV[2] is
// the TTL, ARGV[3] the name of the space.
const luaTouch = `
local key, h = KEYS[1], head(KEYS[1])
if h == nil then return 'k' .. stamp .. '0' end
if h == false then return 'f' .. stamp .. 'b' end
local ttl = unpack_('>i8', ARGV[2])
local expires, ms = 0, nil
if ttl ~= 0 then
  expires = now + ttl
  ms = last_ms(expires)
  if not ms then
    call('UNLINK', key)
    forget(KEYS[2], KEYS[3], ARGV[3], sub(key, #KEYS[2] + 2))
    return 'k' .. stamp .. '1'
  end
end
local times = sub(h, 3, 26) .. pack('>i8', expires)
call('SETRANGE', key, '2', times .. times)
if ms then call('PEXPIREAT', key, ms) else call('PERSIST', key) end
return 'k' .. stamp .. '1'
`

// luaPrune: KEYS are an index and the set of spaces; ARGV are the name of the
// space, where to begin, how many names to look at and how many to remove. It
// removes names whose record is gone. The reply has the number of removed
// names, and the last one it looked at when there may be more.
const luaPrune = `
local look, most = tonumber(ARGV[4]), tonumber(ARGV[5])
local names = call('ZRANGEBYLEX', KEYS[1], ARGV[3], '+', 'LIMIT', '0', ARGV[4])
local gone, last = 0, ''
for _, name in ipairs(names) do
  if gone == most then break end
  last = name
  if call('EXISTS', KEYS[1] .. ':' .. name) == 0 then
    forget(KEYS[1], KEYS[2], ARGV[2], name)
    gone = gone + 1
  end
end
if #names < look and last == (names[#names] or '') then last = '' end
if #names == 0 and call('EXISTS', KEYS[1]) == 0 then call('SREM', KEYS[2], ARGV[2]) end
return 'k' .. stamp .. pack('>I4', gone) .. last
`

// luaCount: KEYS[1] is an index; ARGV are where to begin and how many names to
// look at. The reply has the number of live records, the bytes of their keys
// and values, and the last name it looked at when there may be more.
const luaCount = `
local look = tonumber(ARGV[3])
local names = call('ZRANGEBYLEX', KEYS[1], ARGV[2], '+', 'LIMIT', '0', ARGV[3])
local live, bytes = 0, 0
for _, name in ipairs(names) do
  local key = KEYS[1] .. ':' .. name
  local size = redis.pcall('STRLEN', key)
  if type(size) ~= 'number' then
    live, bytes = live + 1, bytes + #name
  elseif size > 0 then
    local codec = size >= 76 and string.byte(call('GETRANGE', key, '75', '75')) or 0
    live, bytes = live + 1, bytes + #name + math.max(0, size - 76 - codec)
  end
end
local last = ''
if #names == look then last = names[#names] end
return 'k' .. stamp .. pack('>I8I8', live, bytes) .. last
`
