package main

import (
	"encoding/binary"
	"strconv"
)

const valueSize = 1024

var filler = func() []byte {
	b := make([]byte, valueSize)
	for i := range b {
		b[i] = byte(i * 31)
	}
	return b
}()

// value answers 1 KiB that differs from call to call: SQLite skips the sync
// when a row is replaced by an equal one.
func value(caller, i int) []byte {
	b := append(make([]byte, 0, valueSize), filler...)
	binary.LittleEndian.PutUint64(b, uint64(i))
	binary.LittleEndian.PutUint64(b[8:], uint64(caller))
	return b
}

// name answers one of n keys, spread so that callers seldom meet.
func name(caller, i, n int) string {
	return "key-" + strconv.Itoa((caller*7919+i)%n)
}
