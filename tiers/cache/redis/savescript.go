package redis

// luaSaveOne saves one record, the usual case, without the bookkeeping that many
// need. KEYS are the mark, the set of spaces and the record. ARGV[1] has the
// instant of luaTime; the version that is wanted (0 for none at all, -1 for
// any); the TTL, which is 0 or at least shortestTTL; the length of the index's
// key, with which that of the record begins; the length of what comes before
// the name of a space in a key; what the value is to begin with; and whether
// what an old head says about the index can be relied on. ARGV[2] is the value
// with an empty head. The reply is like that of luaSave.
const luaSaveOne = `
local key = KEYS[3]
local _, want, ttl, size, root, magic, relied = unpack_('>I8i8i8I2I2c2B', ARGV[1])
local h = redis.pcall('GETRANGE', key, '0', '65')
local sign, created, one, two
if h ~= '' and #h == 66 then
  sign, one, two = unpack_('c2c32c32', h)
  if one == two and (sign == 's1' or sign == 's2') then created = sub(one, 9, 16) end
end
if want ~= -1 then
  if want == 0 then
    if h ~= '' then return 'f' .. stamp .. 'x' end
  elseif h == '' then return 'f' .. stamp .. 'c'
  elseif not created then return 'f' .. stamp .. 'b'
  elseif unpack_('>I8', one) ~= want then return 'f' .. stamp .. 'c' end
end

-- The mark is the first thing that is written, which a server without memory
-- refuses.
local version = stamp
local mark = call('SET', KEYS[1], version, 'GET')
mark = mark_of(mark)
if mark >= now then
  version = pack('>I8', mark + 1)
  call('SET', KEYS[1], version)
end
if not created or sign ~= 's1' or magic ~= 's1' or relied == 0 then
  local index = sub(key, 1, size)
  if magic ~= 's1' or call('ZADD', index, '0', sub(key, size + 2)) == 1 then call('SADD', KEYS[2], sub(index, root + 1, -4)) end
end

created = created or stamp
if ttl == 0 then
  h = version .. created .. stamp .. '\0\0\0\0\0\0\0\0'
  call('SET', key, ARGV[2])
else
  h = version .. created .. stamp .. pack('>i8', now + ttl)
  call('SET', key, ARGV[2], 'PXAT', string.format('%d', math.floor((now + ttl) / 1000) - 1))
end
call('SETRANGE', key, '0', magic .. h .. h)
return 'k' .. stamp .. version .. created
`

