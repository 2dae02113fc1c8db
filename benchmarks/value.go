package main

import (
	"encoding/binary"
	"strconv"
)

const valueSize = 1024

// value answers 1 KiB that differs from call to call: SQLite skips the sync
// when a row is replaced by an equal one.
func value(caller, i int) []byte {
	b := make([]byte, valueSize)
	binary.LittleEndian.PutUint64(b, uint64(i))
	binary.LittleEndian.PutUint64(b[8:], uint64(caller))
	for j := 16; j < len(b); j++ {
		b[j] = byte(j * 31)
	}
	return b
}

// name answers one of n keys, spread so that callers seldom meet.
func name(caller, i, n int) string {
	return "key-" + strconv.Itoa((caller*7919+i)%n)
}