// luaSave: KEYS are the mark, the set of spaces and n records. ARGV[1] has the
// instant of luaTime; n; one byte each for whether there is an index, whether
// what an old head says about it can be relied on, whether the records are
// independent of each other, whether a condition is among them, and whether a
// key is named twice; the length of what comes before the name of a space in a
// key; and for each record the version that is wanted (0 for none at all, -1
// for any), the TTL, the instant after which it is too late and the length of
// its index's key, with which its own begins. The other ARGV are the values
// with empty heads.
//
// The reply is one of
//
//	k, time, version of the first, n times when it was created
//	f, time, n statuses: nothing was saved
//	m, time, version of the first, n statuses, n times when it was created
//
// A status is k (saved), l (too late), x (there is a record), c (another
// version) or b (there is one that can't be read). Those with k have versions
// one after another.
const luaSave = `
local K, A, pcall_ = KEYS, ARGV, redis.pcall
local head, at = A[1], 20
local n, indexed, relied, apart, choosy, twice, root, mark, _
_, n, indexed, relied, apart, choosy, twice, root = unpack_('>I8I4BBBBBI2', head)

-- The mark is the first thing that is written, which a server without memory
-- refuses.
local first = now - 1
if choosy == 1 then mark = call('GET', K[1])
else mark = call('SET', K[1], pack('>I8', first + n), 'GET') end
if mark then
  mark = mark_of(mark)
  if mark > first then
    first = mark
    if choosy == 0 then call('SET', K[1], pack('>I8', first + n)) end
  end
end

local version, failed, status = first, false, {}
local heads, created, ends, sizes, fresh = {}, {}, {}, {}, {}
-- For a key that is named twice, written has the head that it will have by
-- then, '' for none, and last the number of the record that decides.
local written, last = {}, {}
local magic, own = indexed == 1 and 's1' or 's2', indexed == 1 and relied == 1 and 's1'
local ttl, expires, ms -- of the record before, whose TTL is mostly the same
for i = 1, n do
  local want, life, latest, size
  want, life, latest, size, at = unpack_('>i8i8I8I2', head, at)
  local key = K[i + 2]
  local h = twice == 1 and written[key] or pcall_('GETRANGE', key, '0', '65')
  local sign = false -- of an old head that is whole
  if h ~= '' and #h == 66 and sub(h, 3, 34) == sub(h, 35) then
    sign = sub(h, 1, 2)
    if sign ~= 's1' and sign ~= 's2' then sign = false end
  end
  local s = 'k'
  if now > latest then s = 'l'
  elseif want == -1 then
  elseif want == 0 then s = h == '' and 'k' or 'x'
  elseif h == '' then s = 'c'
  elseif not sign then s = 'b'
  elseif unpack_('>I8', h, 3) ~= want then s = 'c' end
  status[i] = s
  if s ~= 'k' then
    failed, created[i] = true, '\0\0\0\0\0\0\0\0'
  else
    if life ~= ttl then
      -- ms is the last millisecond in which the record may be read, which is
      -- what Redis wants to know; nil for ever, false when that has passed.
      ttl, expires, ms = life, '\0\0\0\0\0\0\0\0', nil
      if life ~= 0 then
        expires, ms = pack('>i8', now + life), math.floor((now + life) / 1000) - 1
        ms = ms >= math.floor(now / 1000) and string.format('%d', ms)
      end
    end
    version = version + 1
    local c = sign and sub(h, 11, 18) or stamp
    if ms == false then h = ''
    else
      if sign ~= own or not own then fresh[#fresh + 1] = i end
      h = pack('>I8', version) .. c .. stamp .. expires
      h = magic .. h .. h
    end
    heads[i], ends[i], created[i], sizes[i] = h, ms, c, size
    if twice == 1 then written[key], last[key] = h, i end
  end
end
if failed and (apart == 0 or version == first) then return 'f' .. stamp .. table.concat(status) end
if choosy == 1 then call('SET', K[1], pack('>I8', version)) end

-- Names of new records enter the index of their space, many at once; and the
-- space the set of spaces.
local index, names
local function enter()
  if indexed == 0 or call('ZADD', index, unpack(names)) > 0 then call('SADD', K[2], sub(index, root + 1, -4)) end
end
for _, i in ipairs(fresh) do
  local key, size = K[i + 2], sizes[i]
  local bucket = sub(key, 1, size)
  if index ~= bucket or #names > 500 then
    if index then enter() end
    index, names = bucket, {}
  end
  names[#names + 1] = '0'
  names[#names + 1] = sub(key, size + 2)
end
if index then enter() end

for i = 1, n do
  local key, h, ms = K[i + 2], heads[i], ends[i]
  if not h or twice == 1 and last[key] ~= i then -- it failed, or a later one replaces it
  elseif h == '' then
    local bucket = sub(key, 1, sizes[i])
    call('UNLINK', key)
    if call('ZREM', bucket, sub(key, sizes[i] + 2)) == 1 and call('EXISTS', bucket) == 0 then
      call('SREM', K[2], sub(bucket, root + 1, -4))
    end
  else
    if ms then call('SET', key, A[i + 1], 'PXAT', ms) else call('SET', key, A[i + 1]) end
    call('SETRANGE', key, '0', h)
  end
end
local saved = stamp .. pack('>I8', first + 1)
if failed then return 'm' .. saved .. table.concat(status) .. table.concat(created) end
return 'k' .. saved .. table.concat(created)
`
